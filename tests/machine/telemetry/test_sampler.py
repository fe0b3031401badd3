"""Cadence and columns, on a scripted clock with a scripted driver."""

import os
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from machine.scripted_nvml import H200, L4, T4, ScriptedNvml

from tunekit.machine.gpu.nvml import GpuReading
from tunekit.machine.telemetry import sampler as sampler_module
from tunekit.machine.telemetry.sampler import GpuSampler, LoopSample, Sampler
from tunekit.machine.telemetry.series import Series
from tunekit.machine.telemetry.tree import TreeMeter

BUSY = GpuReading(utilization_percent=90.0, used_bytes=5e9)
WARMING = LoopSample("warming", 3, 2)


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def sampler_of(
    clock: Clock, indexes: Sequence[int] = (), readings: Mapping[int, Sequence[GpuReading | None]] = {}
) -> Sampler:
    nvml = ScriptedNvml([T4, L4, H200], readings=readings)
    return Sampler(TreeMeter(os.getpid(), list, clock), GpuSampler(nvml, indexes, clock), clock)


def tick_for(sampler: Sampler, clock: Clock, duration_s: float, every_s: float = 0.15) -> None:
    for _ in range(round(duration_s / every_s)):
        sampler.tick(WARMING)
        clock.now += every_s


def named(sampler: Sampler) -> dict[str, Series]:
    return {series.name: series for series in sampler.series()}


def test_host_and_loop_are_sampled_twice_a_second_and_gpus_once() -> None:
    clock = Clock()
    with sampler_of(clock, [0], {0: [BUSY]}) as sampler:
        tick_for(sampler, clock, 30.0)
    series = named(sampler)
    assert len(series["host"].rows) == pytest.approx(60, abs=2)
    assert len(series["loop"].rows) == len(series["host"].rows)
    assert len(series["gpu0"].rows) == pytest.approx(30, abs=1)
    times = [t_s for t_s in series["host"].column("t_s") if t_s is not None]
    assert times[0] == 0.0
    assert all(0.3 < later - earlier < 0.7 for earlier, later in pairwise(times))


def test_phases_are_numbered_in_the_order_of_their_coming() -> None:
    clock = Clock()
    with sampler_of(clock) as sampler:
        for phase, batches in (("starting", 0), ("measuring", 4), ("starting", 9)):
            sampler.tick(LoopSample(phase, batches, batches, batches / 8))
            clock.now += 1.0
    loop = named(sampler)["loop"]
    assert loop.labels == ("starting", "measuring")
    assert loop.column("phase") == [0.0, 1.0, 0.0]
    assert loop.column("batches") == [0.0, 4.0, 9.0]
    assert loop.column("wait_s") == [0.0, 0.5, 1.125]


def test_a_long_trial_is_thinned_out_and_stays_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler_module, "MAX_SAMPLES", 40)
    clock = Clock()
    with sampler_of(clock) as sampler:
        tick_for(sampler, clock, 100.0, every_s=0.5)
    host, loop = named(sampler)["host"], named(sampler)["loop"]
    times = [t_s for t_s in host.column("t_s") if t_s is not None]
    assert 20 <= len(times) <= 41
    assert times[0] == 0.0
    assert times[-1] == pytest.approx(98, abs=4)
    gaps = {later - earlier for earlier, later in pairwise(times)}
    assert gaps == {4.0}  # evenly: every eighth of what came
    assert loop.column("t_s") == times
