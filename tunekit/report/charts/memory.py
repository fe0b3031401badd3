"""What the baseline and the tiers take of the GPU's memory, or of the machine's without one. Pure."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tunekit.memory.ram import OOM_SHARE
from tunekit.memory.vram_budget import VramBudget, vram_budget
from tunekit.recommend.largest import peak_reserved_bytes
from tunekit.recommend.ram_buffer import baseline_sample, ram_buffer
from tunekit.recommend.tiers import POLICIES, base_ram_bytes
from tunekit.records.prediction import PeakShown, PredictedFit
from tunekit.records.run import Run
from tunekit.records.step_trace import Purpose
from tunekit.records.trial import TrialRecord
from tunekit.report.charts.chart import Chart, LimitLine, Point, Series, has_figures
from tunekit.report.charts.marked import Marked, marked_configs
from tunekit.report.table import Basis
from tunekit.units import GIB, bytes_text

_MODEL, _GRADIENTS, _OPTIMIZER, _BATCH = "parameters, buffers", "gradients", "optimizer state", "batch"
_ACTIVATIONS, _CACHED, _WHOLE = "activations, workspace", "cached or held", "reserved, not told apart"
_PARTS = (_MODEL, _OPTIMIZER, _GRADIENTS, _BATCH, _ACTIVATIONS, _CACHED, _WHOLE)

_PART_OF = {
    Purpose.PARAMETERS: _MODEL,
    Purpose.BUFFERS: _MODEL,
    Purpose.GRADIENTS: _GRADIENTS,
    Purpose.OPTIMIZER: _OPTIMIZER,
    Purpose.BATCH: _BATCH,
    Purpose.ACTIVATIONS: _ACTIVATIONS,
    Purpose.WORKSPACE: _ACTIVATIONS,
    Purpose.HELD: _CACHED,
}


@dataclass(frozen=True)
class _Bar:
    """One bar: bytes of each part, measured and predicted."""

    name: str
    measured: Mapping[str, int]
    predicted: Mapping[str, int]
    total_bytes: int
    capacity_bytes: int | None
    basis: Basis
    """Of the total."""

    @property
    def text(self) -> str:
        """The total and what it is held against."""
        total = bytes_text(self.total_bytes)
        if not self.capacity_bytes:
            return total
        share = self.total_bytes / self.capacity_bytes
        return f"{total} of {bytes_text(self.capacity_bytes)} ({share:.0%})"


def memory_charts(run: Run) -> tuple[Chart, ...]:
    """Return the GPU's memory where any is known, and the machine's where none of a GPU was measured."""
    on_device = device_memory_chart(run)
    is_measured = any(one.points for one in on_device.series if one.basis is Basis.MEASURED)
    shown = (on_device,) if is_measured else (on_device, host_memory_chart(run))
    return tuple(one for one in shown if has_figures(one))


def device_memory_chart(run: Run) -> Chart:
    """Return reserved device memory at the peak by what takes it, against the GPU's memory."""
    bars = [bar for one in marked_configs(run) if (bar := _measured_bar(one)) is not None]
    fits = run.prediction.fits if run.prediction else ()
    bars += [_predicted_bar(fit, fit.peak) for fit in fits if fit.peak is not None]
    capacities = dict.fromkeys(bar.capacity_bytes for bar in bars if bar.capacity_bytes)
    tiers = ", ".join(f"{tier.value} {policy.vram_share:.0%}" for tier, policy in POLICIES.items())
    return Chart(
        id="device_memory",
        title="Device memory at the peak",
        summary=f"Reserved: {_totals_told(bars)}. Tiers may reserve of it: {tiers}.",
        x_title="config",
        y_title="GiB",
        series=(*_stacked(bars, _PARTS), *_totals(bars)),
        is_horizontal=True,
        is_stacked=True,
        limits=tuple(LimitLine(one / GIB, f"{bytes_text(one)} of the GPU") for one in capacities),
    )


def host_memory_chart(run: Run) -> Chart:
    """Return the processes of one rank and their loader's buffer, against the RAM that it may use."""
    limit_bytes = run.rank_host.ram_limit_bytes
    bars = [bar for one in marked_configs(run) if (bar := _host_bar(one, run)) is not None]
    each = " per rank" if run.world_size > 1 else ""
    return Chart(
        id="host_memory",
        title=f"RAM{each}",
        summary=(
            f"Processes (measured) with the loader's buffer (predicted): {_totals_told(bars)}. "
            f"Above {OOM_SHARE:.0%} of the limit a config counts as out of memory."
        ),
        x_title="config",
        y_title="GiB",
        series=(*_stacked(bars, ("processes", "loader's buffer")), *_totals(bars)),
        is_horizontal=True,
        is_stacked=True,
        limits=(LimitLine(limit_bytes / GIB, f"{bytes_text(limit_bytes)} RAM limit{each}"),),
    )


