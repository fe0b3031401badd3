"""Where a step's time goes, whether the halves account for it, and which of them is the longer one."""

import pytest
from build_loops import CPU, any_loops, device_parts, floors, gpu, kernels, measured, parts, telemetry
from hypothesis import assume, given
from hypothesis import strategies as st
from simulated_cuda import DeviceLoop, SimulatedCuda

from tunekit.diagnose.attribution import Gap, Part, attribution, bound, closure
from tunekit.records.details import Details
from tunekit.records.measurement import DeviceSeen
from tunekit.records.recommendation import Bound
from tunekit.records.trial import TrialRecord


def test_on_a_cpu_the_hosts_clock_tells():
    seen = attribution(measured(device=CPU, parts=parts(wait=0.3, optimizer=0.1, other=0.05)))
    assert (seen.source, seen.step_ms) == ("host clock", pytest.approx(100))
    assert {one.part: round(one.share, 6) for one in seen.shares} == {
        Part.STALL: 0.3,
        Part.COMPUTE: 0.55,
        Part.OPTIMIZER: 0.1,
        Part.OTHER: 0.05,
    }
    assert {one.source for one in seen.shares} == {"host clock"}
    stall = seen.of(Part.STALL)
    assert stall is not None
    assert stall.batch_ms == pytest.approx(30)
    assert seen.of(Part.HOST_WAIT) is None


def test_beside_a_gpu_its_own_clock_tells_and_the_hosts_wait_stands_beside_it():
    seen = attribution(measured(parts=parts(wait=0.6), device_parts=device_parts(stall=0.02)))
    assert (seen.source, seen.step_ms) == ("CUDA events", pytest.approx(100))
    assert seen.stall_share == pytest.approx(0.02)
    wait = seen.of(Part.HOST_WAIT)
    assert wait is not None
    assert (wait.share, wait.batch_ms) == (pytest.approx(0.6), pytest.approx(60))
    assert (wait.source, wait.is_of_sum) == ("host clock", False)
    assert sum(one.share for one in seen.shares if one.is_of_sum) == pytest.approx(1)


def test_copies_and_gaps_come_from_the_trace_and_gaps_are_those_of_an_untraced_step():
    seen = attribution(measured(kernels(busy=0.6, h2d_s=0.05), device_parts=device_parts()))
    copy, idle = seen.of(Part.H2D), seen.of(Part.DEVICE_IDLE)
    assert copy is not None
    assert idle is not None
    assert (copy.batch_ms, copy.share) == (pytest.approx(10), pytest.approx(0.1))
    assert (idle.batch_ms, idle.share) == (pytest.approx(40), pytest.approx(0.4))
    assert {copy.source, idle.source} == {"torch.profiler, 5 batches"}


@pytest.mark.parametrize(
    ("compute_s", "loader_s", "gap"),
    [
        (0.06, 0.05, None),
        (0.1, 0.02, None),
        (0.104, 0.02, None),
        (0.05, 0.046, None),
        (0.05, 0.04, Gap.SLOWER),
        (0.12, 0.02, Gap.FASTER),
        (0.02, 0.12, Gap.FASTER),
    ],
)
def test_the_halves_bracket_the_loop(compute_s: float, loader_s: float, gap: Gap | None):
    seen = closure(measured(floors(compute_s, loader_s)))
    assert seen is not None
    assert (seen.step_s, seen.compute_s, seen.loader_s) == (pytest.approx(0.1), compute_s, loader_s)
    assert seen.gap is gap


def test_a_less_sure_rate_gives_the_closure_more_room():
    assert closure(measured(floors(0.05, 0.04), rate_interval_relative=0.2)).gap is None
    assert closure(measured(floors(0.05, 0.04), rate_interval_relative=None)).gap is not None


@pytest.mark.parametrize("details", [None, Details(), floors(0.1, None), floors(None, 0.1)])
def test_one_half_is_no_closure(details: Details | None):
    assert closure(measured(details)) is None


