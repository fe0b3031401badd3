"""The memory of a machine that is not here, in words: verdicts and sums; each row's source in full. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from tunekit.plain_text import printable
from tunekit.predict.checkpointing import cost_text
from tunekit.predict.ram import GridCell, RamVerdict
from tunekit.records.machine_budget import BudgetRow, BufferCell, FigureBasis, MachineBudget, VramBudget
from tunekit.report.blocks import Block, Column, Lead, Line, Passage, Report, Section, fitted_table
from tunekit.report.loop_memory import grid_table, reason_lines
from tunekit.report.text import taken_text
from tunekit.units import bytes_text, count_text

_FITS = {"yes": "fits", "tight": "may not fit", "no": "does not fit"}
_MARKS = {FigureBasis.ASSUMED: " (assumed)"}
_SMALL_SHARE = 0.01
"""Of a memory, that a part of the one-screen answer has at least."""
_SCREEN_ROWS = 5
"""Numbers of workers of the one-screen answer."""


def budget_report(budget: MachineBudget, width: int = 80) -> Report:
    """Return everything that is shown of a machine's memory."""
    return Report(
        f"Memory: {printable(_machine_text(budget))}",
        (
            *_answer(budget),
            *_grid(budget, in_full=True),
            Section("ram", "RAM", "RAM"),
            *_rows_blocks(f"RAM of {bytes_text(budget.machine.ram_limit_bytes)}", budget.ram, width),
            *_vram(budget, width),
            Section("unknown", "Not known", "Not known"),
            Passage("Not known", tuple(map(printable, budget.unknown)), is_list=True),
        ),
    )


def budget_answer(budget: MachineBudget, width: int = 80) -> tuple[Block, ...]:
    """Return verdicts and sums: one screen.

    Args:
        budget: the whole of it.
        width: letters of a line.
    """
    vram = budget.vram
    lines = [f"RAM: {_sum_text(budget.ram, budget.machine.ram_limit_bytes)}"]
    if vram is not None:
        lines.append(f"{_vram_title(budget, vram)}: {_sum_text(vram.rows, vram.capacity_bytes)}")
        lines += filter(None, [_checkpointed_text(vram)])
    elif budget.vram_needs:
        lines.append(_without_vram(budget))
    unknown = count_text(len(budget.unknown), "thing") + " not known, " if budget.unknown else ""
    return (
        *_answer(budget),
        *_grid(budget),
        Passage("", tuple(map(printable, lines)), is_apart=True),
        Line(f"{unknown}and where each figure comes from: --full, or --html FILE", is_quiet=True),
    )


def _machine_text(budget: MachineBudget) -> str:
    machine = budget.machine
    gpus = f", {machine.gpus}x {machine.profile_id}" if machine.profile_id else ""
    return f"{bytes_text(machine.ram_limit_bytes)} RAM, {count_text(machine.cpus, 'CPU')}{gpus}"


def _checkpointed_text(vram: VramBudget) -> str:
    """Return what gradient checkpointing would give; nothing where no more fits with it."""
    other = vram.checkpointed
    if other is None or other.largest_batch <= vram.largest_batch:
        return ""
    reserved = (
        ""
        if other.reserved_bytes is None
        else f"{bytes_text(other.reserved_bytes)} reserved by torch in place of "
        f"{bytes_text(vram.reserved_bytes)}, "
    )
    return (
        f"With gradient checkpointing: {reserved}up to batch {other.largest_batch:,} in place of "
        f"{vram.largest_batch:,}, {cost_text(other.extra_flops)}."
    )


def _answer(budget: MachineBudget) -> tuple[Block, ...]:
    parts = [_machine_text(budget)]
    chosen, vram, accumulated = budget.chosen, budget.vram, budget.accumulation
    if chosen is not None:
        own = " as in the run" if chosen.is_present else ""
        parts.append(f"{_loader_text(chosen)}{own}: {chosen.verdict}")
    if vram is not None:
        parts.append(_fit_text(budget.batch_size or vram.batch_size, vram))
    sentence = ""
    if accumulated is not None:
        sentence = (
            f"Global batch {accumulated.global_batch:,} = batch {accumulated.batch_size:,} x accumulation "
            f"{accumulated.steps:,} x {count_text(accumulated.gpus, 'GPU')} ({accumulated.limit})."
        )
    of = f"{bytes_text(budget.batch_bytes)} a batch" if budget.batch_bytes else "bytes of a batch n/a"
    of += " of one GPU" if budget.machine.gpus > 1 else ""
    source = f" ({budget.source})" if budget.source else ""
    return (
        Lead(printable("; ".join(parts) + ".")),
        Lead(printable(sentence)),
        Line(printable(f"{of}{source}.{taken_text(budget.taken_names)}"), True),
    )


