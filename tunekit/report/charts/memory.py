"""How much memory configs take: at the peak, and for any workers and prefetch. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import product
from typing import NamedTuple

from tunekit.predict.ram import OOM_SHARE, base_ram, ram_grid
from tunekit.predict.vram.budget import vram_budget
from tunekit.recommend.memory import peak_reserved_bytes
from tunekit.recommend.tiers import POLICIES
from tunekit.records.prediction import PeakShown, PredictedFit, Purpose
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.report.blocks import Basis, Chart, LimitLine, Passage, Point, Series, Table, stacked_bars
from tunekit.report.charts.trials import Marked, marked_configs
from tunekit.report.loop_memory import base_note, grid_table, queue_is_needless, reason_lines
from tunekit.units import GIB, bytes_text

_MODEL, _GRADIENTS, _OPTIMIZER, _BATCH = "parameters, buffers", "gradients", "optimizer state", "batch"
_ACTIVATIONS, _CACHED, _WHOLE = "activations, workspace", "cached or held", "reserved, purpose unknown"
_PROCESSES, _BUFFER = "processes", "loader's buffer"
_PARTS = (_MODEL, _OPTIMIZER, _GRADIENTS, _BATCH, _ACTIVATIONS, _CACHED, _WHOLE, _PROCESSES, _BUFFER)
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


class _Bar(NamedTuple):
    """One bar."""

    name: str
    parts: Mapping[tuple[str, Basis], int]
    """The bytes of each part, by where the figure comes from."""
    capacity_bytes: int | None
    basis: Basis
    """Where the total comes from."""

    @property
    def total_bytes(self) -> int:
        """All parts together."""
        return sum(self.parts.values())

    @property
    def text(self) -> str:
        """The total and its limit."""
        of = f" of {bytes_text(self.capacity_bytes)}" if self.capacity_bytes else ""
        share = f" ({self.total_bytes / self.capacity_bytes:.0%})" if self.capacity_bytes else ""
        return f"{bytes_text(self.total_bytes)}{of}{share}"


def memory_charts(run: Run) -> tuple[Chart, ...]:
    """Return the GPU's memory where known, and the host's where no GPU's was measured."""
    marked = marked_configs(run)
    measured = [bar for one in marked if (bar := _measured_bar(one)) is not None]
    fits = run.prediction.fits if run.prediction else ()
    predicted = [_predicted_bar(fit, fit.peak) for fit in fits if fit.peak is not None]
    tiers = ", ".join(f"{tier.value} {policy.vram_share:.0%}" for tier, policy in POLICIES.items())
    title, note = "Device memory at the peak", f"Tier limits: {tiers}."
    charts = [_chart("device_memory", title, [*measured, *predicted], note, "of the GPU")]
    if not measured:
        each, note = " per rank" if run.world_size > 1 else "", f"Above {OOM_SHARE:.0%} of RAM is OOM."
        host = [_host_bar(one, run) for one in marked if one.evidence]
        charts.append(_chart("host_memory", f"RAM{each}", host, note, f"RAM limit{each}"))
    return tuple(one for one in charts if one.series)


def _measured_bar(marked: Marked) -> _Bar | None:
    """Return the largest peak of a config's fresh processes, by purpose where that process knows it."""
    peaks = [(peak_reserved_bytes(one.measurement) or 0, one) for one in marked.evidence]
    peak, largest = max(peaks, key=lambda one: one[0], default=(0, None))
    if not peak or largest is None:
        return None
    budget = vram_budget(largest.measurement, largest.record.telemetry)
    sizes = {_WHOLE: peak}
    if budget is not None and budget.peak_reserved_bytes == peak:
        sizes = {
            _MODEL: budget.parameters_bytes + budget.buffers_bytes,
            _OPTIMIZER: budget.optimizer_bytes,
            _GRADIENTS: budget.gradients_bytes,
            _BATCH: budget.batch_bytes,
            _ACTIVATIONS: budget.activations_bytes,
            _CACHED: budget.fragmentation_bytes,
        }
    parts = {(part, Basis.MEASURED): size for part, size in sizes.items()}
    if budget is not None and budget.shows_predicted_gradients and _GRADIENTS in sizes:
        parts[_GRADIENTS, Basis.PREDICTED] = parts.pop((_GRADIENTS, Basis.MEASURED))
    return _Bar(marked.name, parts, largest.loop.device.memory_bytes, Basis.MEASURED)


