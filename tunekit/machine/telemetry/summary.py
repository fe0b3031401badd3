"""A trial's time series: the few figures of them in its record, and the tables in telemetry.zarr."""

import shutil
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np

from tunekit.errors import UnreadableError
from tunekit.machine.gpu.nvml import throttle_reasons
from tunekit.machine.telemetry.sampler import Series
from tunekit.records.measurement import GpuTelemetry, HostTelemetry, Telemetry
from tunekit.units import MIB
from tunekit.untrusted import parse_json, read_text

_CONTEXT_BYTES = 128 * MIB
"""Less than what the driver takes for a process that computes; its own use varies by less."""
_LEAST_OF_AN_END = 2
"""Samples: one alone may be a moment between two kernels."""
_MEANS = (
    *("utilization_percent", "sm_activity_percent", "tensor_activity_percent", "dram_activity_percent"),
    *("power_w", "sm_clock_mhz", "pcie_tx_mb_per_s", "pcie_rx_mb_per_s"),
)
"""Figures of GpuTelemetry that are the mean of the column of their name."""
STEADY_PHASE = "measuring"
"""What the agent calls the steady window."""


def summarise(series: Sequence[Series], cost_cpu_s: float) -> Telemetry | None:
    """Return the figures of the steady window; of the whole trial if it holds fewer than two samples.

    Args:
        series: "host", "loop" and "gpu<index>", as the sampler returns them.
        cost_cpu_s: CPU time that sampling took.

    Returns:
        None without two samples.
    """
    by_name = {one.name: one for one in series}
    host, loop = by_name.get("host"), by_name.get("loop")
    if host is None or loop is None or len(host.rows) < 2:
        return None
    start_s, end_s, is_steady = _window(loop)
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
            _gpu(int(name.removeprefix("gpu")), _between(one, start_s, end_s), _is_used(one))
            for name, one in by_name.items()
            if name.startswith("gpu")
        ),
    )


def _window(loop: Series) -> tuple[float, float, bool]:
    """Return when the longest unbroken steady stretch starts and ends, and whether there is one."""
    times = [t_s for t_s in loop.column("t_s") if t_s is not None]
    phases = [None if phase is None else loop.labels[int(phase)] for phase in loop.column("phase")]
    stretches = [
        [t_s for t_s, _ in group]
        for phase, group in groupby(zip(times, phases, strict=True), key=lambda pair: pair[1])
        if phase == STEADY_PHASE
    ]
    longest = max(stretches, key=len, default=[])
    if len(longest) >= 2:
        return longest[0], longest[-1], True
    return times[0], times[-1], False


def _between(series: Series, start_s: float, end_s: float) -> Series:
    rows = tuple(row for row in series.rows if row[0] is not None and start_s <= row[0] <= end_s)
    return Series(series.name, series.columns, rows, series.labels)


def _per_s(series: Series, counter: str) -> float | None:
    """Return how fast a counter grew; it may fall when a process vanishes unwaited for."""
    rows = [(t, value) for t, value in zip(series.column("t_s"), series.column(counter), strict=True)]
    (first_s, first), (last_s, last) = rows[0], rows[-1]
    if None in (first_s, first, last_s, last) or last_s == first_s:
        return None
    assert first_s is not None and first is not None and last_s is not None and last is not None
    return max(0.0, (last - first) / (last_s - first_s))


def _gpu(index: int, series: Series, is_used: bool) -> GpuTelemetry:
    first_clock, last_clock = _ends(series, "sm_clock_mhz")
    first_heat, last_heat = _ends(series, "temperature_c")
    used_bytes, tree_bytes = (
        max(_known_values(series, name), default=None) for name in ("used_bytes", "tree_bytes")
    )
    masks = [throttle_reasons(int(mask)) for mask in _known_values(series, "throttle_mask")]
    return GpuTelemetry(
        index=index,
        is_used=is_used,
        peak_used_bytes=None if used_bytes is None else int(used_bytes),
        peak_tree_bytes=None if tree_bytes is None else int(tree_bytes),
        max_temperature_c=max(_known_values(series, "temperature_c"), default=None),
        first_sm_clock_mhz=first_clock,
        last_sm_clock_mhz=last_clock,
        first_temperature_c=first_heat,
        last_temperature_c=last_heat,
        throttle_reasons=tuple(dict.fromkeys(reason for reasons in masks for reason in reasons)),
        **{name: _mean(known) if (known := _known_values(series, name)) else None for name in _MEANS},
    )


def _ends(series: Series, name: str) -> tuple[float | None, float | None]:
    """Return the means of a window's first and last third; None where either is a single sample or none."""
    values = _known_values(series, name)
    third = len(values) // 3
    return (_mean(values[:third]), _mean(values[-third:])) if third >= _LEAST_OF_AN_END else (None, None)


def _is_used(series: Series) -> bool:
    """Return whether the trial's processes held memory there; where nobody tells, whether memory grew."""
    trees = _known_values(series, "tree_bytes")
    if trees:
        return max(trees) > 0
    used = _known_values(series, "used_bytes")
    return len(used) > 1 and max(used) - used[0] > _CONTEXT_BYTES


def _known_values(series: Series, name: str) -> list[float]:
    return [value for value in series.column(name) if value is not None]


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def save_series(store: Path, trial: int, series: Sequence[Series]) -> None:
    """Write a trial's series as the group `0007`, whole or not at all; what it held before is replaced.

    Each series is one float64 array of samples x columns. Its attribute `columns` names the columns, units
    in the names; NaN is a question without an answer. The array `loop` has `labels` too: column `phase` is
    an index into them.

    Args:
        store: the folder telemetry.zarr; made if it is not there.
        trial: the trial's number.
        series: as the sampler returns them.

    Raises:
        OSError: the folder can't be written; zarr has errors of its own besides.
    """
    import zarr  # noqa: PLC0415 - half a second to import, which only a process that ran a trial pays

    root = store / "zarr.json"
    if not _is_group(root):  # a new store, or one that a crash has left unreadable
        store.mkdir(parents=True, exist_ok=True)
        unfinished = store / ".root.unfinished"
        zarr.open_group(unfinished, mode="w")
        (unfinished / root.name).replace(root)
        shutil.rmtree(unfinished, ignore_errors=True)
    unfinished = store / f".{trial:04d}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    group = zarr.open_group(unfinished, mode="w")
    for one in series:
        shape = (len(one.rows), len(one.columns))
        array = group.create_array(
            one.name, shape=shape, dtype="float64", chunks=(max(1, shape[0]), shape[1])
        )
        array[:] = np.array(one.rows, dtype="float64").reshape(shape)
        array.attrs["columns"] = list(one.columns)
        if one.labels:
            array.attrs["labels"] = list(one.labels)
    final = store / f"{trial:04d}"
    shutil.rmtree(final, ignore_errors=True)
    unfinished.rename(final)


def _is_group(root: Path) -> bool:
    try:
        return bool(parse_json(read_text(root))["node_type"] == "group")
    except (UnreadableError, KeyError, TypeError):
        return False
