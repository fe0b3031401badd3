"""A few steps under torch.profiler: for real on the CPU, and what a device's events would say."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from _tunekit_agent.stages.kernel_window import KernelWindow, kernel_facts
from _tunekit_agent.stages.runner import Missing, StageRunner
from build_loop import loop_of
from hypothesis import given
from hypothesis import strategies as st

from tunekit.records.details import KernelWindow as KernelWindowSeen


def traced_loop(stage: KernelWindow, asks: int) -> None:
    """Train with real operators; each turn is one ask."""
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(asks):
        stage.asked(None)
        if stage.is_over:
            return
        optimizer.zero_grad()
        with torch.profiler.record_function("the script's own mark"):
            model(torch.randn(8, 64)).sum().backward()
        optimizer.step()


def test_operators_of_five_real_steps_are_counted():
    stage = KernelWindow(loop_of())
    traced_loop(stage, asks=10)
    stage.leave()
    seen = KernelWindowSeen.model_validate(stage.facts())
    assert seen.batches == 5
    assert seen.device_busy_s is None
    calls = {kernel.name: kernel.calls for kernel in seen.kernels}
    assert calls["aten::addmm"] == 5
    assert "the script's own mark" not in calls
    assert not any(name.startswith("Optimizer.") for name in calls)
    assert sum(kernel.time_s for kernel in seen.kernels) > 0
    assert [kernel.time_s for kernel in seen.kernels] == sorted(
        (kernel.time_s for kernel in seen.kernels), reverse=True
    )


@pytest.mark.parametrize("asks", [1, 3])
def test_a_trace_that_is_cut_short_leaves_the_profiler_to_the_script(asks: int):
    stage = KernelWindow(loop_of())
    traced_loop(stage, asks)
    stage.leave()
    assert stage.facts() is None
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as own:
        torch.ones(3) + 1
    assert "aten::add" in {event.name for event in own.events()}


def test_beside_a_profiler_of_the_script_nothing_is_traced():
    moved: list[str] = []
    details = StageRunner([KernelWindow(loop_of())], window_s=1.0, moved=moved.append)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as own:
        details.asked(None)
        torch.ones(3) + 1
    assert details.is_over
    (fault,) = details.facts()["faults"]
    assert "profiler of its own" in fault
    assert "aten::add" in {event.name for event in own.events()}


def test_an_epoch_ends_within_no_trace():
    stage = KernelWindow(loop_of())
    traced_loop(stage, asks=3)
    stage.interrupted()  # the ask that found no batch
    torch.randn(8, 64).tanh()  # a validation
    stage.interrupted()  # the next epoch begins
    traced_loop(stage, asks=20)
    seen = KernelWindowSeen.model_validate(stage.facts())
    calls = {kernel.name: kernel.calls for kernel in seen.kernels}
    assert seen.batches == calls["aten::addmm"] == 5
    assert "aten::tanh" not in calls


def test_a_loop_that_reads_two_loaders_in_each_step_is_not_traced():
    details = StageRunner([KernelWindow(loop_of())], window_s=1.0, moved=lambda name: None)
    for _ in range(20):
        details.asked(None)
        details.call("interrupted")
    assert details.is_over
    (fault,) = details.facts()["faults"]
    assert "another loader" in fault
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        torch.ones(3) + 1


@dataclass
class Event:
    """Of a trace; microseconds."""

    name: str
    device_type: Any
    start: float
    end: float

    @property
    def time_range(self) -> Any:
        return SimpleNamespace(start=self.start, end=self.end)


CUDA, CPU = torch.autograd.DeviceType.CUDA, torch.autograd.DeviceType.CPU


def test_device_time_is_what_kernels_and_copies_cover():
    events = [
        Event("Memcpy HtoD (Pinned -> Device)", CUDA, 0, 100),
        Event("gemm", CUDA, 50, 200),
        Event("gemm", CUDA, 300, 400),
        Event("Memcpy DtoH (Device -> Pageable)", CUDA, 450, 460),
        Event("Optimizer.step#SGD.step", CPU, 0, 900),
        Event("Optimizer.step#SGD.step", CUDA, 0, 900),  # what the mark spans on the device
        Event("cudaLaunchKernel", CPU, 0, 5),
    ]
    assert kernel_facts(events, on_cuda=True) == {
        "device_busy_s": pytest.approx(310e-6),
        "copies_alone_s": pytest.approx(60e-6),
        "h2d_s": pytest.approx(100e-6),
        "kernels": [
            {"name": "gemm", "calls": 2, "time_s": pytest.approx(250e-6)},
            {"name": "Memcpy HtoD (Pinned -> Device)", "calls": 1, "time_s": pytest.approx(100e-6)},
            {"name": "Memcpy DtoH (Device -> Pageable)", "calls": 1, "time_s": pytest.approx(10e-6)},
        ],
    }


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(1, 60)), min_size=1, max_size=40))
def test_busy_time_is_the_microseconds_in_which_anything_ran(spans: list[tuple[int, int]]):
    events = [Event(f"kernel {n}", CUDA, start, start + long) for n, (start, long) in enumerate(spans)]
    busy = {moment for start, long in spans for moment in range(start, start + long)}
    facts = kernel_facts(events, on_cuda=True)
    assert facts["device_busy_s"] == pytest.approx(len(busy) / 1e6)
    assert len(facts["kernels"]) == min(16, len(spans))


def test_a_trace_without_kernels_is_no_idle_device():
    with pytest.raises(Missing, match="saw no kernels"):
        kernel_facts([Event("cudaLaunchKernel", CPU, 0, 5)], on_cuda=True)
