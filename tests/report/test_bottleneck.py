"""The bottleneck is told with the figures of the record, measured first; of what is unknown nothing is."""

from collections.abc import Callable
from typing import Any

from build_loops import CPU, device_parts, parts, record, slow_together
from build_records import cpu, interval, recommendation, run

from tunekit.diagnose.bottleneck import bottleneck
from tunekit.records.recommendation import Limit, ModelSummary, PredictedLimits, Tier
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.report.bottleneck import bottleneck_passage, bound_text


def limits(tier: Tier | None = None, limit: Limit | None = Limit.LOADER, **overrides: Any) -> PredictedLimits:
    values = {
        "tier": tier,
        "loader_samples_per_s": 410.0,
        "training_samples_per_s": 655.0,
        "cores_samples_per_s": 395.0,
        "limit": limit,
        "rate_samples_per_s": interval(400.0),
        "measured_samples_per_s": 405.0,
    }
    return PredictedLimits(**(values | overrides))


def trials(baseline_wait: float = 0.36, wait: float = 0.02, **overrides: Any) -> tuple[TrialRecord, ...]:
    """The baseline's first trial, and the one that found the recommended config, by their data wait."""
    own = record(parts=parts(wait=baseline_wait), device_parts=device_parts(stall=baseline_wait), **overrides)
    found = record(parts=parts(wait=wait), device_parts=device_parts(stall=wait), **overrides)
    best = recommendation()
    return (
        own.changed(number=0, role=TrialRole.BASELINE, is_baseline_config=True),
        found.changed(number=best.search_trial, config=best.config),
    )


def explained(*of: PredictedLimits, **overrides: Any) -> Run:
    """A run with one recommendation that waits little, and a model that says this."""
    model = ModelSummary(limits=of, missed_relative=0.0412, checked_configs=12)
    values = {
        "model": model,
        "recommendations": (recommendation(confirm_trials=()),),
        "why_stopped": "nothing is left to try",
        "trials": trials(),
    }
    return run(**(values | overrides))


def lines(of: Run) -> tuple[str, ...]:
    return bottleneck_passage(of).lines


BALANCED = limits(Tier.BALANCED, Limit.TRAINING, loader_samples_per_s=1234.0)
KEPT = recommendation(is_baseline=True, confirm_trials=())
UNKNOWN = limits(limit=None, loader_samples_per_s=None, cores_samples_per_s=None)


RUNS: dict[str, Run] = {
    "usual": explained(limits(), BALANCED),
    "model disagrees": explained(
        limits(loader_samples_per_s=20.8, measured_samples_per_s=28.7), limits(Tier.BALANCED)
    ),
    "cores": explained(limits(Tier.BALANCED, Limit.CORES), trials=trials(device=cpu())),
    "baseline kept": explained(limits(), limits(Tier.BALANCED), recommendations=(KEPT,)),
    "loader unknown": explained(
        model=ModelSummary(limits=(UNKNOWN,), missed_relative=None, checked_configs=None)
    ),
    "no trial": explained(limits(), trials=()),
}
LOOPS: dict[str, TrialRecord] = {
    "epoch boundaries": record(boundary_s=50.0),
    "no GPU times": record(parts=parts(wait=0.36), device_parts=None),
    "host": record(device_parts=device_parts(drained=0.9)),
    "slow together": slow_together(),
    "no DataLoader": record(device=CPU, has_loader=False),
}


def test_every_bottleneck(golden: Callable[[str], object]):
    texts = [f"=== {name}\n" + "".join(f"{line}\n" for line in lines(of)) for name, of in RUNS.items()]
    texts += [f"=== loop: {name}\n{bound_text(bottleneck([of]))}\n" for name, of in LOOPS.items()]
    assert "\n".join(texts) == golden("bottlenecks.txt")
