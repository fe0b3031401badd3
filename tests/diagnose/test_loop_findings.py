"""All that is found of a loop together: its order, its codes, and that no figures can break it."""

import pytest
from build_loops import (
    CPU,
    any_loops,
    codes,
    findings,
    floors,
    parts,
    record,
    slow_together,
    work,
)
from build_records import GIB, discovery, hosts, profile, target
from hypothesis import given
from hypothesis import strategies as st

from tunekit.diagnose.attribution import bound, boundary_share, closure, copies_alone_share, idle_for_host
from tunekit.diagnose.loop import LoopFacts, loop_findings
from tunekit.diagnose.registry import CODES
from tunekit.records.finding import Severity
from tunekit.records.host import Host
from tunekit.records.interval import Interval
from tunekit.records.measurement import DeviceSeen
from tunekit.records.recommendation import Bound
from tunekit.records.trial import TrialRecord

_ORDER = (Severity.ERROR, Severity.WARNING, Severity.INFO)
_OF_DATA = {
    "data-bound",
    "data-wait",
    "loader-cpu",
    "loader-contended",
    "loader-storage",
    "loader-waits",
    "unpickling",
}
_OF_COMPUTE = {"compute-bound", "fp16-unscaled", "gpu-throttled-in-trial"}
_OF_HOST = {"host-bound", "sync-points"}
_OF_EPOCHS = {"costly-epochs"}


def share_of(code: str, facts: LoopFacts, value: float | None) -> float:
    """Return the share of the time that a finding's remedy could take away at most."""
    if code == "gpu-underused":
        code = "data-bound" if facts.bound in (Bound.DATA, Bound.TURNS) else "host-bound"
    if code in _OF_DATA:
        return facts.attribution.stall_share
    if code in _OF_COMPUTE:
        return facts.attribution.trains_share
    if code in _OF_HOST:
        return idle_for_host(facts.measurement, facts.record.telemetry) or 0.0
    if code in _OF_EPOCHS:
        return boundary_share(facts.loop)
    if code == "copy-bound":
        return copies_alone_share(facts.measurement)
    assert code == "cpu-contended", f"{code} promises a gain: say of which share"
    return value or 0.0


def assert_within_shares(facts: LoopFacts) -> None:
    """Hold each promise against what taking all of its measured share away would bring."""
    for one in loop_findings(facts):
        if one.gain is not None:
            assert 1 - 1 / one.gain <= share_of(one.code, facts, one.value) + 1e-9, one


"""A GPU that fp16 would make much faster, under a script without a gradient scaler."""


@pytest.mark.parametrize(("wait", "is_told"), [(0.18, True), (0.5, False)])
def test_where_the_device_has_no_clock_only_a_small_wait_is_told_beside_longer_compute(
    wait: float, is_told: bool
):
    mps = DeviceSeen(type="mps", name="M1", memory_bytes=8 * GIB)
    of = record(floors(0.09, 0.05), device=mps, parts=parts(wait=wait), loader_work=work(0.2))
    of_data = {"data-wait", "loader-cpu"} if is_told else set()
    assert set(codes(of)) == {"compute-bound"} | of_data


@pytest.mark.parametrize(("low", "is_settled"), [(130.0, True), (67.0, True), (65.0, False), (0.0, False)])
def test_beside_a_rate_that_may_be_anything_nothing_holds_the_loop_back_and_no_gain_is_promised(
    low: float, is_settled: bool
):
    of = record(device=CPU, parts=parts(wait=0.36, run_queue=0.3), loader_work=work(0.2), boundary_s=10.0)
    rate = Interval(value=131.5, low=low, high=132.0)
    seen = {one.code: one.gain for one in findings(of, rate=rate)}
    if is_settled:
        assert seen == {one.code: one.gain for one in findings(of)}
        assert {"data-bound", "loader-cpu"} < set(seen)
    else:
        assert seen == {"cpu-contended": None, "costly-epochs": None}


def test_halves_that_do_not_explain_the_loop_are_told_whatever_its_rate():
    rate = Interval(value=131.5, low=3.0, high=132.0)
    assert codes(slow_together(), rate=rate) == ["closure-broken"]


def test_what_gains_most_comes_first_then_what_is_worse():
    of = record(
        device=CPU,
        parts=parts(wait=0.2),
        loader_work=work(0.2),
        boundary_s=10.0,
        persistent_workers=False,
        rate_trend_relative=0.1,
    )
    assert codes(of) == ["costly-epochs", "data-bound", "loader-cpu", "rate-drifts"]


@given(any_loops(), hosts(), st.booleans())
def test_no_figures_break_it_and_every_gain_is_within_its_share_and_the_closure(
    of: TrialRecord, machine: Host, known: bool
):
    facts = LoopFacts(of, target(), discovery() if known else None, machine, profile() if known else None)
    found = loop_findings(facts)
    keys = [(-(one.gain or 1.0), _ORDER.index(one.severity)) for one in found]
    assert keys == sorted(keys)
    assert of.measurement is not None
    seen = closure(of.measurement)
    for one in found:
        assert one.severity in CODES[one.code].severities
        assert one.evidence
        assert one.remedy
        if one.gain is None:
            continue
        assert one.gain >= 1
        if seen is not None and one.code in _OF_DATA:
            assert one.gain <= max(1.0, seen.step_s / seen.compute_s) * (1 + 1e-9)
        if seen is not None and one.code in _OF_COMPUTE | _OF_HOST:
            assert one.gain <= max(1.0, seen.step_s / seen.loader_s) * (1 + 1e-9)
    held_by = bound(of.measurement, of.telemetry)
    assert ("data-bound" in {one.code for one in found}) == (held_by is Bound.DATA)
    assert ("host-bound" in {one.code for one in found}) == (held_by is Bound.HOST)
    assert_within_shares(facts)


def test_a_loop_without_a_loader_is_not_called_compute_bound():
    of = record(device=CPU, has_loader=False, num_workers=0, prefetch_factor=None, persistent_workers=False)
    assert "no-loader" in codes(of)
    assert "compute-bound" not in codes(of)
