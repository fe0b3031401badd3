"""What a loop takes of the machine's memory, and what other loader settings would take, in words. Pure."""

import math
from collections.abc import Collection, Sequence

from tunekit.predict.ram import BaseRam, GridCell, base_ram, buffer_bytes, held_bytes, ram_grid
from tunekit.predict.vram.budget import VramBudget, vram_budget
from tunekit.records.attribution import LeafSeen
from tunekit.records.host import Host
from tunekit.records.measurement import LoopMeasurement, Measurement, Telemetry
from tunekit.report.blocks import Passage, Table
from tunekit.units import bytes_text, count_text

_LARGE_SHARE = 0.01
"""A leaf below this share of its batch is not worth a line."""
_MOST_DEPTHS = 4
_MOST_REASONS = 3


def memory_blocks(
    measurement: Measurement, telemetry: Telemetry | None, host: Host
) -> tuple[Table | Passage, ...]:
    """Return what the loop takes of RAM, /dev/shm and the device's memory."""
    loop, budget = measurement.loop, vram_budget(measurement, telemetry)
    device: tuple[Table | Passage, ...] = ()
    if budget is not None:
        device = vram_blocks(budget, loop)
    elif loop.peak_allocated_bytes is not None:
        sizes = (loop.peak_allocated_bytes, loop.peak_reserved_bytes, loop.device.memory_bytes)
        peaks = "peak allocated {}, reserved {} of {}; by purpose n/a".format(*map(bytes_text, sizes))
        device = (Passage("Device memory (measured)", (peaks,)),)
    lines = (*batch_lines(loop), *buffer_lines(measurement), _base_line(measurement))
    return (Passage("Memory", lines), *_grid_blocks(measurement, host), *device)


def batch_lines(loop: LoopMeasurement) -> tuple[str, ...]:
    """Return what a batch is made of: a formula for each large leaf, and what it takes on its way."""
    batch = loop.batch
    if batch is None:
        return (f"Batch: {loop.batch_bytes:,} B (measured); its parts n/a",)
    large = [leaf for leaf in batch.leaves if leaf.bytes >= _LARGE_SHARE * batch.total_bytes]
    small = len(batch.leaves) - len(large) + batch.leaves_left_out
    rest = f", {count_text(small, 'smaller part')} not shown" if small else ""
    lines = [f"Batch of {count_text(batch.samples, 'sample')}: {batch.total_bytes:,} B (measured){rest}"]
    lines += [f"  {leaf_text(leaf)}" for leaf in large]
    if loop.num_workers:
        piped = f", {batch.piped_bytes:,} B more through a pipe" if batch.piped_bytes else ""
        lines.append(f"A worker hands it over in {batch.shared_bytes:,} B of /dev/shm (measured){piped}")
    return tuple(lines)


