"""From series to figures: which window, which mean, which peak."""

import pytest

from tunekit.machine.telemetry.series import Series
from tunekit.machine.telemetry.summary import summarise

HOST = ("t_s", "cpu_s", "pss_bytes", "shm_bytes", "read_bytes", "rchar_bytes", "processes")
LOOP = ("t_s", "phase", "batches", "steps")
GPU = (
    "t_s",
    "utilization_percent",
    "sm_activity_percent",
    "tensor_activity_percent",
    "dram_activity_percent",
    "used_bytes",
    "tree_bytes",
    "power_w",
    "energy_j",
    "temperature_c",
    "sm_clock_mhz",
    "throttle_mask",
    "pcie_tx_mb_per_s",
    "pcie_rx_mb_per_s",
)


def loop_of(phases: str) -> Series:
    """One sample a second: w is warming, m is measuring."""
    labels = ("warming", "measuring")
    rows = tuple((float(t), float("wm".index(phase)), 0.0, 0.0) for t, phase in enumerate(phases))
    return Series("loop", LOOP, rows, labels)


def host_of(cpu_s: list[float], read: float = 0.0, rchar: float = 0.0) -> Series:
    """One sample a second; reads grow by a constant."""
    rows = tuple((float(t), cpu, 0.0, 0.0, read * t, rchar * t, 1.0) for t, cpu in enumerate(cpu_s))
    return Series("host", HOST, rows)


def gpu_of(*rows: dict[str, float | None]) -> Series:
    return Series(
        "gpu3", GPU, tuple((float(t), *(row.get(name) for name in GPU[1:])) for t, row in enumerate(rows))
    )


def test_figures_are_of_the_longest_steady_stretch() -> None:
    cpu_s = [0.0, 5.0, 5.1, 10.0, 11.5, 13.0, 14.5, 20.0]
    summary = summarise([host_of(cpu_s), loop_of("wmwmmmmw")], 0.25)
    assert summary is not None
    assert summary.is_of_steady_window
    assert (summary.window_s, summary.samples) == (3.0, 4)
    assert summary.host.cpu_cores == pytest.approx(1.5)
    assert summary.cost_cpu_s == 0.25


def test_a_trial_too_short_for_a_steady_window_is_told_as_a_whole() -> None:
    summary = summarise([host_of([0.0, 1.0, 4.0]), loop_of("wwm")], 0.0)
    assert summary is not None
    assert not summary.is_of_steady_window
    assert summary.window_s == 2.0
    assert summary.host.cpu_cores == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("read", "rchar", "share"),
    [(0.0, 50e6, 1.0), (10e6, 50e6, 0.8), (60e6, 50e6, 0.0), (0.0, 1000.0, None)],
)
def test_the_page_caches_share_is_what_storage_did_not_serve(
    read: float, rchar: float, share: float | None
) -> None:
    summary = summarise([host_of([0.0, 1.0, 2.0], read, rchar), loop_of("mmm")], 0.0)
    assert summary is not None
    assert summary.host.unfetched_share == (share if share is None else pytest.approx(share))


def test_a_gpu_is_told_by_means_peaks_and_every_throttle_reason() -> None:
    gpu = gpu_of(
        {"utilization_percent": 10.0, "used_bytes": 9e9, "throttle_mask": float(1 << 6)},  # outside
        {"utilization_percent": 90.0, "used_bytes": 5e9, "power_w": 300.0, "throttle_mask": float(1 << 2)},
        {"utilization_percent": None, "used_bytes": 6e9, "power_w": 310.0, "throttle_mask": None},
        {"utilization_percent": 100.0, "used_bytes": 5e9, "power_w": None, "throttle_mask": 0.0},
    )
    summary = summarise([host_of([0.0, 1.0, 2.0, 3.0]), loop_of("wmmm"), gpu], 0.0)
    assert summary is not None
    (one,) = summary.gpus
    assert one.index == 3
    assert one.utilization_percent == pytest.approx(95.0)
    assert one.power_w == pytest.approx(305.0)
    assert one.peak_used_bytes == 6_000_000_000
    assert one.throttle_reasons == ("sw_power_cap",)
    assert one.tensor_activity_percent is None
    assert one.peak_tree_bytes is None


def test_the_energy_counter_gives_the_mean_power_of_the_window() -> None:
    joules = (0.0, 1e6, None, 1e6 + 500.0, 1e6 + 900.0)
    gpu = gpu_of(*({"energy_j": one} for one in joules), {"power_w": 300.0})
    summary = summarise([host_of([0.0] * 6), loop_of("wmmmmm"), gpu], 0.0)
    assert summary is not None
    assert summary.gpus[0].counted_power_w == pytest.approx(300.0)
    without = summarise([host_of([0.0] * 3), loop_of("mmm"), gpu_of({}, {"energy_j": 5.0}, {})], 0.0)
    assert without is not None
    assert without.gpus[0].counted_power_w is None


def test_clocks_and_heat_are_told_of_the_windows_first_and_last_third() -> None:
    heating = [{"sm_clock_mhz": 1700.0 - 10 * t, "temperature_c": 40.0 + t} for t in range(9)]
    summary = summarise([host_of([0.0] * 9), loop_of("m" * 9), gpu_of(*heating)], 0.0)
    assert summary is not None
    (one,) = summary.gpus
    assert (one.first_sm_clock_mhz, one.sm_clock_mhz, one.last_sm_clock_mhz) == (1690.0, 1660.0, 1630.0)
    assert (one.first_temperature_c, one.last_temperature_c) == (41.0, 47.0)
    # Before the window it was colder: that does not count. Of five samples a third is a single one.
    summary = summarise([host_of([0.0] * 9), loop_of("wwwwmmmmm"), gpu_of(*heating)], 0.0)
    assert summary is not None
    assert (summary.gpus[0].first_sm_clock_mhz, summary.gpus[0].last_temperature_c) == (None, None)


@pytest.mark.parametrize(
    ("trees", "used", "is_used"),
    [
        ([0.0, 3e9], [1e9, 1e9], True),
        ([0.0, 0.0], [1e9, 9e9], False),  # somebody else's
        ([None, None], [5e8, 4e9], True),
        ([None, None], [5e8, 5.1e8], False),
        ([None, None], [None, None], False),
    ],
)
def test_a_gpu_is_used_if_the_trial_holds_memory_there(
    trees: list[float | None], used: list[float | None], is_used: bool
) -> None:
    rows = [{"tree_bytes": tree, "used_bytes": taken} for tree, taken in zip(trees, used, strict=True)]
    summary = summarise([host_of([0.0, 1.0]), loop_of("mm"), gpu_of(*rows)], 0.0)
    assert summary is not None
    assert summary.gpus[0].is_used is is_used
