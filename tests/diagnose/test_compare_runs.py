"""Runs against the first of them: what is a regression, what the machine explains, what can't be told."""

import pytest
from build_comparisons import OWN, TUNED, compared, searched, slower, waiting
from build_records import device, host, profile, target
from hypothesis import given
from hypothesis import strategies as st

from tunekit.diagnose.compare import compare_runs
from tunekit.diagnose.run_pair import Side
from tunekit.records.attribution import DeviceParts
from tunekit.records.comparison import RunComparison
from tunekit.records.recommendation import Tier
from tunekit.records.run import Run


def codes(comparison: RunComparison, place: int = 0) -> set[str]:
    return {finding.code for finding in comparison.against[place].findings}


def test_a_difference_below_the_larger_noise_floor_does_not_count():
    noisy = slower(0.08, own_rates=(400.0, 500.0, 420.0))
    assert noisy.noise_floor is not None
    assert noisy.noise_floor.relative > 0.1
    found = compared(searched(), noisy)
    assert found.against[0].factor is not None
    assert found.against[0].factor.high < 1
    assert found.against[0].verdict == "inconclusive"
    assert not found.has_regression


@given(st.lists(st.floats(600, 1500), min_size=2, max_size=5), st.floats(0, 0.9))
def test_a_copy_of_a_run_is_never_a_regression(rates: list[float], tolerance: float):
    one = searched(rates=rates)
    found = compared(one, one, tolerance=tolerance)
    assert found.against[0].rate_ratio == pytest.approx(1)
    assert found.against[0].verdict in ("no difference", "inconclusive")
    assert not found.has_regression
    assert "same-run" in codes(found)
    assert "undecided" not in codes(found), "more processes would tell nothing"


def test_one_process_each_takes_its_range_from_the_runs_noise():
    found = compared(searched(rates=[980.0]), searched(rates=[490.0 * 1.5]))
    (one,) = found.against
    assert one.factor is not None
    assert one.factor.low < 0.75 < one.factor.high
    assert one.relative_factor is None


# --- the machine ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "other",
    [
        {"target": target(command=("python", "train.py", "--depth", "50"))},
        {"target": target(script_sha256="b" * 64)},
    ],
)
def test_baselines_of_other_trainings_say_nothing_of_the_machine(other: dict[str, object]):
    (one,) = compared(searched(), slower(0.25, **other)).against
    assert (one.baseline_factor, one.relative_factor, one.machine_explains) == (None, None, False)


def test_where_a_checkout_lies_does_not_make_it_another_training():
    here = target(command=("/a/.venv/bin/python3", "/a/train.py"), script="/a/train.py")
    there = target(command=("python", "train.py"), script="/b/train.py")
    (one,) = compared(searched(target=here), slower(0.25, target=there)).against
    assert one.baseline_factor is not None
    assert "other-command" not in {finding.code for finding in one.findings}


def test_baselines_are_compared_where_they_are_asked_for():
    before, after = searched(), searched(own_rates=(400.0, 404.0, 396.0))
    found = compare_runs([Side("A", "a", before, None), Side("B", "b", after, None)], 0.05, "1.0.0")
    (one,) = found.against
    assert [run.config for run in found.runs] == [OWN, OWN]
    assert [run.tier for run in found.runs] == [None, None]
    assert (one.verdict, one.is_regression) == ("slower", True)
    assert (one.baseline_factor, one.relative_factor) == (None, None)  # they are what is compared


# --- unlike machines -----------------------------------------------------------------------

OTHER_CPU = {"host": host(cpu_name="AMD EPYC")}
STEADY = (500.0, 500.5, 499.5)


def steady(tuned_rate: float, own_rate: float = 500.0, **overrides: object) -> Run:
    """A search whose processes hardly differ."""
    by = [one / 500 for one in STEADY]
    own, tuned = [own_rate * one for one in by], [tuned_rate * one for one in by]
    return searched(rates=tuned, own_rates=own, **overrides)


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (OTHER_CPU, "CPU model"),
        ({"host": host(accelerators=(host().accelerators[0].changed(driver="580.2"),))}, "GPU driver"),
        ({"measured_on": "l4", "profile": profile("l4"), "loop": {"device": device("NVIDIA L4")}}, "device"),
    ],
)
def test_on_a_slower_machine_the_speed_up_over_the_own_baseline_decides(
    other: dict[str, object], difference: str
):
    found = compared(steady(980.0), steady(784.0, 400.0, **other))
    (one,) = found.against
    assert (one.compared_by, one.machine_differences, one.why_not) == ("speed-up", (difference,), None)
    assert one.factor is not None
    assert one.factor.high < 0.95
    assert (one.verdict, one.is_regression) == ("no difference", False)


