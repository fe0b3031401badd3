"""What the sampler makes of a driver's answers, one after another."""

from dataclasses import asdict, replace

import pytest
from machine.scripted_nvml import H200, L4, T4, ScriptedNvml

from tunekit.machine.gpu.nvml import GpuReading
from tunekit.machine.telemetry.sampler import GpuSampler
from tunekit.units import GIB

READING = GpuReading(
    utilization_percent=98,
    used_bytes=9 * GIB,
    process_bytes={7: GIB, 8: 2 * GIB, 99: 5 * GIB},
    power_w=655.25,
    temperature_c=64,
    sm_clock_mhz=1755,
    throttle_mask=0x44,
    pcie_tx_mb_per_s=12.5,
    pcie_rx_mb_per_s=250,
)
ACTIVITY = GpuReading(
    graphics_activity_percent=99,
    sm_activity_percent=97.5,
    tensor_activity_percent=81.25,
    dram_activity_percent=33,
    pcie_tx_mb_per_s=105,
    pcie_rx_mb_per_s=1050,
)
READ = replace(READING, tree_bytes=3 * GIB)
"""Of a GPU without counters of its own."""
SHARES = {name: share for name, share in asdict(ACTIVITY).items() if share is not None}
COUNTED = replace(READ, **SHARES)
UNCOUNTED = replace(READ, pcie_tx_mb_per_s=None, pcie_rx_mb_per_s=None)
"""Of a GPU with counters that have nothing to be compared with yet."""
OURS = frozenset({7, 8})


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_a_gpu_without_counters_is_read_from_the_first_sample_on() -> None:
    nvml = ScriptedNvml([L4], readings={0: [READING]})
    with GpuSampler(nvml, [0], Clock()) as sampler:
        assert sampler.sample(OURS) == {0: READ}


def test_the_driver_is_asked_for_the_link_now_and_then_for_it_takes_its_time() -> None:
    nvml = ScriptedNvml([L4], readings={0: [READING]})
    clock = Clock()
    with GpuSampler(nvml, [0], clock) as sampler:
        seen = []
        for clock.now_s in range(7):
            seen += sampler.sample(OURS).values()
    assert seen == [READ, *[UNCOUNTED] * 4, READ, UNCOUNTED]
    assert nvml.asked_for_pcie == [True, *[False] * 4, True, False]


def test_a_gpu_that_takes_its_time_is_asked_no_more() -> None:
    clock = Clock()

    class Slow(ScriptedNvml):
        def reading(self, index: int, pcie: bool = True) -> GpuReading | None:
            clock.now_s += 30.0 if index == 0 else 0.0
            return super().reading(index, pcie)

    nvml = Slow([T4, L4], readings={0: [READING], 1: [READING]})
    with GpuSampler(nvml, [0, 1], clock) as sampler:
        assert list(sampler.sample(OURS)) == [0, 1]
        assert list(sampler.sample(OURS)) == [1]


def test_counters_tell_what_happened_since_the_sample_before() -> None:
    busier = replace(ACTIVITY, sm_activity_percent=99.0)
    nvml = ScriptedNvml([H200], readings={0: [READING]}, activities={0: [ACTIVITY, ACTIVITY, busier]})
    clock = Clock()
    with GpuSampler(nvml, [0], clock) as sampler:
        assert sampler.sample(OURS) == {0: READ}
        clock.now_s = 1.0
        assert sampler.sample(OURS) == {0: COUNTED}
        clock.now_s = 2.0
        assert sampler.sample(OURS) == {0: replace(COUNTED, sm_activity_percent=99.0)}
        assert len(nvml.samples) == 1
    assert nvml.samples == []
    assert nvml.asked_for_pcie == [True, False, False]


def test_a_driver_that_fails_for_a_while_leaves_a_gap() -> None:
    nvml = ScriptedNvml(
        [H200],
        readings={0: [READING, READING, None, READING, READING]},
        activities={0: [ACTIVITY, ACTIVITY, None, ACTIVITY, ACTIVITY]},
    )
    clock = Clock()
    seen = []
    with GpuSampler(nvml, [0], clock) as sampler:
        for clock.now_s in range(5):
            seen += sampler.sample(OURS).values()
            assert len(nvml.samples) <= 1
    assert seen == [READ, COUNTED, GpuReading(), UNCOUNTED, COUNTED]


@pytest.mark.parametrize(
    ("told", "pids", "tree_bytes"),
    [
        ({7: GIB, 8: 2 * GIB, 99: GIB}, {7, 8}, 3 * GIB),
        ({7: GIB}, {7, 8}, GIB),
        ({7: GIB, 8: None}, {7, 8}, None),
        ({4711: GIB}, {7, 8}, None),
        (None, {7}, None),
    ],
)
def test_memory_of_the_tree_is_told_only_where_the_driver_knows_its_processes(
    told: dict[int, int | None] | None, pids: set[int], tree_bytes: float | None
) -> None:
    nvml = ScriptedNvml([L4], readings={0: [replace(READING, process_bytes=told)]})
    with GpuSampler(nvml, [0], Clock()) as sampler:
        assert sampler.sample(frozenset(pids))[0].tree_bytes == tree_bytes
