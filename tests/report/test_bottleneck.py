"""The bottleneck is told with the figures of the record, measured first; of what is unknown nothing is."""

from collections.abc import Callable
from typing import Any

from any_records import runs
from build_loops import CPU, device_parts, parts, record, slow_together
from build_records import cpu, interval, recommendation, run
from hypothesis import given

from tunekit.diagnose.bottleneck import bottleneck_of
from tunekit.recommend.recommendation import answer_of
from tunekit.records.recommendation import Limit, ModelSummary, PredictedLimits, Recommendation, Tier
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.report.bottleneck import bottleneck_passage, verdict_text
from tunekit.units import rate_text


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
    return bottleneck_passage(of, answer_of(of.recommendations)).lines


BALANCED = limits(Tier.BALANCED, Limit.TRAINING, loader_samples_per_s=1234.0)
KEPT = recommendation(is_baseline=True, confirm_trials=())
FASTER = recommendation(Tier.AGGRESSIVE, rate_samples_per_s=interval(1500.0), confirm_trials=())
UNKNOWN = limits(limit=None, loader_samples_per_s=None, cores_samples_per_s=None)


def baseline_was(**overrides: Any) -> Run:
    """A run whose baseline's trial was measured so."""
    own, found = trials()
    changed = record(parts=parts(wait=0.36), **({"device_parts": device_parts(stall=0.02)} | overrides))
    return explained(trials=(own.changed(measurement=changed.measurement), found))


RUNS: dict[str, Run] = {
    "usual": explained(limits(), BALANCED),
    "model disagrees": explained(
        limits(loader_samples_per_s=20.8, measured_samples_per_s=28.7), limits(Tier.BALANCED)
    ),
    **{f"limit {limit}": explained(limits(limit=limit)) for limit in (*Limit, None)},
    "epoch boundaries": baseline_was(boundary_s=50.0),
    "no DataLoader": baseline_was(has_loader=False),
    "no GPU times": baseline_was(device_parts=None),
    "on a CPU": explained(limits(Tier.BALANCED, Limit.TRAINING), trials=trials(device=cpu(), num_workers=2)),
    "cores": explained(limits(Tier.BALANCED, Limit.CORES), trials=trials(device=cpu())),
    "another tier is faster": explained(recommendations=(recommendation(confirm_trials=()), FASTER)),
    "ended by the budget": explained(limits(Tier.BALANCED, Limit.TRAINING), why_stopped=None),
    "baseline kept": explained(limits(), limits(Tier.BALANCED), recommendations=(KEPT,)),
    "loader unknown": explained(
        model=ModelSummary(limits=(UNKNOWN,), missed_relative=None, checked_configs=None)
    ),
    "no model": explained(model=None, why_stopped=None),
    "no trial": explained(limits(), trials=()),
}
LOOPS: dict[str, TrialRecord] = {
    "data": record(device=CPU, parts=parts(wait=0.36)),
    "no workers": record(device=CPU, parts=parts(wait=0.36), num_workers=0),
    "host": record(device_parts=device_parts(drained=0.9)),
    "slow together": slow_together(),
    "compute": record(device=CPU, parts=parts(wait=0.12)),
    "no DataLoader": record(device=CPU, has_loader=False),
    "abandoned": record(stop_reason="abandoned", boundary_s=None),
}


def test_every_bottleneck(golden: Callable[[str, str], None]):
    texts = [f"=== {name}\n" + "".join(f"{line}\n" for line in lines(of)) for name, of in RUNS.items()]
    texts += [f"=== loop: {name}\n{verdict_text(of)}\n" for name, of in LOOPS.items()]
    golden("bottlenecks.txt", "\n".join(texts))


@given(runs())
def test_the_figures_shown_are_those_of_the_record(any_run: Run):
    told = lines(any_run)
    best = answer_of(any_run.recommendations)
    wanted: list[Recommendation | None] = [None] if best is None or not best.is_baseline else []
    wanted += [best] if best is not None else []
    shown = [seen for one in wanted if (seen := bottleneck_of(any_run, one)) is not None]
    assert len(told) == len(shown) + bool(shown and any_run.model)
    for line, one in zip(told, shown, strict=False):
        if one.predicted is None:
            continue
        figures = [one.predicted.loader_samples_per_s, one.predicted.training_samples_per_s]
        if one.predicted.limit is Limit.CORES:
            figures.append(one.predicted.cores_samples_per_s)
        model = line.partition("the model predicts ")[2].partition(" samples/s")[0]
        assert [part.split()[-1] for part in model.split(" / ")] == [*map(rate_text, figures)]
    if shown and any_run.model and any_run.model.missed_relative is not None:
        assert f"model error {any_run.model.missed_relative:.1%}" in told[-1]