def test_a_lower_speed_up_on_a_faster_machine_is_a_regression():
    (one,) = compared(steady(980.0), steady(1080.0, 600.0, **OTHER_CPU)).against
    assert one.factor is not None
    assert one.relative_factor is not None
    assert one.factor.low > 1
    assert one.relative_factor.value == pytest.approx(1080 / 600 / (980 / 500), rel=1e-9)
    assert (one.verdict, one.is_regression) == ("slower", True)


@pytest.mark.parametrize(
    "other",
    [
        {"target": target(command=("python", "train.py", "--depth", "50"))},
        {"target": target(script_sha256="b" * 64)},
        {"target": target(script="b.py", script_sha256="b" * 64), "host": host()},
    ],
)
def test_what_can_not_be_compared_is_no_regression(other: dict[str, object]):
    known = target(script_sha256="a" * 64)
    found = compared(steady(980.0, target=known), steady(490.0, 250.0, **(OTHER_CPU | other)))
    (one,) = found.against
    assert one.why_not
    assert (one.compared_by, one.verdict, one.is_regression) == (None, None, False)
    assert (found.has_regression, found.is_comparable) == (False, False)
    assert one.rate_ratio == pytest.approx(0.5)
    assert "not-comparable" in codes(found)


def test_unlike_machines_with_one_round_are_too_few():
    (one,) = compared(steady(980.0), searched(rates=[490.0], own_rates=(400.0, 401.0), **OTHER_CPU)).against
    assert (one.compared_by, one.verdict, one.is_regression) == ("speed-up", None, False)
    assert "too-few-processes" in {finding.code for finding in one.findings}


# --- what is shown -------------------------------------------------------------------------


def test_figures_are_those_of_the_runs_own_report():
    of = searched()
    (shown, _) = compared(of, slower(0.25)).runs
    (best,) = [one for one in of.recommendations if one.tier is Tier.BALANCED]
    assert (shown.config, shown.tier) == (TUNED, Tier.BALANCED)
    assert shown.rates_samples_per_s == pytest.approx((980.0, 970.0, 990.0))
    assert shown.rate_samples_per_s == best.rate_samples_per_s
    assert shown.speedup == best.speedup
    assert shown.epoch_time_s == best.epoch_time_s
    assert dict(shown.memory).items() <= dict(best).items()
    assert shown.memory.buffer_verdict == "Safe"


def test_the_parts_of_the_time_close_to_the_rate():
    ends = {"boundary_s": 2.5}
    found = compared(searched(loop=ends), waiting(searched(loop=ends), 0.3))
    for run in found.runs:
        mean_s = sum(1000 / rate for rate in run.rates_samples_per_s) / len(run.rates_samples_per_s)
        assert run.time_s == pytest.approx(mean_s, rel=1e-9)
    before, after = ({part.name: part.seconds for part in run.time_parts} for run in found.runs)
    assert after["data wait"] - before["data wait"] == pytest.approx(0.3)
    assert after["between epochs"] == pytest.approx(1000 * 2.5 / 50_000)
    assert found.clock == "host"


def test_the_devices_clock_tells_where_every_process_has_it():
    seen = DeviceParts(
        batches=50, stall_s=1.0, compute_s=2.0, optimizer_s=0.5, other_s=0.25, drained_batches=0
    )
    both = compared(searched(loop={"device_parts": seen}), slower(0.25, loop={"device_parts": seen}))
    assert both.clock == "device"
    # 50 batches of 512 samples took these seconds.
    waited = next(part for part in both.runs[0].time_parts if part.name == "data wait")
    assert waited.seconds == pytest.approx(1000 * 1.0 / (50 * 512))
    assert compared(searched(loop={"device_parts": seen}), searched()).clock == "host"


# --- the record ----------------------------------------------------------------------------


def test_a_comparison_that_contradicts_itself_is_refused():
    found = compared(searched(), slower(0.25))
    with pytest.raises(ValueError, match="has_regression must say"):
        RunComparison(**(dict(found) | {"has_regression": False}))
    with pytest.raises(ValueError, match="every run but the first"):
        RunComparison(**(dict(found) | {"against": ()}))
    neither = found.against[0].changed(compared_by=None)
    with pytest.raises(ValueError, match="or else why nothing is"):
        RunComparison(**(dict(found) | {"against": (neither,)}))
