"""Reduces a trial's time series to the summary figures in its record."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tunekit.machine.gpu.nvml import throttle_reasons
from tunekit.machine.telemetry.series import Series, is_used, measured_window
from tunekit.records.measurement import GpuTelemetry, HostTelemetry, Telemetry

_MIN_OF_AN_END = 2
"""MIN samples in a window's first or last third: a single one may fall between two kernels."""
_MEANS = (
    *("utilization_percent", "sm_activity_percent", "tensor_activity_percent", "dram_activity_percent"),
    *("power_w", "sm_clock_mhz", "pcie_tx_mb_per_s", "pcie_rx_mb_per_s"),
)
"""Fields of GpuTelemetry that are the mean of the column of the same name."""
_PEAKS, _MOVING = ("used_bytes", "tree_bytes"), ("sm_clock_mhz", "temperature_c")
"""Columns summarized by their peak, and columns summarized by their mean at the start and at the end."""


def summarise(series: Sequence[Series], cost_cpu_s: float) -> Telemetry | None:
    """Summarize the steady window, or the whole trial if the window has fewer than two samples.

    Args:
        series: "host", "loop" and "gpu<index>", as the sampler returns them.
        cost_cpu_s: CPU time that sampling took.

    Returns:
        The summary; None if the trial has fewer than two samples.
    """
    by_name = {one.name: one for one in series}
    host, loop = by_name.get("host"), by_name.get("loop")
    if host is None or loop is None or len(host.rows) < 2:
        return None
    start_s, end_s, is_steady = measured_window(loop)
    inside = _between(host, start_s, end_s)
    return Telemetry(
        window_s=end_s - start_s,
        samples=len(inside.rows),
        is_of_steady_window=is_steady,
        cost_cpu_s=cost_cpu_s,
        host=HostTelemetry(
            cpu_cores=_per_s(inside, "cpu_s"),
            read_bytes_per_s=_per_s(inside, "read_bytes"),
            rchar_bytes_per_s=_per_s(inside, "rchar_bytes"),
        ),
        gpus=tuple(
            _gpu(_between(one, start_s, end_s), is_used(one))
            for name, one in by_name.items()
            if name.startswith("gpu")
        ),
    )


def _between(series: Series, start_s: float, end_s: float) -> Series:
    rows = tuple(row for row in series.rows if row[0] is not None and start_s <= row[0] <= end_s)
    return replace(series, rows=rows)


def _per_s(series: Series, counter: str) -> float | None:
    """Return a counter's growth per second; a drop, from a process that nobody waited for, counts as 0."""
    rows = zip(series.known("t_s"), series.column(counter), strict=True) if counter in series.columns else ()
    known = [(t_s, value) for t_s, value in rows if value is not None]
    if len(known) < 2:
        return None
    (first_s, first), (last_s, last) = known[0], known[-1]
    return max(0.0, (last - first) / (last_s - first_s))


def _gpu(series: Series, is_used: bool) -> GpuTelemetry:
    masks = [throttle_reasons(int(mask)) for mask in series.known("throttle_mask")]
    figures: dict[str, Any] = {
        **{name: _mean(known) if (known := series.known(name)) else None for name in _MEANS},
        **{f"peak_{name}": max(map(int, series.known(name)), default=None) for name in _PEAKS},
        **{end: value for name in _MOVING for end, value in _ends(series, name).items()},
    }
    return GpuTelemetry(
        index=int(series.name.removeprefix("gpu")),
        is_used=is_used,
        # In a container the driver may use other process ids for the trial: neighbours are then unknown.
        neighbours=series.neighbours if any(series.known("tree_bytes")) else (),
        counted_power_w=_per_s(series, "energy_j"),
        max_temperature_c=max(series.known("temperature_c"), default=None),
        throttle_reasons=tuple(dict.fromkeys(reason for reasons in masks for reason in reasons)),
        **figures,
    )


def _ends(series: Series, name: str) -> dict[str, float | None]:
    """Return the means of a window's first and last third; empty if a third has fewer than two samples."""
    values = series.known(name)
    third = len(values) // 3
    if third < _MIN_OF_AN_END:
        return {}
    return {f"first_{name}": _mean(values[:third]), f"last_{name}": _mean(values[-third:])}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)