def _predicted_bar(fit: PredictedFit, peak: PeakShown) -> _Bar:
    parts: Counter[tuple[str, Basis]] = Counter()
    for purpose, size in peak.by_purpose.items():
        parts[_PART_OF[purpose], Basis.PREDICTED] += size
    rest = max(0, peak.reserved_bytes - parts.total())
    parts[_CACHED if parts else _WHOLE, Basis.PREDICTED] += rest
    name = f"{fit.profile_id} {fit.precision.value}, batch {peak.batch_size:,}"
    return _Bar(name, parts, fit.capacity_bytes, Basis.PREDICTED)


def _host_bar(marked: Marked, run: Run) -> _Bar:
    """Return the processes of one rank and their loader's buffer."""
    need = marked.recommendation or run.baseline_figures
    processes, buffer = (need.base_ram_bytes, need.buffer_bytes) if need else (0, 0)
    parts = {(_PROCESSES, Basis.MEASURED): processes, (_BUFFER, Basis.PREDICTED): buffer}
    basis = Basis.PREDICTED if buffer else Basis.MEASURED
    return _Bar(marked.name, parts, run.rank_host.ram_limit_bytes, basis)


def _chart(name: str, title: str, bars: Sequence[_Bar], note: str, limit: str) -> Chart:
    """Return stacked bars with their totals and limits."""
    parts, totals = [], []
    for part, basis in product(_PARTS, Basis):
        points = [_point(bar, bar.parts[part, basis]) for bar in bars if (part, basis) in bar.parts]
        parts.append(Series(part, basis, tuple(points), "bars"))
    for basis in Basis:
        points = [_point(bar, bar.total_bytes, bar.text) for bar in bars if bar.basis is basis]
        totals.append(Series("total", basis, tuple(points), "totals"))
    capacities = dict.fromkeys(bar.capacity_bytes for bar in bars if bar.capacity_bytes)
    limits = [LimitLine(one / GIB, f"{bytes_text(one)} {limit}") for one in capacities]
    summary = f"{'; '.join(f'{bar.name}: {bar.text}, {bar.basis.value}' for bar in bars)}. {note}"
    return stacked_bars(name, title, summary, ("config", "GiB"), parts, totals, limits)


def _point(bar: _Bar, size_bytes: int, text: str = "") -> Point:
    return Point(x=bar.name, y=size_bytes / GIB, text=text or bytes_text(size_bytes))


# --- the loader's buffer ---------------------------------------------------------------------


def loader_ram_blocks(run: Run, best: Recommendation | None) -> tuple[Table | Passage, ...]:
    """Return the RAM buffer of every workers x prefetch with its verdict; nothing where it is unknown."""
    of, measured = best or run.baseline_figures, [one.measurement for one in run.history.evidence(best)]
    if of is None or not measured or queue_is_needless(measured[0].loop):
        return ()
    config = of.config
    # The most that any of its processes took: what the tier's verdict goes by.
    base = max((base_ram(one) for one in measured), key=lambda one: one.with_workers(config.num_workers))
    host = run.rank_host
    cells = ram_grid(
        config.batch_bytes(of.held_bytes_per_sample),
        base.main_bytes,
        base.worker_bytes,
        host,
        (config.num_workers, config.prefetch_factor),
        config.batch_bytes(of.shared_bytes_per_sample),
    )
    limits = f"{bytes_text(host.ram_limit_bytes)} RAM, {bytes_text(host.shm_free_bytes)} /dev/shm free"
    batches = f"batches of {config.batch_size:,} samples against {limits}"
    named = f"*: {best.tier if best else 'the baseline'}"
    lines = (f"{named}; {batches}; {base_note(base)}.", *reason_lines(cells))
    return grid_table(cells), Passage("", lines, is_quiet=True)
