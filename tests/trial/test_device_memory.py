"""The next trial starts when its GPUs have their memory back, and not before."""

import os
from collections.abc import Mapping, Sequence

import pytest
from machine.scripted_nvml import H200, L4, ScriptedNvml

from tunekit.machine.gpu.nvml import GpuReading
from tunekit.trial.cleanup import DeviceMemory
from tunekit.units import GIB

GONE, ABROAD, RUNNING = 2**30, 2**30 + 1, os.getpid()
"""Processes: of the trial, of another container, and one that runs."""


class Clock:
    """Seconds that pass only by sleeping."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


def used(gib: float | None, **by_process: float) -> GpuReading:
    """Return what a GPU answers: all that is taken on it, and by whom."""
    pids = {"gone": GONE, "abroad": ABROAD, "running": RUNNING}
    held = {pids[name]: int(size * GIB) for name, size in by_process.items()} if by_process else None
    return GpuReading(used_bytes=None if gib is None else gib * GIB, process_bytes=held)


def driver(answers: Mapping[int, Sequence[GpuReading | None]]) -> ScriptedNvml:
    return ScriptedNvml([L4, H200], readings=answers)


def waited_s(nvml: ScriptedNvml, indexes: Sequence[int] = (0,)) -> float:
    """Return how long the end of a trial on those GPUs was waited for."""
    clock = Clock()
    with DeviceMemory(nvml, indexes, clock, clock.sleep):
        pass
    assert not nvml.is_open
    return clock.now_s


def test_memory_that_comes_back_late_is_waited_for_on_every_gpu_of_the_trial() -> None:
    late = driver({0: [used(1)], 1: [used(0), used(9), used(9), used(2), used(0)]})
    assert 0 < waited_s(late, (0, 1)) < 1


def test_memory_of_which_nobody_is_told_to_have_it_is_given_up_after_a_while() -> None:
    assert 9 < waited_s(driver({0: [used(0), used(5)]})) < 11
    assert 9 < waited_s(driver({0: [used(0), used(5, gone=5)]})) < 11


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (used(0, running=0), used(5, running=5)),
        (used(2, abroad=2), used(5, abroad=5)),
        (used(0), used(5, running=5)),
    ],
    ids=["it was there before", "it was there before, in another container", "it came meanwhile"],
)
def test_what_others_took_meanwhile_is_not_waited_for(before: GpuReading, after: GpuReading) -> None:
    assert waited_s(driver({0: [before, after]})) == 0


def test_without_an_answer_or_a_gpu_nothing_is_waited_for() -> None:
    assert waited_s(driver({0: [used(None), used(5)]})) == 0
    assert waited_s(driver({0: [used(0), None]})) == 0
    assert waited_s(driver({}), ()) == 0
