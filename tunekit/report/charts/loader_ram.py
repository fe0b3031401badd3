"""Which workers and prefetch factors the host has the memory for, with batches as recommended. Pure."""

from collections.abc import Sequence

from tunekit.predict.ram import GridCell, RamVerdict, base_ram, ram_grid
from tunekit.recommend.memory import baseline_sample, tier_sample
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.report.blocks import Basis, HeatCell, HeatMap
from tunekit.report.charts.trials import BASELINE, Marked, marked_configs
from tunekit.report.loop_memory import base_note, queue_is_needless, reason_lines
from tunekit.units import bytes_text

_MOST_DEPTHS = 5
"""More columns would not be read on a telephone."""
_VALUES = {RamVerdict.SAFE: 0.0, RamVerdict.RISKY: 0.5, RamVerdict.OOM: 1.0}


def loader_ram_map(run: Run, best: Recommendation | None) -> HeatMap:
    """Return the RAM buffer of every workers x prefetch, its verdict, and where the known configs stand."""
    marked = [one for one in marked_configs(run) if one.config.num_workers]
    cells, told = _cells(run, best, marked)
    at = {(cell.num_workers, cell.prefetch_factor): cell for cell in cells}
    workers = sorted({cell.num_workers for cell in cells})
    depths = sorted({cell.prefetch_factor or 0 for cell in cells})
    named = {one.config.prefetch_factor for one in marked}
    while len(depths) > _MOST_DEPTHS and not named.issuperset(depths):
        depths.remove(next(depth for depth in reversed(depths) if depth not in named))
    return HeatMap(
        id="loader_ram",
        title="RAM buffer by workers and prefetch (predicted)",
        summary=told,
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
    without = [
        "the baseline" if name == BASELINE else name
        for one in marked_configs(run)
        if not one.config.num_workers
        for name in one.names
    ]
    told = [
        f"With {whose} batches of {config.batch_size:,} samples, against {limits}{each}",
        base_note(base),
        "* marks the workers and prefetch of a config, whatever its own batch size",
        *reason_lines(cells),
        *([f"without workers, so without a buffer: {', '.join(without)}"] if without else ()),
    ]
    return cells, f"{'. '.join(one[0].upper() + one[1:] for one in told)}."


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
