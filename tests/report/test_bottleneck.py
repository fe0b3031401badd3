"""The bottleneck is told with the figures of the record, measured first; of what is unknown nothing is."""

import re
from typing import Any

import pytest
from any_records import runs
from build_loops import CPU, device_parts, parts, record, slow_together
from build_records import cpu, interval, recommendation, run
from hypothesis import given

from tunekit.diagnose.bottleneck import bottleneck_of
from tunekit.recommend.recommendation import answer_of
from tunekit.records.interval import Interval
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


def test_the_baseline_comes_first_then_what_is_recommended_then_the_models_error():
    told = explained(limits(), limits(Tier.BALANCED, Limit.TRAINING, loader_samples_per_s=1234.0))
    assert lines(told) == (
        "baseline: data-bound, 36% of step time is data wait; the loader allows 410 samples/s, training 655 "
        "(predicted)",
        "balanced: compute-bound, 2% of step time is data wait; the loader allows 1,234 samples/s, training "
        "655 (predicted); beyond these knobs, faster only with less training work per sample, or another GPU",
        "model error 4.1% (leave-one-out, n=12)",
    )


def test_where_the_model_contradicts_the_measurement_one_sentence_says_so():
    told = explained(
        limits(loader_samples_per_s=20.8, measured_samples_per_s=28.7),
        limits(Tier.BALANCED, Limit.LOADER),
    )
    assert [line.split("; ")[1] for line in lines(told)[:2]] == [
        "the model disagrees (loader-bound at 20.8 samples/s, 28.7 measured): the measurement counts",
        "the model disagrees (loader-bound at 410 samples/s, 405 measured): the measurement counts",
    ]


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (Limit.CORES, "the CPU cores that both share allow 395 samples/s, the loader 410, training 655"),
        (Limit.BOTH, "the loader allows 410 samples/s"),
        (Limit.TURNS, "the loader allows 410"),
        (Limit.TRAINING, "the model disagrees (training-bound at 655 samples/s"),
        (None, "the loader allows"),
    ],
)
def test_each_limit_has_its_words(limit: Limit | None, words: str):
    first, *_ = lines(explained(limits(limit=limit)))
    assert first.startswith(f"baseline: data-bound, 36% of step time is data wait; {words}")


@pytest.mark.parametrize(
    ("baseline", "words"),
    [
        ({"boundary_s": 50.0}, "bound by epoch boundaries, they take 50.0 s of each epoch's 1m 29s"),
        ({"has_loader": False}, "no DataLoader, data wait n/a"),
        ({"device_parts": None}, "unclear, for nothing saw the GPU's own time, 36% of"),
    ],
)
def test_each_measured_verdict_has_its_words(baseline: dict[str, Any], words: str):
    own, found = trials()
    changed = record(parts=parts(wait=0.36), **({"device_parts": device_parts(stall=0.02)} | baseline))
    own = own.changed(measurement=changed.measurement)
    first, *_ = lines(explained(trials=(own, found)))
    assert first.startswith(f"baseline: {words}")


def test_on_a_cpu_no_gpu_is_advised():
    told = explained(limits(Tier.BALANCED, Limit.TRAINING), trials=trials(device=cpu(), num_workers=2))
    assert lines(told)[1].endswith("faster only with less training work per sample, or a faster machine")


def test_cores_that_are_shared_are_what_more_of_would_help():
    told = explained(limits(Tier.BALANCED, Limit.CORES), trials=trials(device=cpu()))
    assert lines(told)[1].endswith("faster only with less work per sample in either, or more CPU cores")


def test_the_knobs_are_not_at_their_end_where_another_tier_is_faster():
    faster = recommendation(Tier.AGGRESSIVE, rate_samples_per_s=interval(1500.0), confirm_trials=())
    told = explained(recommendations=(recommendation(confirm_trials=()), faster))
    assert not any("beyond these knobs" in line for line in lines(told))


def test_the_knobs_are_not_at_their_end_where_only_the_budget_is():
    told = explained(limits(Tier.BALANCED, Limit.TRAINING), why_stopped=None)
    assert not any("beyond these knobs" in line for line in lines(told))