@pytest.mark.parametrize(
    ("wait", "workers", "details", "expected"),
    [
        (0.34, 0, None, Bound.TURNS),
        (0.34, 0, floors(0.066, 0.03), Bound.TURNS),
        (0.34, 2, floors(0.066, 0.05), Bound.TURNS),
        (0.34, 2, floors(0.066, 0.1), Bound.DATA),
        (0.34, 2, None, Bound.DATA),
        (0.51, 0, None, Bound.DATA),
    ],
)
def test_only_where_data_is_the_larger_half_is_a_loop_databound(
    wait: float, workers: int, details: Details | None, expected: Bound
):
    of = measured(details, workers=workers, num_workers=workers, device=CPU, parts=parts(wait=wait))
    assert bound(of) is expected


@pytest.mark.parametrize(("wait", "expected"), [(0.09, Bound.COMPUTE), (0.21, Bound.DATA)])
def test_a_stall_that_is_not_small_beside_compute_is_databound(wait: float, expected: Bound):
    assert bound(measured(device=CPU, parts=parts(wait=wait, optimizer=0.05))) is expected
    seen = measured(parts=parts(wait=0.8), device_parts=device_parts(stall=wait, optimizer=0.05))
    assert bound(seen) is expected


@pytest.mark.parametrize(
    ("compute_s", "loader_s", "expected"),
    [(0.01, 0.008, True), (0.04, 0.021, False), (0.04, 0.019, True), (0.1, 0.09, False), (0.2, 0.3, False)],
)
def test_halves_do_not_explain_a_loop_where_what_they_leave_is_longer_than_either(
    compute_s: float, loader_s: float, expected: bool
):
    of = measured(floors(compute_s, loader_s), parts=parts(wait=0.8), device=CPU)
    seen = closure(of)
    assert seen is not None
    assert seen.is_unexplained is expected
    assert (bound(of) is Bound.UNEXPLAINED) is expected


@pytest.mark.parametrize(("drained", "expected"), [(0.45, Bound.COMPUTE), (0.55, Bound.HOST)])
def test_a_device_that_runs_dry_in_most_batches_while_its_host_launches_waits_for_it(
    drained: float, expected: Bound
):
    assert bound(measured(device_parts=device_parts(stall=0.02, drained=drained))) is expected


@pytest.mark.parametrize(
    ("busy_percent", "steady_s", "expected"),
    [
        (97.6, 10.0, Bound.COMPUTE),
        (89.0, 10.0, Bound.COMPUTE),
        (87.0, 10.0, Bound.HOST),
        (20.0, 10.0, Bound.HOST),
        (65.0, 7.0, Bound.COMPUTE),
        (20.0, 7.0, Bound.HOST),
    ],
)
def test_a_script_that_reads_its_loss_in_each_step_is_hostbound_only_where_its_gpu_idles_within_steps(
    busy_percent: float, steady_s: float, expected: Bound
):
    """NVML's window is 10 s: where the steps took 7, epoch boundaries are in it too."""
    loop = {"parts": parts(other=0.3), "device_parts": device_parts(stall=0.02, drained=1.0)}
    seen = measured(**loop, steady_time_s=steady_s)
    told = telemetry(None, gpu(utilization_percent=busy_percent), gpu(index=1, is_used=False))
    assert bound(seen, told) is expected


def test_a_host_that_waits_for_its_gpu_after_each_step_does_not_hold_it_up():
    reads_loss = measured(parts=parts(other=0.8), device_parts=device_parts(stall=0.02, drained=1.0))
    assert bound(reads_loss) is Bound.COMPUTE
    unsteady = telemetry(None, gpu(utilization_percent=3.0), steady=False)
    assert bound(reads_loss, unsteady) is Bound.COMPUTE


def test_gaps_between_kernels_are_the_hosts_whatever_ran_at_the_end_of_the_step():
    assert bound(measured(kernels(busy=0.7), device_parts=device_parts())) is Bound.HOST
    assert bound(measured(kernels(busy=0.85), device_parts=device_parts(0.1, drained=1.0))) is Bound.COMPUTE


