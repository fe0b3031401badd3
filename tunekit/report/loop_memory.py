"""How much memory a loop takes, and how much other loader settings would take. Pure."""

from collections.abc import Sequence

from tunekit.predict.ram import BaseRam, GridCell, base_ram, buffer_bytes, held_bytes, ram_grid
from tunekit.predict.vram.budget import VramBudget, vram_budget
from tunekit.records.attribution import LeafSeen
from tunekit.records.host import Host
from tunekit.records.measurement import LoopMeasurement, Measurement, Telemetry
from tunekit.report.blocks import Basis, Passage, Table
from tunekit.units import bytes_text, count_text, listed

_SHOWN_LEAVES = 4


def memory_blocks(
    measurement: Measurement, telemetry: Telemetry | None, host: Host
) -> tuple[Table | Passage, ...]:
    """Return how much RAM, /dev/shm and device memory the loop takes."""
    loop, budget = measurement.loop, vram_budget(measurement, telemetry)
    device: tuple[Table | Passage, ...] = ()
    if budget is not None:
        device = vram_blocks(budget, loop)
    elif loop.peak_allocated_bytes is not None:
        sizes = (loop.peak_allocated_bytes, loop.peak_reserved_bytes, loop.device.memory_bytes)
        peaks = "peak allocated {}, reserved {} of {}; by purpose n/a".format(*map(bytes_text, sizes))
        device = (Passage("Device memory (measured)", (peaks,)),)
    lines = (*_batch_lines(loop), *buffer_lines(measurement), _base_line(measurement))
    return (Passage("Memory", lines), *_grid_blocks(measurement, host), *device)


def _batch_lines(loop: LoopMeasurement) -> tuple[str, ...]:
    batch = loop.batch
    if batch is None:
        return (f"Batch: {bytes_text(loop.batch_bytes)} (measured); its parts n/a",)
    leaves = sorted(batch.leaves, key=lambda leaf: leaf.bytes, reverse=True)
    parts = listed([*map(_leaf_text, leaves)], _SHOWN_LEAVES, "; ")
    lines = [
        f"Batch of {count_text(batch.samples, 'sample')}: {bytes_text(batch.total_bytes)} (measured): {parts}"
    ]
    if loop.num_workers:
        through = f"/dev/shm {bytes_text(batch.shared_bytes)}, pipe {bytes_text(batch.piped_bytes)}"
        lines.append(f"From worker to training process: {through} (measured)")
    return tuple(lines)


def _leaf_text(leaf: LeafSeen) -> str:
    words = (leaf.path, " x ".join(map(str, leaf.shape)), leaf.dtype or leaf.kind, bytes_text(leaf.bytes))
    return " ".join(filter(None, words))


def buffer_lines(measurement: Measurement) -> tuple[str, ...]:
    """Return the loader's RAM buffer, predicted and measured."""
    loop = measurement.loop
    if not loop.num_workers:
        return ("RAM buffer: none, the training process loads its batches itself",)
    held = held_bytes(loop)
    pinned = "; pinned memory: a power of two for each tensor" if held > loop.batch_bytes else ""
    lines = [
        f"RAM buffer: {count_text(loop.num_workers, 'worker')} x prefetch {loop.prefetch_factor or 0} x "
        f"{bytes_text(held)} = {bytes_text(buffer_bytes(loop, held))} (predicted{pinned})"
    ]
    queue = measurement.details.queue if measurement.details else None
    if queue is None:
        lines.append(f"/dev/shm: {bytes_text(measurement.memory.peak_shm_bytes)} at most (measured)")
    else:
        state = "full" if queue.is_full else "still growing"
        batches = count_text(queue.batches, "batch", "batches")
        lines.append(
            f"/dev/shm with the queue {state}: {bytes_text(queue.shm_bytes)} (measured), "
            f"{bytes_text(queue.predicted_bytes)} for {batches} (predicted)"
        )
    return tuple(lines)


def _base_line(measurement: Measurement) -> str:
    queue = measurement.details.queue if measurement.details else None
    line = f"RAM: process tree {bytes_text(measurement.memory.peak_pss_bytes)} at most (PSS, measured)"
    if queue is None or queue.main_base_bytes is None:
        return line
    line += f"; without buffer: training process {bytes_text(queue.main_base_bytes)}"
    return line + f", each worker {bytes_text(queue.worker_base_bytes)}" * bool(measurement.loop.num_workers)