def _fit_text(batch_size: int, vram: VramBudget) -> str:
    """Return whether a batch fits; the memory's rows may be those of another one."""
    fits = vram.fits
    if batch_size != vram.batch_size:
        fits = "yes" if batch_size <= vram.largest_batch else "tight"
    most = "" if fits == "yes" else f" (the largest that fits: {vram.largest_batch:,})"
    return f"batch {batch_size:,} in {vram.precision} {_FITS[fits]}{most}"


def _loader_text(cell: BufferCell) -> str:
    if not cell.num_workers:
        return "no workers"
    return f"{count_text(cell.num_workers, 'worker')} x prefetch {cell.prefetch_factor}"


def _grid(budget: MachineBudget, in_full: bool = False) -> tuple[Block, ...]:
    """Return workers x prefetch with their verdicts; nothing where the bytes of a batch are not known."""
    cells = [GridCell(**{**dict(one), "verdict": RamVerdict(one.verdict)}) for one in budget.cells]
    if not cells:
        return ()
    if not in_full:
        cells = _largest(cells)
    present = [one for one in cells if one.is_present and one.num_workers]
    lines = list(reason_lines(cells)) if in_full else []
    if present:
        lines.append("* is the run's setting")
    table = grid_table(cells, {one.prefetch_factor for one in present})
    if budget.machine.gpus > 1:
        lines.append(
            f"workers are those of each of the {budget.machine.gpus} processes, RAM is all that they take "
            "together"
        )
        table = replace(table, title=f"The host's {table.title}")
    section = (Section("loader", "The loader's buffer", "Loader"),) if in_full else ()
    return *section, table, Passage("", tuple(map(printable, lines)))


def _largest(cells: Sequence[GridCell]) -> list[GridCell]:
    """Return the cells of the most workers, and of the run's own."""
    counts = sorted({one.num_workers for one in cells})
    kept = {*counts[-_SCREEN_ROWS:], *(one.num_workers for one in cells if one.is_present)}
    return [one for one in cells if one.num_workers in kept]


def _vram(budget: MachineBudget, width: int) -> tuple[Block, ...]:
    section = Section("vram", "Device memory", "GPU")
    if budget.vram is None:
        return section, Line(printable(_without_vram(budget)), is_apart=True)
    title = _vram_title(budget, budget.vram)
    return (
        section,
        *_rows_blocks(title, budget.vram.rows, width),
        Line(printable(_checkpointed_text(budget.vram))),
    )


def _without_vram(budget: MachineBudget) -> str:
    whose = f" of {budget.machine.profile_id}" if budget.machine.profile_id else ""
    return f"Device memory{whose}: n/a; {budget.vram_needs}"


def _vram_title(budget: MachineBudget, vram: VramBudget) -> str:
    kept = ", of which the run kept the parts" if budget.batch_size not in (None, vram.batch_size) else ""
    return (
        f"{budget.machine.profile_id} with {bytes_text(vram.capacity_bytes)}, batch {vram.batch_size:,} in "
        f"{vram.precision}{kept} (predicted)"
    )


def _rows_blocks(title: str, rows: Sequence[BudgetRow], width: int) -> tuple[Block, ...]:
    """Return the parts of a memory, and below them where each figure comes from."""
    columns = (
        Column[BudgetRow]("part", lambda one: one.name, is_numeric=False),
        Column[BudgetRow]("memory", lambda one: bytes_text(one.size_bytes)),
        Column[BudgetRow]("basis", lambda one: str(one.basis), is_numeric=False),
    )
    of: dict[str, list[str]] = {}
    for one in rows:
        of.setdefault(one.source, []).append(one.name)
    sources = tuple(printable(f"{'; '.join(names)}: {source}") for source, names in of.items())
    return fitted_table(title, columns, rows, width), Passage("", sources, is_quiet=True)


def _sum_text(rows: Sequence[BudgetRow], total_bytes: int) -> str:
    """Return the parts of a memory in a sentence, those together that are too small to matter."""
    small = [
        one for one in rows if one.size_bytes is not None and 0 <= one.size_bytes < _SMALL_SHARE * total_bytes
    ]
    if len(small) < 2:
        small = []
    *parts, rest = [
        f"{one.name} {bytes_text(one.size_bytes)}{_MARKS.get(one.basis, '')}"
        for one in rows
        if one not in small or one is rows[-1]
    ]
    others = sum(one.size_bytes or 0 for one in small if one is not rows[-1])
    return ", ".join([*parts, *([f"others {bytes_text(others)}"] if small else []), rest])
