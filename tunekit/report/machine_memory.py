"""The memory that a training takes on another machine, in words. Pure."""

from tunekit.predict.ram import GridCell
from tunekit.records.machine_memory import GpuFit, MachineMemory
from tunekit.records.recommendation import RamVerdict
from tunekit.report.blocks import Block, Lead, Line, Passage, Table
from tunekit.report.loop_memory import grid_table, reason_lines
from tunekit.units import bytes_text, count_text

_FITS = {"yes": "fits", "tight": "may not fit", "no": "does not fit"}


def machine_memory_blocks(found: MachineMemory) -> tuple[Block, ...]:
    """Return the verdicts of workers x prefetch, then each part of RAM and GPU memory."""
    machine, loader = found.machine, found.loader
    cells = [GridCell(**{**dict(one), "verdict": RamVerdict(one.verdict)}) for one in found.loaders]
    gpu = f", {machine.profile_id}" if machine.profile_id else ""
    workers = f"{count_text(loader.num_workers, 'worker')} x prefetch {loader.prefetch_factor or 0}"
    marked = ["* the run's setting"] if any(one.is_present and one.num_workers for one in cells) else []
    parts = tuple((one.memory, one.name, bytes_text(one.size_bytes), one.basis) for one in found.parts)
    ram = f"{bytes_text(machine.ram_limit_bytes)} RAM, {count_text(machine.cpus, 'CPU')}{gpu}"
    return (
        Lead(f"{ram}: {workers}{' (the run)' * loader.is_present}: {loader.verdict}."),
        Lead(_gpu_text(found.gpu, machine.profile_id)),
        Line(f"{bytes_text(found.batch_bytes)} per batch ({found.source}).", is_quiet=True),
        grid_table(cells),
        Passage("", (*reason_lines(cells), *marked)),
        Table("Memory by part", ("memory", "part", "size", "basis"), parts, (2,)),
        Passage("", found.notes, is_quiet=True),
    )


def _gpu_text(gpu: GpuFit | None, profile_id: str | None) -> str:
    """Return whether the batch fits the GPU."""
    if gpu is None:
        return ""
    most = f"largest with margin {gpu.largest_batch:,}"
    if gpu.largest_checkpointed:
        most += f", {gpu.largest_checkpointed:,} with gradient checkpointing"
    parts = "" if gpu.peak_batch_size == gpu.batch_size else f"; parts below: batch {gpu.peak_batch_size:,}"
    batch = f"Batch {gpu.batch_size:,} in {gpu.precision}"
    return f"{batch} {_FITS[gpu.fits]} {profile_id} ({most}{parts}): predicted."
