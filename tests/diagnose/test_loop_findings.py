"""All that is found of a loop together: its order, its codes, and that no figures can break it."""

import pytest
from build_loops import CPU, any_loops, codes, findings, parts, record, work
from build_records import discovery, host, hosts, profile, target, trial_record
from hypothesis import given, settings
from hypothesis import strategies as st

from tunekit.diagnose.attribution import Bound, bound, closure
from tunekit.diagnose.loop import LoopFacts, loop_findings
from tunekit.diagnose.registry import CODES
from tunekit.records.finding import Severity
from tunekit.records.host import Host
from tunekit.records.trial import TrialRecord

_ORDER = (Severity.ERROR, Severity.WARNING, Severity.INFO)
_OF_DATA = {
    "data-bound",
    "loader-cpu",
    "loader-contended",
    "loader-storage",
    "loader-waits",
    "worker-imbalance",
    "batch-time-tail",
    "unpickling",
}
_OF_COMPUTE = {"compute-bound", "memory-bound", "host-bound", "sync-points", "gpu-throttled-in-trial"}


def test_what_gains_most_comes_first_then_what_is_worse():
    of = record(
        device=CPU,
        parts=parts(wait=0.2),
        loader_work=work(0.2),
        boundary_s=10.0,
        persistent_workers=False,
        rate_trend_relative=0.1,
        epoch_batches=4,
    )
    assert codes(of) == ["costly-epochs", "data-bound", "loader-cpu", "rate-drifts", "short-epochs"]


def test_a_failed_trial_has_no_findings():
    assert findings(trial_record(rate=None)) == []


def test_a_plain_loop_is_held_back_by_its_training_alone():
    assert codes(trial_record()) == ["compute-bound"]


@settings(max_examples=300)
@given(any_loops(), hosts(), st.booleans())
def test_no_figures_break_it_and_every_gain_is_within_the_closure(
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
        if seen is not None and one.code in _OF_COMPUTE:
            assert one.gain <= max(1.0, seen.step_s / seen.loader_s) * (1 + 1e-9)
    held_by = bound(of.measurement, of.telemetry)
    assert ("data-bound" in {one.code for one in found}) == (held_by is Bound.DATA)
    assert ("host-bound" in {one.code for one in found}) == (held_by is Bound.HOST)


@pytest.mark.parametrize("cpus", [1, 2, 64])
def test_workers_are_never_advised_beyond_the_cpus(cpus: int):
    of = record(device=CPU, knobs={"num_workers": 0}, parts=parts(wait=0.8), loader_work=work(5.0, workers=1))
    remedy = next(one.remedy for one in findings(of, host=host(cpus=cpus)) if one.code == "data-bound")
    assert remedy is not None
    workers = int(remedy.partition("num_workers=")[2].split()[0])
    assert workers == max(1, cpus - 1)


def test_boundaries_that_take_most_of_an_epoch_come_before_a_stall():
    of = record(device=CPU, parts=parts(wait=0.2), boundary_s=400.0, persistent_workers=False)
    assert codes(of)[0] == "costly-epochs"
    assert "data-bound" not in codes(of)


def test_a_loop_without_a_loader_is_not_called_compute_bound():
    of = record(device=CPU, has_loader=False, num_workers=0, prefetch_factor=None, persistent_workers=False)
    assert "no-loader" in codes(of)
    assert "compute-bound" not in codes(of)