def test_the_largest_of_what_keeps_a_gpu_idle_holds_the_loop_back():
    stalls = device_parts(stall=0.22, drained=1.0)
    assert bound(measured(kernels(busy=0.05), device_parts=stalls)) is Bound.HOST
    assert bound(measured(kernels(busy=0.75), device_parts=stalls)) is Bound.DATA
    told = telemetry(None, gpu(utilization_percent=5.0))
    epochs = {"boundary_s": 4.0, "epoch_samples": 128 * 100}
    assert bound(measured(device_parts=stalls, **epochs), told) is Bound.HOST
    assert bound(measured(device_parts=stalls, **epochs)) is Bound.EPOCHS


def test_copies_beside_which_nothing_is_computed_are_what_holds_a_loop_back():
    of = device_parts()
    assert bound(measured(kernels(busy=0.95, copies_alone_s=0.15), device_parts=of)) is Bound.COPIES
    assert bound(measured(kernels(busy=0.95, copies_alone_s=0.1), device_parts=of)) is Bound.COMPUTE
    assert bound(measured(kernels(busy=0.95, h2d_s=0.4), device_parts=of)) is Bound.COMPUTE
    stalls = device_parts(stall=0.5)
    assert bound(measured(kernels(busy=0.45, copies_alone_s=0.15), device_parts=stalls)) is Bound.DATA


def test_a_device_without_events_leaves_a_wait_unclear_unless_the_floors_tell():
    mps = {"device": DeviceSeen(type="mps", name="M1", memory_bytes=None), "parts": parts(wait=0.5)}
    assert bound(measured(**mps)) is Bound.UNCLEAR
    assert bound(measured(floors(0.05, 0.1), **mps)) is Bound.DATA
    assert bound(measured(floors(0.1, 0.05), **mps)) is Bound.COMPUTE


def test_halves_of_the_same_length_side_by_side_are_balanced():
    assert bound(measured(floors(0.1, 0.095), device_parts=device_parts())) is Bound.BALANCED
    assert bound(measured(floors(0.1, 0.08), device_parts=device_parts())) is Bound.COMPUTE
    assert bound(measured(floors(0.05, 0.05), device_parts=device_parts())) is Bound.COMPUTE


@given(any_loops())
def test_the_parts_of_any_loop_are_shares(of: TrialRecord):
    assert of.measurement is not None
    seen = attribution(of.measurement)
    assert all(0 <= one.share <= 1 and one.batch_ms >= 0 for one in seen.shares)
    summed = sum(one.share for one in seen.shares if one.is_of_sum)
    assert summed == pytest.approx(1) or summed == 0
    assert bound(of.measurement) in Bound


MILLISECONDS = st.floats(-1, 1.7).map(lambda power: 10**power)


@given(
    wait_ms=MILLISECONDS,
    host_ms=MILLISECONDS,
    work_ms=MILLISECONDS,
    depth=st.integers(2, 1024),
    reads_loss=st.booleans(),
)
def test_what_is_said_to_hold_a_loop_back_is_what_would_speed_it_up_most_if_it_were_free(
    wait_ms: float, host_ms: float, work_ms: float, depth: int, reads_loss: bool
):
    times = {Bound.DATA: wait_ms / 1000, Bound.HOST: host_ms / 1000, Bound.COMPUTE: work_ms / 1000}

    def ran(free: Bound | None = None) -> DeviceLoop:
        wait_s, host_s, work_s = (0.0 if one is free else seconds for one, seconds in times.items())
        loop = DeviceLoop(wait_s, host_s, work_s, reads_loss=reads_loss, cuda=SimulatedCuda(depth=depth))
        loop.measure(40)
        return loop

    as_it_is = ran()
    gains = {one: as_it_is.time_s / ran(free=one).time_s for one in times}
    most, second, _ = sorted(gains, key=gains.__getitem__, reverse=True)
    assume(gains[most] > 1.3 and gains[second] < 1.1)
    made = measured(
        device_parts=as_it_is.seen,
        parts=as_it_is.host_parts,
        steady_batches=40,
        steady_samples=40 * 128,
        steady_time_s=as_it_is.time_s,
    )
    busy = telemetry(None, gpu(utilization_percent=100 * as_it_is.busy_share))
    assert bound(made, busy.changed(window_s=as_it_is.time_s)) is most