def _measured_bar(marked: Marked) -> _Bar | None:
    """Return the largest peak of a config's fresh processes; split where the process that made it tells."""
    peaks = [(_peak(record), record) for record in marked.records]
    peak, record = max(peaks, key=lambda one: one[0], default=(0, None))
    if not peak or record is None or record.measurement is None:
        return None
    budget = vram_budget(record.measurement, record.telemetry)
    measured: dict[str, int] = {_WHOLE: peak}
    predicted: dict[str, int] = {}
    if budget is not None and budget.peak_reserved_bytes == peak:
        measured, predicted = _split(budget)
    capacity = record.measurement.loop.device.memory_bytes
    return _Bar(marked.name, measured, predicted, peak, capacity, Basis.MEASURED)


def _peak(record: TrialRecord) -> int:
    return (peak_reserved_bytes(record.measurement) if record.measurement else None) or 0


def _split(budget: VramBudget) -> tuple[dict[str, int], dict[str, int]]:
    """Return the parts of a peak that were measured, and those that were predicted."""
    measured = {
        _MODEL: budget.parameters_bytes + budget.buffers_bytes,
        _OPTIMIZER: budget.optimizer_bytes,
        _GRADIENTS: budget.gradients_bytes,
        _BATCH: budget.batch_bytes,
        _ACTIVATIONS: budget.activations_bytes,
        _CACHED: budget.fragmentation_bytes,
    }
    predicted = {_GRADIENTS: measured.pop(_GRADIENTS)} if budget.shows_predicted_gradients else {}
    return measured, predicted


def _predicted_bar(fit: PredictedFit, peak: PeakShown) -> _Bar:
    parts: dict[str, int] = defaultdict(int)
    for purpose, size in peak.by_purpose.items():
        parts[_PART_OF[purpose]] += size
    known = sum(parts.values())
    parts[_CACHED if known else _WHOLE] += max(0, peak.reserved_bytes - known)
    name = f"{fit.profile_id} {fit.precision.value}, batch {peak.batch_size:,}"
    return _Bar(name, {}, parts, peak.reserved_bytes, fit.capacity_bytes, Basis.PREDICTED)


def _host_bar(marked: Marked, run: Run) -> _Bar | None:
    if not marked.measurements:
        return None
    tier = marked.recommendation
    base_bytes = max(base_ram_bytes(one) for one in marked.measurements)
    if tier is not None:
        base_bytes, buffered = tier.base_ram_bytes, tier.buffer_bytes
    else:
        buffered = ram_buffer(marked.config, baseline_sample(run), base_bytes, run.rank_host).size_bytes
    parts = {"loader's buffer": buffered} if buffered else {}
    total = base_bytes + buffered
    limit = run.rank_host.ram_limit_bytes
    basis = Basis.PREDICTED if buffered else Basis.MEASURED
    return _Bar(marked.name, {"processes": base_bytes}, parts, total, limit, basis)


def _stacked(bars: Sequence[_Bar], names: Sequence[str]) -> list[Series]:
    """Return a series for each part and basis, in the order in which they add up."""
    series = []
    for name in names:
        for basis in Basis:
            sizes = [(bar.name, _parts(bar, basis).get(name, 0)) for bar in bars]
            points = tuple(Point(x=bar, y=size / GIB, text=bytes_text(size)) for bar, size in sizes if size)
            series.append(Series(name, basis, points, "bars"))
    return [one for one in series if one.points]


def _parts(bar: _Bar, basis: Basis) -> Mapping[str, int]:
    return bar.measured if basis is Basis.MEASURED else bar.predicted


def _totals(bars: Sequence[_Bar]) -> list[Series]:
    series = [
        Series(
            "total",
            basis,
            tuple(
                Point(x=bar.name, y=bar.total_bytes / GIB, text=bar.text)
                for bar in bars
                if bar.basis is basis
            ),
            "totals",
        )
        for basis in Basis
    ]
    return [one for one in series if one.points]


def _totals_told(bars: Sequence[_Bar]) -> str:
    return "; ".join(f"{bar.name}: {bar.text}, {bar.basis.value}" for bar in bars)
