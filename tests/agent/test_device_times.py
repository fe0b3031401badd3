"""The device's parts of a step, on a device whose every moment is known."""

import pytest
from _tunekit_agent.measure.device_times import DeviceTimes
from hypothesis import given
from hypothesis import strategies as st
from simulated_cuda import DeviceLoop, SimulatedCuda, Torch

from tunekit.records.attribution import DeviceParts


def test_while_the_device_is_behind_a_wait_of_the_host_is_no_stall():
    parts = DeviceLoop(wait_s=0.004, host_s=0.001, work_s=0.02, step_s=0.002).measure(50)
    assert parts is not None
    assert parts.stall_s / parts.batches < 0.0002  # of the first batch, before which the window synchronised
    assert parts.optimizer_s / parts.batches == pytest.approx(0.002, rel=1e-3)
    assert parts.compute_s / parts.batches == pytest.approx(0.02, rel=1e-2)
    assert parts.drained_batches == 0


def test_an_idle_device_stalls_for_all_of_the_hosts_wait():
    parts = DeviceLoop(wait_s=0.03, host_s=0.001, work_s=0.004).measure(50)
    assert parts is not None
    assert parts.stall_s / parts.batches == pytest.approx(0.03 - 0.004, rel=0.15)


@pytest.mark.parametrize("wait_s", [20e-6, 300e-6, 0.01])
def test_a_host_bound_loop_drains_the_device_at_every_batch(wait_s: float):
    parts = DeviceLoop(wait_s=wait_s, host_s=0.005, work_s=0.001, launches=100).measure(50)
    assert parts is not None
    assert parts.drained_batches >= 49  # the window's synchronisation says nothing of the first
    assert parts.stall_s / parts.batches == pytest.approx(wait_s, abs=20e-6)


@given(
    wait_s=st.floats(0, 0.05),
    host_s=st.floats(1e-5, 0.02),
    work_s=st.floats(0, 0.05),
    step_s=st.floats(0, 0.01),
    log_s=st.floats(0, 0.01),
    steps=st.integers(0, 3),
    depth=st.integers(1, 1024),
)
def test_the_parts_add_up_to_the_devices_time_from_step_to_step(
    wait_s: float, host_s: float, work_s: float, step_s: float, log_s: float, steps: int, depth: int
):
    loop = DeviceLoop(wait_s, host_s, work_s, step_s, log_s, steps, cuda=SimulatedCuda(depth=depth))
    parts = loop.measure(20)
    assert parts is not None
    assert parts.batches == 20
    assert parts.time_s == pytest.approx(loop.bounds_s[-1] - loop.bounds_s[0], rel=1e-6)
    assert parts.optimizer_s >= steps * step_s * parts.batches - 1e-6
    assert parts.other_s >= (log_s if steps else 0.0) * parts.batches - 1e-6
    assert parts.stall_s <= wait_s * parts.batches + 1e-6
    assert parts.time_s - parts.stall_s >= loop.cuda.busy_s - loop.busy_before_s - 1e-6


def test_a_host_that_runs_far_ahead_holds_few_events():
    loop = DeviceLoop(wait_s=0.0, host_s=0.0001, work_s=0.5)
    parts = loop.measure(1000)
    assert parts is not None
    assert parts.batches >= 3
    assert parts.compute_s / parts.batches == pytest.approx(0.5, rel=0.01)
    assert len(loop.cuda.events) < 200  # the others are gone


def test_nothing_is_synchronised_within_the_window():
    loop = DeviceLoop(wait_s=0.001, host_s=0.001, work_s=0.005)
    loop.measure(100)
    assert loop.cuda.synchronised == 2  # the test's own, at the window's ends


def test_what_does_not_count_is_left_out_and_spoils_nothing_before_it():
    loop = DeviceLoop(wait_s=0.0, host_s=0.0001, work_s=0.01)
    loop.times.open()
    for number in range(30):
        loop.batch()
        if number % 3 == 2:
            loop.cuda.launch(0.7)  # a validation within the batch
        loop.times.asked(number % 3 != 2)
    loop.cuda.synchronize()
    facts = loop.times.facts()
    assert facts is not None
    assert facts["batches"] == 20
    parts = DeviceParts.model_validate(facts)
    assert parts.time_s / 20 == pytest.approx(0.01, rel=0.02)


def test_a_step_that_the_scaler_skipped_ends_the_compute_part():
    loop = DeviceLoop(wait_s=0.0, host_s=0.001, work_s=0.01)
    loop.times.open()
    for _ in range(10):
        loop.times.fetched()
        loop.cuda.launch(0.01)
        loop.times.step_ended()
        loop.cuda.launch(0.004)
        loop.times.asked(True)
    loop.cuda.synchronize()
    facts = loop.times.facts()
    assert facts is not None
    assert facts["optimizer_s"] == 0
    assert facts["other_s"] == pytest.approx(10 * 0.004, rel=0.01)


def test_a_batch_within_which_a_graph_is_captured_is_left_out():
    loop = DeviceLoop(wait_s=0.001, host_s=0.001, work_s=0.01)
    loop.times.open()
    for number in range(10):
        loop.cuda.is_capturing = number == 4
        loop.batch()
        loop.cuda.is_capturing = False
        loop.times.asked(True)
    loop.cuda.synchronize()
    facts = loop.times.facts()
    assert facts is not None
    assert facts["batches"] == 9


def test_a_loop_without_a_loader_has_no_stall():
    cuda = SimulatedCuda()
    times = DeviceTimes(Torch(cuda), "cuda", has_loader=False, batches_per_turn=2, clock=lambda: cuda.now_s)
    times.open()
    for _ in range(10):
        cuda.host(0.001)
        cuda.launch(0.01)
        times.fetched()  # of another loader
        times.step_began()
        cuda.launch(0.002)
        times.step_ended()
        times.asked(True)
    cuda.synchronize()
    facts = times.facts()
    assert facts is not None
    parts = DeviceParts.model_validate(facts)
    assert parts.batches == 20
    assert parts.stall_s == 0
    assert parts.time_s == pytest.approx(0.12, rel=0.02)


def test_without_cuda_there_are_no_events():
    cuda = SimulatedCuda(is_here=False)
    for times in (DeviceTimes(None, "cpu"), DeviceTimes(None, "mps"), DeviceTimes(Torch(cuda), "cuda")):
        times.open()
        for _ in range(5):
            times.fetched()
            times.step_began()
            times.step_ended()
            times.asked(True)
        assert times.facts() is None
    assert not cuda.events


def test_a_fault_of_the_device_ends_the_events_for_good(monkeypatch: pytest.MonkeyPatch):
    loop = DeviceLoop(wait_s=0.0, host_s=0.001, work_s=0.01)
    loop.times.open()
    loop.batch()

    def fail() -> bool:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    monkeypatch.setattr(loop.cuda, "is_current_stream_capturing", fail)
    loop.times.asked(True)
    count = loop.cuda.record_count
    monkeypatch.undo()
    assert loop.measure(10) is None
    assert loop.cuda.record_count == count
