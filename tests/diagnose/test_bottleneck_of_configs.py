"""The bottleneck of a config is what its step shows; a model that says otherwise does not change it."""

from typing import Any

import pytest
from build_loops import CPU, device_parts, floors, parts, record, slow_together
from build_records import interval, recommendation, run

from tunekit.diagnose.bottleneck import bottleneck, bottlenecks
from tunekit.records.recommendation import Bound, Limit, ModelSummary, PredictedLimits
from tunekit.records.trial import TrialRecord, TrialRole


def waits(share: float, details: Any = None, **overrides: Any) -> TrialRecord:
    return record(details, device=CPU, parts=parts(wait=share), **overrides)


def predicted(
    limit: Limit | None, loader: float = 30.0, training: float = 40.0, **more: Any
) -> PredictedLimits:
    values: dict[str, Any] = {
        "tier": None,
        "loader_samples_per_s": loader,
        "training_samples_per_s": training,
        "cores_samples_per_s": 29.0,
        "limit": limit,
        "rate_samples_per_s": interval(28.0),
        "measured_samples_per_s": 28.7,
    }
    return PredictedLimits(**(values | more))


BEYOND_STEPS = record(device=CPU, parts=parts(wait=0.02), boundary_s=50.0)
DRAINED = record(device_parts=device_parts(drained=1.0))


@pytest.mark.parametrize(
    ("trial", "of", "verdict", "is_refuted"),
    [
        (waits(0.36), predicted(Limit.LOADER), Bound.DATA, False),
        (waits(0.02), predicted(Limit.TRAINING), Bound.COMPUTE, False),
        (waits(0.02), predicted(Limit.CORES), Bound.COMPUTE, False),
        (waits(0.36), predicted(Limit.BOTH), Bound.DATA, False),
        (waits(0.02), predicted(None, loader=1.0), Bound.COMPUTE, False),
        (waits(0.02), None, Bound.COMPUTE, False),
        (DRAINED, predicted(Limit.TRAINING), Bound.HOST, False),
        # Of epoch boundaries it says nothing.
        (BEYOND_STEPS, predicted(Limit.LOADER), Bound.EPOCHS, False),
        # It names another part.
        (waits(0.02), predicted(Limit.LOADER), Bound.COMPUTE, True),
        (waits(0.36), predicted(Limit.TRAINING, loader=50.0), Bound.DATA, True),
        # It names the part, and a limit below what was measured.
        (waits(0.36), predicted(Limit.LOADER, loader=20.8), Bound.DATA, True),
        (waits(0.36), predicted(Limit.LOADER, loader=28.0), Bound.DATA, False),
        (waits(0.02), predicted(Limit.CORES, cores_samples_per_s=20.0), Bound.COMPUTE, True),
    ],
)
def test_what_was_measured_decides_and_a_model_that_contradicts_it_is_refuted(
    trial: TrialRecord, of: PredictedLimits | None, verdict: Bound, is_refuted: bool
):
    seen = bottleneck([trial], predicted=of)
    assert seen is not None
    assert (seen.bound, seen.is_model_refuted) == (verdict, is_refuted)


def test_the_trial_whose_wait_is_in_the_middle_speaks_for_its_config():
    seen = bottleneck([waits(0.01), waits(0.4), waits(0.02)])
    assert seen is not None
    assert (seen.bound, seen.wait_share) == (Bound.COMPUTE, pytest.approx(0.02))


def test_a_trial_that_looked_at_the_halves_speaks_before_those_that_did_not():
    halves = waits(0.02, floors(0.1, 0.097)).changed(number=7)
    seen = bottleneck([waits(0.3), halves, waits(0.4)])
    assert seen is not None
    assert (seen.trial, seen.bound) == (7, Bound.BALANCED)


def test_of_a_run_the_trial_that_looked_at_the_halves_speaks_for_the_baseline_and_for_its_findings():
    own = slow_together().changed(number=0, role=TrialRole.BASELINE, is_baseline_config=True)
    fresh = [
        waits(0.4).changed(number=number, role=TrialRole.CONFIRM, round=number, is_baseline_config=True)
        for number in (1, 2)
    ]
    seen = bottlenecks(run(trials=(own, *fresh)), None)[0]
    assert (seen.trial, seen.bound) == (own.number, Bound.UNEXPLAINED)
    unlooked = own.changed(measurement=waits(0.02).measurement)
    seen = bottlenecks(run(trials=(unlooked, *fresh)), None)[0]
    assert (seen.bound, seen.wait_share) == (Bound.DATA, pytest.approx(0.4))


def test_of_a_tier_the_trial_that_found_it_speaks_where_it_looked_at_the_halves():
    tier = recommendation(search_trial=1, confirm_trials=(2,))
    found, fresh = waits(0.02, floors(0.1, 0.097)).changed(number=1), waits(0.4).changed(number=2)
    limits = ModelSummary(
        limits=(predicted(Limit.LOADER, tier=tier.tier),), missed_relative=None, checked_configs=None
    )
    (seen,) = bottlenecks(run(trials=(found, fresh), model=limits), tier)
    assert (seen.tier, seen.trial, seen.bound) == (tier.tier, 1, Bound.BALANCED)


def test_what_was_not_measured_has_no_bottleneck():
    abandoned = waits(0.3, stop_reason="abandoned", boundary_s=None)
    assert bottleneck([]) is None
    assert bottleneck([abandoned]) is None
