"""What holds the rate is told with the record's own figures, and nothing is told where nothing is known."""

import re
from typing import Any

import pytest
from any_records import runs
from build_records import baseline_record, cpu, interval, recommendation, run
from hypothesis import given, settings

from tunekit.recommend.recommendation import answer_of
from tunekit.records.recommendation import Limit, ModelSummary, PredictedLimits, Tier
from tunekit.records.run import Run
from tunekit.report.tiers import ceilings_passage
from tunekit.units import rate_text


def limits(tier: Tier | None = None, limit: Limit | None = Limit.LOADER, **overrides: Any) -> PredictedLimits:
    values = {
        "tier": tier,
        "loader_samples_per_s": 410.0,
        "training_samples_per_s": 655.0,
        "cores_samples_per_s": 380.0,
        "limit": limit,
        "rate_samples_per_s": interval(400.0),
        "measured_samples_per_s": 405.0,
    }
    return PredictedLimits(**(values | overrides))


def explained(*of: PredictedLimits, **overrides: Any) -> Run:
    """A run with one recommendation and a model that says this."""
    model = ModelSummary(limits=of, missed_relative=0.0412, checked_configs=12)
    values = {"model": model, "recommendations": (recommendation(),), "why_stopped": "nothing is left to try"}
    return run(**(values | overrides))


def lines(of: Run) -> tuple[str, ...]:
    return ceilings_passage(of, answer_of(of.recommendations)).lines


def test_the_baseline_comes_first_then_what_is_recommended_then_how_far_to_trust_it():
    told = explained(limits(), limits(Tier.BALANCED, Limit.TRAINING, loader_samples_per_s=1234.0))
    assert lines(told) == (
        "baseline: loader-bound; the loader allows 410 samples/s, training 655",
        "balanced: training-bound; the loader allows 1,234 samples/s, training 655; "
        "beyond these knobs, faster only with less training work per sample, or another GPU",
        "the model missed 12 measured configs by 4.1% on average, each predicted from the others",
    )


def test_the_title_says_that_the_figures_are_predicted():
    told = explained(limits())
    assert ceilings_passage(told, None).title == "What holds the rate (predicted)"


@pytest.mark.parametrize(
    ("limit", "words"),
    [
        (
            Limit.CORES,
            "bound by the cores that loader and training share; the cores allow 380 samples/s, the",
        ),
        (Limit.BOTH, "loader and training bind alike; the loader allows 410 samples/s"),
        (Limit.TURNS, "no workers, so loading and training wait for each other; the loader allows 410"),
        (None, "what binds is n/a; the loader allows"),
    ],
)
def test_each_limit_has_its_words(limit: Limit | None, words: str):
    first, *_ = lines(explained(limits(limit=limit)))
    assert first.startswith(f"baseline: {words}")


def test_on_a_cpu_no_gpu_is_advised():
    told = explained(limits(Tier.BALANCED, Limit.TRAINING), trials=(baseline_record(device=cpu()),))
    (balanced, _) = lines(told)
    assert balanced.endswith("faster only with less training work per sample, or a faster machine")


def test_the_knobs_are_not_at_their_end_where_another_tier_is_faster():
    faster = recommendation(Tier.AGGRESSIVE, rate_samples_per_s=interval(1500.0))
    told = explained(limits(Tier.BALANCED, Limit.TRAINING), recommendations=(recommendation(), faster))
    assert not any("beyond these knobs" in line for line in lines(told))


def test_the_knobs_are_not_at_their_end_where_only_the_budget_is():
    told = explained(limits(Tier.BALANCED, Limit.TRAINING), why_stopped=None)
    assert not any("beyond these knobs" in line for line in lines(told))


def test_a_baseline_that_is_kept_is_told_once_with_what_is_left():
    kept = recommendation(is_baseline=True)
    told = lines(explained(limits(), limits(Tier.BALANCED), recommendations=(kept,)))
    assert [line.split(":")[0] for line in told[:-1]] == ["balanced"]
    assert "beyond these knobs" in told[0]


def test_what_is_unknown_is_not_guessed():
    unknown = limits(limit=None, loader_samples_per_s=None, cores_samples_per_s=None)
    told = explained(
        unknown, model=ModelSummary(limits=(unknown,), missed_relative=None, checked_configs=None)
    )
    assert lines(told) == (
        "baseline: what binds is n/a; the loader allows n/a samples/s, training 655",
        "how far the model misses is n/a: it takes two measured configs",
    )


def test_a_run_without_a_model_shows_nothing():
    assert lines(run(recommendations=(recommendation(),))) == ()
    assert lines(explained()) == ()


@given(runs())
@settings(max_examples=60)
def test_the_figures_shown_are_those_of_the_record(any_run: Run):
    told = lines(any_run)
    best = answer_of(any_run.recommendations)
    kept = best is not None and best.is_baseline
    wanted = [] if kept else [None]
    wanted += [best.tier] if best is not None else []
    of = {one.tier: one for one in any_run.model.limits} if any_run.model else {}
    shown = [of[tier] for tier in wanted if tier in of]
    assert len(told) == len(shown) + bool(shown)
    for line, one in zip(told, shown, strict=False):
        figures = [one.loader_samples_per_s, one.training_samples_per_s]
        if one.limit is Limit.CORES:
            figures.insert(0, one.cores_samples_per_s)
        figures_told = re.findall(r"(?:allows?|training|the loader) (n/a|[\d.,]*\d)", line)
        assert figures_told == [rate_text(figure) for figure in figures]
    if shown and any_run.model and any_run.model.missed_relative is not None:
        assert f" by {any_run.model.missed_relative:.1%} on average" in told[-1]