def test_a_baseline_that_is_kept_is_told_once_with_what_is_left():
    kept = recommendation(is_baseline=True, confirm_trials=())
    told = lines(explained(limits(), limits(Tier.BALANCED), recommendations=(kept,)))
    assert [line.split(":")[0] for line in told[:-1]] == ["balanced"]
    assert "beyond these knobs" in told[0]


def test_what_is_unknown_is_not_guessed():
    unknown = limits(limit=None, loader_samples_per_s=None, cores_samples_per_s=None)
    model = ModelSummary(limits=(unknown,), missed_relative=None, checked_configs=None)
    told = lines(explained(unknown, model=model))
    assert told[0].endswith("; the loader allows n/a samples/s, training 655 (predicted)")
    assert told[-1] == "model error n/a: it takes two measured configs"


def test_without_a_model_the_measured_verdict_stands_alone():
    told = lines(explained(model=None, why_stopped=None))
    assert told == (
        "baseline: data-bound, 36% of step time is data wait",
        "balanced: compute-bound, 2% of step time is data wait",
    )


def test_a_run_without_a_measured_trial_shows_nothing():
    assert lines(explained(limits(), trials=())) == ()


@given(runs())
def test_the_figures_shown_are_those_of_the_record(any_run: Run):
    told = lines(any_run)
    best = answer_of(any_run.recommendations)
    wanted: list[Recommendation | None] = [None] if best is None or not best.is_baseline else []
    wanted += [best] if best is not None else []
    shown = [seen for one in wanted if (seen := bottleneck_of(any_run, one)) is not None]
    assert len(told) == len(shown) + bool(shown and any_run.model)
    for line, one in zip(told, shown, strict=False):
        if one.predicted is None or one.is_model_refuted:
            continue
        figures = [one.predicted.loader_samples_per_s, one.predicted.training_samples_per_s]
        if one.predicted.limit is Limit.CORES:
            figures.insert(0, one.predicted.cores_samples_per_s)
        figures_told = re.findall(r"(?:allows?|, training|, the loader) (n/a|[\d.,]*\d)", line)
        assert figures_told == [rate_text(figure) for figure in figures]
    if shown and any_run.model and any_run.model.missed_relative is not None:
        assert f"model error {any_run.model.missed_relative:.1%}" in told[-1]


# --- of a profiled loop ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("of", "text"),
    [
        (
            record(device=CPU, parts=parts(wait=0.36)),
            "Data-bound: 36% of step time is data wait, 36.0 ms of 100 ms per batch (measured).",
        ),
        (
            record(device=CPU, parts=parts(wait=0.36), num_workers=0),
            "Data-bound: no workers, so loading and training take turns, 36% of step time is data wait, "
            "36.0 ms of 100 ms per batch (measured).",
        ),
        (
            record(device_parts=device_parts(drained=0.9)),
            "Host-bound: the GPU had no work left before 90% of the batches, 0% of step time is data wait, "
            "0.00 ms of 100 ms per batch (measured).",
        ),
        (
            slow_together(),
            "Inconclusive: loader alone 8.00 ms and training alone 10.0 ms do not explain 120 ms of both "
            "together, 12% of step time is data wait, 14.4 ms of 120 ms per batch (measured).",
        ),
        (
            record(device=CPU, parts=parts(wait=0.12)),
            "Compute-bound: 12% of step time is data wait, 12.0 ms of 100 ms per batch (measured).",
        ),
        (
            record(device=CPU, has_loader=False),
            "No DataLoader: how much of its 100 ms per batch is making the batch is n/a.",
        ),
        (
            record(stop_reason="abandoned", boundary_s=None),
            "Bottleneck: n/a, the trial was given up before it was measured.",
        ),
    ],
)
def test_a_profile_says_its_bottleneck_in_one_sentence(of: TrialRecord, text: str):
    assert verdict_text(of) == text


@pytest.mark.parametrize(("low", "is_firm"), [(130.0, True), (67.0, True), (65.0, False), (3.61, False)])
def test_beside_a_rate_that_may_be_anything_no_verdict_stands(low: float, is_firm: bool):
    rate = Interval(value=131.5, low=low, high=132.0)
    told = verdict_text(record(device=CPU, parts=parts(wait=0.36)), rate)
    words = "Data-bound: " if is_firm else "Inconclusive: the rate is too uncertain for a verdict, "
    assert told == f"{words}36% of step time is data wait, 36.0 ms of 100 ms per batch (measured)."
