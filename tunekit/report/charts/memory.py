"""What configs take of the memory: at the peak, and for a buffer of any workers and prefetch. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tunekit.predict.ram import OOM_SHARE, GridCell, RamVerdict, base_ram, ram_grid
from tunekit.predict.vram.budget import vram_budget
from tunekit.recommend.memory import baseline_sample, peak_reserved_bytes, ram_buffer, tier_sample
from tunekit.recommend.tiers import POLICIES, base_ram_bytes
from tunekit.records.prediction import PeakShown, PredictedFit, Purpose
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.report.blocks import Basis, Chart, HeatCell, HeatMap, LimitLine, Point, Series, stacked_bars
from tunekit.report.charts.trials import Marked, marked_configs
from tunekit.report.loop_memory import base_note, grid_axes, queue_is_needless, reason_lines
from tunekit.units import GIB, bytes_text

_MODEL, _GRADIENTS, _OPTIMIZER, _BATCH = "parameters, buffers", "gradients", "optimizer state", "batch"
_ACTIVATIONS, _CACHED, _WHOLE = "activations, workspace", "cached or held", "reserved, purpose unknown"
_ON_DEVICE = (_MODEL, _OPTIMIZER, _GRADIENTS, _BATCH, _ACTIVATIONS, _CACHED, _WHOLE)
_PROCESSES, _BUFFER = "processes", "loader's buffer"

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

_Part = tuple[str, Basis]


class _Bar(NamedTuple):
    """One bar."""

    name: str
    parts: Mapping[_Part, int]
    """Bytes."""
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
    bars = [bar for one in marked_configs(run) if (bar := _measured_bar(one)) is not None]
    is_measured = bool(bars)
    fits = run.prediction.fits if run.prediction else ()
    bars += [_predicted_bar(fit, fit.peak) for fit in fits if fit.peak is not None]
    capacities = dict.fromkeys(bar.capacity_bytes for bar in bars if bar.capacity_bytes)
    tiers = ", ".join(f"{tier.value} {policy.vram_share:.0%}" for tier, policy in POLICIES.items())
    on_device = _chart(
        "device_memory",
        "Device memory at the peak",
        f"Reserved: {_totals_text(bars)}. Tier limits: {tiers}.",
        bars,
        [LimitLine(one / GIB, f"{bytes_text(one)} of the GPU") for one in capacities],
    )
    shown = (on_device,) if is_measured else (on_device, _host_chart(run))
    return tuple(one for one in shown if one.series)


def _host_chart(run: Run) -> Chart:
    """Return the processes of one rank and their loader's buffer, against the RAM that it may use."""
    limit_bytes = run.rank_host.ram_limit_bytes
    bars = [_host_bar(one, run) for one in marked_configs(run) if one.measurements]
    each = " per rank" if run.world_size > 1 else ""
    return _chart(
        "host_memory",
        f"RAM{each}",
        f"Processes (measured) with the loader's buffer (predicted): {_totals_text(bars)}. "
        f"Above {OOM_SHARE:.0%} of the limit a config counts as out of memory.",
        bars,
        [LimitLine(limit_bytes / GIB, f"{bytes_text(limit_bytes)} RAM limit{each}")],
    )


def _measured_bar(marked: Marked) -> _Bar | None:
    """Return the largest peak of a config's fresh processes; split where the process that made it tells."""
    peaks = [
        (peak_reserved_bytes(record.measurement) or 0, record)
        for record in marked.records
        if record.measurement
    ]
    peak, record = max(peaks, key=lambda one: one[0], default=(0, None))
    if not peak or record is None or record.measurement is None:
        return None
    budget = vram_budget(record.measurement, record.telemetry)
    parts = {(_WHOLE, Basis.MEASURED): peak}
    if budget is not None and budget.peak_reserved_bytes == peak:
        of_gradients = Basis.PREDICTED if budget.shows_predicted_gradients else Basis.MEASURED
        parts = {
            (_MODEL, Basis.MEASURED): budget.parameters_bytes + budget.buffers_bytes,
            (_OPTIMIZER, Basis.MEASURED): budget.optimizer_bytes,
            (_GRADIENTS, of_gradients): budget.gradients_bytes,
            (_BATCH, Basis.MEASURED): budget.batch_bytes,
            (_ACTIVATIONS, Basis.MEASURED): budget.activations_bytes,
            (_CACHED, Basis.MEASURED): budget.fragmentation_bytes,
        }
    return _Bar(marked.name, parts, peak, record.measurement.loop.device.memory_bytes, Basis.MEASURED)


def _predicted_bar(fit: PredictedFit, peak: PeakShown) -> _Bar:
    parts: Counter[_Part] = Counter()
    for purpose, size in peak.by_purpose.items():
        parts[_PART_OF[purpose], Basis.PREDICTED] += size
    known = parts.total()
    parts[_CACHED if known else _WHOLE, Basis.PREDICTED] += max(0, peak.reserved_bytes - known)
    name = f"{fit.profile_id} {fit.precision.value}, batch {peak.batch_size:,}"
    return _Bar(name, parts, peak.reserved_bytes, fit.capacity_bytes, Basis.PREDICTED)