def leaf_text(leaf: LeafSeen) -> str:
    """Return a leaf as "[0]: 256 x 3 x 224 x 224 x 4 = 154,140,672 B (float32)", its bytes alone if odd."""
    name, what = leaf.path or "batch", leaf.dtype or leaf.kind
    elements = math.prod(leaf.shape)
    if not leaf.shape or not elements or leaf.bytes % elements:
        return f"{name}: {leaf.bytes:,} B ({what})"
    factors = " x ".join(str(size) for size in (*leaf.shape, leaf.bytes // elements))
    return f"{name}: {factors} = {leaf.bytes:,} B ({what})"


def buffer_lines(measurement: Measurement) -> tuple[str, ...]:
    """Return the loader's RAM buffer as predicted, and as it was seen."""
    loop = measurement.loop
    if not loop.num_workers:
        return ("RAM buffer: none, the training process loads its batches itself",)
    held = held_bytes(loop)
    workers = count_text(loop.num_workers, "worker")
    pinned = "; pinned memory comes in powers of two, a block for each tensor" if loop.pin_memory else ""
    lines = [
        f"RAM buffer: {workers} x prefetch {loop.prefetch_factor or 0} x {bytes_text(held)} = "
        f"{bytes_text(buffer_bytes(loop, held))} (predicted{pinned if held > loop.batch_bytes else ''})"
    ]
    queue = measurement.details.queue if measurement.details else None
    if queue is None:
        peak = bytes_text(measurement.memory.peak_shm_bytes)
        lines.append(f"/dev/shm grew by {peak} at most (measured); with the queue held full n/a")
    else:
        state = "full" if queue.is_full else "still growing"
        kept = f", of which {bytes_text(queue.kept_bytes)} kept from the epoch before"
        lines.append(
            f"/dev/shm with the queue {state}: {bytes_text(queue.shm_bytes)} (measured"
            f"{kept if queue.kept_bytes else ''}), {bytes_text(queue.predicted_bytes)} for "
            f"{count_text(queue.batches, 'batch', 'batches')} (predicted)"
        )
    return tuple(lines)


def _base_line(measurement: Measurement) -> str:
    queue = measurement.details.queue if measurement.details else None
    tree = f"RAM: process tree {bytes_text(measurement.memory.peak_pss_bytes)} at most (PSS, measured)"
    if queue is None or queue.main_base_bytes is None:
        return tree
    line = f"{tree}; without buffer: training process {bytes_text(queue.main_base_bytes)}"
    if measurement.loop.num_workers:
        line += f", each worker {bytes_text(queue.worker_base_bytes)}"
        if queue.worker_growth_bytes:
            line += f", {bytes_text(queue.worker_growth_bytes)} more at the end of the epoch (predicted)"
    return line


# --- other workers and prefetch factors ------------------------------------------------------


def _grid_blocks(measurement: Measurement, host: Host) -> tuple[Table | Passage, ...]:
    """Return workers down, prefetch across; each cell has the buffer and its verdict."""
    loop, base = measurement.loop, base_ram(measurement)
    shared_bytes = loop.batch.shared_bytes if loop.batch else None
    present = (loop.num_workers, loop.prefetch_factor)
    every = ram_grid(held_bytes(loop), base.main_bytes, base.worker_bytes, host, present, shared_bytes)
    if not loop.batch_bytes or not every or queue_is_needless(loop):
        return ()
    marked = (
        "; * is the present setting" if any(cell.is_present and cell.num_workers for cell in every) else ""
    )
    limit = f"{bytes_text(host.ram_limit_bytes)} RAM, {bytes_text(host.shm_free_bytes)} /dev/shm free"
    return grid_table(every, {loop.prefetch_factor}), Passage(
        "", (*reason_lines(every), f"{base_note(base)}; this host: {limit}{marked}")
    )


def grid_table(cells: Sequence[GridCell], kept: Collection[int | None]) -> Table:
    """Return workers down, prefetch across, the buffer and its verdict in each cell.

    Args:
        cells: of the grid.
        kept: prefetch factors that have to stay.
    """
    at = {(cell.num_workers, cell.prefetch_factor): cell for cell in cells}
    workers, depths = grid_axes(cells, kept)
    return Table(
        "RAM buffer by workers and prefetch (predicted)",
        ("workers", *(f"prefetch {depth}" for depth in depths)),
        tuple((str(count), *(_cell_text(at[count, depth]) for depth in depths)) for count in workers),
        tuple(range(len(depths) + 1)),
    )


def grid_axes(cells: Sequence[GridCell], kept: Collection[int | None]) -> tuple[list[int], list[int]]:
    """Return the workers and the prefetch factors that a grid has room for.

    Args:
        cells: those without workers have no buffer, and no place in it.
        kept: prefetch factors that have to stay.
    """
    buffered = [cell for cell in cells if cell.num_workers]
    depths = sorted({cell.prefetch_factor or 0 for cell in buffered})
    while len(depths) > _MOST_DEPTHS and (others := [depth for depth in depths if depth not in kept]):
        depths.remove(others[-1])
    return sorted({cell.num_workers for cell in buffered}), depths


def _cell_text(cell: GridCell) -> str:
    return f"{'*' if cell.is_present else ''}{bytes_text(cell.buffer_bytes)} {cell.verdict}"


def base_note(base: BaseRam) -> str:
    """Return what the processes take without the buffer, and what that leaves out."""
    if base.worker_bytes:
        return f"Base: {bytes_text(base.main_bytes)} + {bytes_text(base.worker_bytes)} per worker (measured)"
    return (
        f"Base: {bytes_text(base.main_bytes)}, all processes at their peak (measured); what more workers "
        "would take is n/a and left out"
    )


def queue_is_needless(loop: LoopMeasurement) -> bool:
    """Return whether there is no DataLoader whose queue could be changed."""
    return loop.batch is None and not loop.num_workers and not loop.batch_bytes


def reason_lines(cells: Sequence[GridCell]) -> tuple[str, ...]:
    """Return a line for each limit that stands against cells of the grid, of the first one that it meets."""
    first: dict[str, str] = {}
    _, depths = grid_axes(cells, {cell.prefetch_factor for cell in cells if cell.is_present})
    for cell in cells:
        if cell.limit is not None and cell.num_workers and cell.prefetch_factor in depths:
            at = f"{cell.num_workers} x {cell.prefetch_factor}"
            first.setdefault(cell.limit, f"{at}: {cell.verdict}, {cell.why}")
    return tuple(first.values())[:_MOST_REASONS]


# --- the device's memory ---------------------------------------------------------------------


def vram_blocks(budget: VramBudget, loop: LoopMeasurement) -> tuple[Table, Passage]:
    """Return what the device's memory is taken by at the peak, in the order in which it adds up."""
    figures = {
        "parameters": budget.parameters_bytes,
        "buffers": budget.buffers_bytes,
        "gradients there": budget.gradients_bytes,
        "optimizer state": budget.optimizer_bytes,
        "batch": budget.batch_bytes,
        "activations, workspace": budget.activations_bytes,
        "= peak allocated": budget.peak_allocated_bytes,
        "fragmentation": budget.fragmentation_bytes,
        "= peak reserved": budget.peak_reserved_bytes,
        "context": budget.context_bytes,
        "= of the driver": budget.nvml_bytes,
    }
    texts = {name: bytes_text(size) for name, size in figures.items()}
    if budget.shows_predicted_gradients:
        texts["gradients there"] += " (predicted)"
    title = f"Device memory of {bytes_text(loop.device.memory_bytes)}, at the peak (measured)"
    how = " (predicted)" if budget.gradients_are_predicted else ""
    gradients = f"{bytes_text(budget.complete_gradients_bytes)}{how}"
    sentences = [f"All gradients: {gradients}; freed while activations peak"]
    if budget.peak_in is not None:
        sentences.append(f"The peak lies in {budget.peak_in}")
    if budget.allocation_retries is not None:
        sentences.append(count_text(budget.allocation_retries, "allocation retry", "allocation retries"))
    if budget.note is not None:
        sentences.append(budget.note)
    return Table(title, ("", ""), tuple(texts.items()), (1,)), Passage("", tuple(sentences))