# --- other workers and prefetch factors ------------------------------------------------------


def _grid_blocks(measurement: Measurement, host: Host) -> tuple[Table | Passage, ...]:
    loop, base = measurement.loop, base_ram(measurement)
    if not loop.batch_bytes or queue_is_needless(loop):
        return ()
    shared_bytes = loop.batch.shared_bytes if loop.batch else None
    present = (loop.num_workers, loop.prefetch_factor)
    cells = ram_grid(held_bytes(loop), base.main_bytes, base.worker_bytes, host, present, shared_bytes)
    limit = f"{bytes_text(host.ram_limit_bytes)} RAM, {bytes_text(host.shm_free_bytes)} /dev/shm free"
    note = f"{base_note(base)}; this host: {limit}; *: as it is"
    return grid_table(cells), Passage("", (*reason_lines(cells), note))


def grid_table(cells: Sequence[GridCell]) -> Table:
    """Return workers down, prefetch across, the buffer and its verdict in each cell."""
    at = {(cell.num_workers, cell.prefetch_factor): cell for cell in cells}
    workers = sorted({count for count, _ in at if count})  # cells without workers have no place in it
    depths = sorted({depth or 0 for count, depth in at if count})
    return Table(
        "RAM buffer by workers and prefetch (predicted)",
        ("workers", *(f"prefetch {depth}" for depth in depths)),
        tuple((str(count), *(_cell_text(at[count, depth]) for depth in depths)) for count in workers),
        tuple(range(len(depths) + 1)),
        Basis.PREDICTED,
    )


def _cell_text(cell: GridCell) -> str:
    return f"{'*' if cell.is_present else ''}{bytes_text(cell.buffer_bytes)} {cell.verdict}"


def base_note(base: BaseRam) -> str:
    """Return what the processes take without the buffer."""
    each = f"{bytes_text(base.worker_bytes)} per worker" if base.worker_bytes else "n/a per worker, left out"
    return f"Base: {bytes_text(base.main_bytes)} + {each} (measured)"


def queue_is_needless(loop: LoopMeasurement) -> bool:
    """Return whether there is no DataLoader whose queue could be changed."""
    return loop.batch is None and not loop.num_workers and not loop.batch_bytes


def reason_lines(cells: Sequence[GridCell]) -> tuple[str, ...]:
    """Return a line for each limit that cells of the grid exceed, with the first such cell."""
    first: dict[str, str] = {}
    for cell in cells:
        if cell.limit is not None and cell.num_workers:
            at = f"{cell.num_workers} x {cell.prefetch_factor}"
            first.setdefault(cell.limit, f"{at}: {cell.verdict}, {cell.why}")
    return tuple(first.values())


# --- the device's memory ---------------------------------------------------------------------


def vram_blocks(budget: VramBudget, loop: LoopMeasurement) -> tuple[Table, Passage]:
    """Return what takes the device's memory at the peak, in the order in which it adds up."""
    figures = {
        "parameters": budget.parameters_bytes,
        "buffers": budget.buffers_bytes,
        "gradients (predicted)" if budget.shows_predicted_gradients else "gradients": budget.gradients_bytes,
        "optimizer state": budget.optimizer_bytes,
        "batch": budget.batch_bytes,
        "activations, workspace": budget.activations_bytes,
        "= peak allocated": budget.peak_allocated_bytes,
        "fragmentation": budget.fragmentation_bytes,
        "= peak reserved": budget.peak_reserved_bytes,
        "context": budget.context_bytes,
        "= of the driver": budget.nvml_bytes,
    }
    title = f"Device memory of {bytes_text(loop.device.memory_bytes)}, at the peak (measured)"
    how = "predicted" if budget.gradients_are_predicted else "measured"
    notes = (
        f"All gradients: {bytes_text(budget.complete_gradients_bytes)} ({how}); freed while activations peak",
        f"The peak lies in {budget.peak_in}" if budget.peak_in else "",
        f"Allocation retries: {budget.allocation_retries}" if budget.allocation_retries else "",
        budget.note or "",
    )
    rows = tuple((name, bytes_text(size)) for name, size in figures.items())
    return Table(title, ("", ""), rows, (1,)), Passage("", tuple(filter(None, notes)))