def _host_bar(marked: Marked, run: Run) -> _Bar:
    tier = marked.recommendation
    base_bytes = max(base_ram_bytes(one) for one in marked.measurements)
    if tier is not None:
        base_bytes, buffered = tier.base_ram_bytes, tier.buffer_bytes
    else:
        buffered = ram_buffer(marked.config, baseline_sample(run), base_bytes, run.rank_host).size_bytes
    return _Bar(
        marked.name,
        {(_PROCESSES, Basis.MEASURED): base_bytes, (_BUFFER, Basis.PREDICTED): buffered},
        base_bytes + buffered,
        run.rank_host.ram_limit_bytes,
        Basis.PREDICTED if buffered else Basis.MEASURED,
    )


def _chart(name: str, title: str, summary: str, bars: Sequence[_Bar], limits: Sequence[LimitLine]) -> Chart:
    """Return bars of parts that add up, with their totals."""
    parts = [
        Series(
            part,
            basis,
            tuple(
                Point(x=bar.name, y=size / GIB, text=bytes_text(size))
                for bar in bars
                if (size := bar.parts.get((part, basis), 0))
            ),
            "bars",
        )
        for part in (*_ON_DEVICE, _PROCESSES, _BUFFER)
        for basis in Basis
    ]
    totals = [
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
    return stacked_bars(name, title, summary, ("config", "GiB"), parts, totals, limits)


def _totals_text(bars: Sequence[_Bar]) -> str:
    return "; ".join(f"{bar.name}: {bar.text}, {bar.basis.value}" for bar in bars)


# --- the loader's buffer ---------------------------------------------------------------------

_VALUES = {RamVerdict.SAFE: 0.0, RamVerdict.RISKY: 0.5, RamVerdict.OOM: 1.0}


def loader_ram_map(run: Run, best: Recommendation | None) -> HeatMap:
    """Return the RAM buffer of every workers x prefetch, its verdict, and where the known configs stand."""
    marked = [one for one in marked_configs(run) if one.config.num_workers]
    cells, summary = _cells(run, best, marked)
    at = {(cell.num_workers, cell.prefetch_factor): cell for cell in cells}
    workers, depths = grid_axes(cells)
    return HeatMap(
        id="loader_ram",
        title="RAM buffer by workers and prefetch (predicted)",
        summary=summary,
        x_title="prefetch",
        y_title="workers",
        columns=tuple(str(depth) for depth in depths),
        rows=tuple(str(count) for count in workers),
        cells=tuple(tuple(_cell(at[count, depth], marked) for depth in depths) for count in workers),
        basis=Basis.PREDICTED,
    )


def _cells(
    run: Run, best: Recommendation | None, marked: Sequence[Marked]
) -> tuple[tuple[GridCell, ...], str]:
    """Return the cells and what they go by; none where nothing was measured, or there is no loader."""
    config = best.config if best is not None else run.baseline_config
    measured = [one.measurement for one in run.history.evidence(best)]
    if config is None or not measured or queue_is_needless(measured[0].loop):
        return (), ""
    own, shared = baseline_sample(run) if best is None else tier_sample(best, run)
    own = own or measured[0].loop.bytes_per_sample
    if not own:
        return (), ""
    # The most that any of its processes took: what the tier's own verdict goes by.
    base = max((base_ram(one) for one in measured), key=lambda one: one.with_workers(config.num_workers))
    host = run.rank_host
    cells = ram_grid(
        config.batch_bytes(own),
        base.main_bytes,
        base.worker_bytes,
        host,
        batch_shared_bytes=None if shared is None else config.batch_bytes(shared),
        others=[(one.config.num_workers, one.config.prefetch_factor) for one in marked],
    )
    whose = f"{best.tier.value}'s" if best is not None else "the baseline's"
    limits = f"{bytes_text(host.ram_limit_bytes)} RAM, {bytes_text(host.shm_free_bytes)} /dev/shm free"
    each = " of each rank" if run.world_size > 1 else ""
    texts = (
        f"{whose} batches of {config.batch_size:,} samples against {limits}{each}",
        base_note(base),
        *reason_lines(cells),
    )
    return cells, f"{'; '.join(texts)}."


def _cell(cell: GridCell, marked: Sequence[Marked]) -> HeatCell:
    loader = (cell.num_workers, cell.prefetch_factor)
    buffer = bytes_text(cell.buffer_bytes)
    same = [one for one in marked if (one.config.num_workers, one.config.prefetch_factor) == loader]
    return HeatCell(
        value=_VALUES[cell.verdict],
        text=f"{buffer} {cell.verdict}",
        note=(
            f"{cell.num_workers} workers x prefetch {cell.prefetch_factor}: buffer {buffer}, with all "
            f"processes {bytes_text(cell.ram_bytes)} (predicted): {cell.verdict}"
            f"{f', {cell.why}' if cell.why else ''}"
        ),
        marks=tuple(name for one in same for name in one.names),
    )
