"""The tables of runs side by side: configs, figures, where the time goes. Pure."""

from collections.abc import Callable
from dataclasses import replace

from tunekit.recommend.time_breakdown import SAMPLES
from tunekit.records.comparison import AgainstReference, ComparedRun, RunComparison
from tunekit.records.run import Objective
from tunekit.report.columns import Column, fitted_table
from tunekit.report.table import PREDICTED, Basis, Table, changed_cells, predicted_rows
from tunekit.report.text import (
    TOO_WIDE_IN_TABLE,
    UNKNOWN,
    factor_text,
    interval_text,
    is_too_wide,
    knob_rows,
    range_text,
    speedup_text,
)
from tunekit.units import bytes_text, duration_text, rate_text

_CHANGED = "changed"
_RANGE = "  95% range"

_Row = tuple[str, ...]


def runs_tables(comparison: RunComparison, width: int) -> tuple[Table, ...]:
    """Return configs and figures: of two runs a column each, of more a row each and their knobs beside.

    Args:
        comparison: of two runs or more.
        width: of the terminal, in letters.
    """
    if len(comparison.runs) == 2:
        return (_pair_table(comparison),)
    return (_rows_table(comparison, width), _knobs_table(comparison))


def _pair_table(comparison: RunComparison) -> Table:
    before, after = comparison.runs
    (one,) = comparison.against
    knobs = knob_rows([run.config for run in comparison.runs])
    rows = [(*row, _CHANGED if row[1] != row[2] else "") for row in knobs]
    rows += _figure_rows(before, after, one)
    return Table(
        "Side by side (measured)",
        ("", before.name, after.name, f"{after.name} to {before.name}"),
        tuple(rows),
        (1, 2, 3),
        Basis.MEASURED,
        predicted_rows(rows),
        changed_cells(knobs),
    )


def _figure_rows(before: ComparedRun, after: ComparedRun, one: AgainstReference) -> list[_Row]:
    def row(label: str, text: Callable[[ComparedRun], str], ratio: float | None = None) -> _Row:
        return (label, text(before), text(after), "" if ratio is None else factor_text(ratio))

    factor_range = range_text(one.factor)
    rows = [
        row("samples/s", lambda run: rate_text(run.rate_samples_per_s.value), one.rate_ratio),
        (_RANGE, _own_range(before), _own_range(after), factor_range),
        row("it/s", lambda run: rate_text(run.it_per_s.value)),
        row("epoch", lambda run: duration_text(run.epoch_time_s)),
        row(_speedup_label(before, after), _speedup_text),
        row(_RANGE, lambda run: range_text(run.speedup) if run.speedup else ""),
    ]
    if before.peak_reserved_bytes is not None or after.peak_reserved_bytes is not None:
        rows.append(row("VRAM reserved", lambda run: bytes_text(run.peak_reserved_bytes), one.reserved_ratio))
    ratio = after.base_ram_bytes / before.base_ram_bytes if before.base_ram_bytes else None
    rows.append(row("RAM of processes", lambda run: bytes_text(run.base_ram_bytes), ratio))
    rows.append(row(f"RAM buffer {PREDICTED}", _buffer_text))
    return rows


def _rows_table(comparison: RunComparison, width: int) -> Table:
    against = {one.name: one for one in comparison.against}

    def factor_text(run: ComparedRun) -> str:
        one = against.get(run.name)
        if one is None:
            return "1"
        return speedup_text(one.factor, TOO_WIDE_IN_TABLE) if one.factor else f"{one.rate_ratio:.2f}x (n/a)"

    def verdict_text(run: ComparedRun) -> str:
        one = against.get(run.name)
        if one is None:
            return "reference"
        if one.verdict == "no significant difference":
            return "same"
        return "regression" if one.is_regression else one.verdict or UNKNOWN

    def baseline_text(run: ComparedRun) -> str:
        one = against.get(run.name)
        return "1" if one is None else speedup_text(one.baseline_factor, TOO_WIDE_IN_TABLE)

    columns = (
        Column[ComparedRun]("", lambda run: run.name, is_numeric=False),
        Column[ComparedRun](
            "samples/s (95%)", lambda run: interval_text(run.rate_samples_per_s, too_wide=TOO_WIDE_IN_TABLE)
        ),
        Column[ComparedRun](f"to {comparison.reference.name} (95%)", factor_text),
        Column[ComparedRun]("verdict", verdict_text, is_numeric=False),
        Column[ComparedRun]("its baseline (95%)", baseline_text, drop=3),
        Column[ComparedRun]("own speed-up", _speedup_text, drop=4),
        Column[ComparedRun]("epoch", lambda run: duration_text(run.epoch_time_s), drop=5),
        Column[ComparedRun]("VRAM", lambda run: bytes_text(run.peak_reserved_bytes), is_optional=True),
        Column[ComparedRun]("RAM", lambda run: bytes_text(run.base_ram_bytes), drop=1),
        Column[ComparedRun](f"buffer {PREDICTED}", _buffer_text, drop=2),
    )
    table = fitted_table("Runs (measured)", columns, comparison.runs, width)
    return replace(table, basis=Basis.MEASURED)


def _knobs_table(comparison: RunComparison) -> Table:
    names = tuple(run.name for run in comparison.runs)
    knobs = knob_rows([run.config for run in comparison.runs])
    rows = [(row[0], row[1], *(_marked(cell, row[1]) for cell in row[2:])) for row in knobs]
    rows.append(("tier", *("own" if run.tier is None else run.tier.value for run in comparison.runs)))
    return Table(
        f"Configs; * is another value than in {comparison.reference.name}",
        ("", *names),
        tuple(rows),
        tuple(range(1, len(names) + 1)),
        changed=changed_cells(knobs),
    )


def _marked(cell: str, reference: str) -> str:
    return cell if cell == reference else f"* {cell}"


def time_table(comparison: RunComparison) -> Table:
    """Return where the time for a thousand samples goes in each run, and of two runs what changed."""
    runs = comparison.runs
    names = dict.fromkeys(part.name for run in runs for part in run.time_parts)
    seconds = [
        {part.name: part.seconds for part in run.time_parts} | {"together": run.time_s} for run in runs
    ]
    rows = []
    for name in (*names, "together"):
        values = [each.get(name) for each in seconds]
        change = (_change_text(values[0], values[1]),) if len(runs) == 2 else ()
        rows.append((name, *(duration_text(value) for value in values), *change))
    titles = ("", *(run.name for run in runs), *(("change",) if len(runs) == 2 else ()))
    return Table(
        f"Time breakdown per {SAMPLES:,} samples (measured, by the {comparison.clock}'s clock)",
        titles,
        tuple(rows),
        tuple(range(1, len(titles))),
        Basis.MEASURED,
    )


def time_change_text(before: ComparedRun, after: ComparedRun) -> str:
    """Return which part of the time changed most in the direction of the whole, in a sentence."""
    old = {part.name: part.seconds for part in before.time_parts}
    changes = {part.name: part.seconds - old.get(part.name, 0.0) for part in after.time_parts}
    whole_s = after.time_s - before.time_s
    grew = whole_s >= 0
    name = max(changes, key=lambda part: changes[part] if grew else -changes[part])
    rest_s = whole_s - changes[name]
    what = f"what {'grew' if grew else 'shrank'} most: {name}, {_signed(changes[name])}"
    if abs(changes[name]) <= abs(whole_s):
        return f"{what} of {_signed(whole_s)} per {SAMPLES:,} samples."
    return f"{what}; the rest {_signed(rest_s)}, together {_signed(whole_s)} per {SAMPLES:,} samples."


def _change_text(before: float | None, after: float | None) -> str:
    return UNKNOWN if before is None or after is None else _signed(after - before)


def _signed(seconds: float) -> str:
    text = duration_text(seconds)
    if text in ("0 ms", "-0 ms"):
        return "0 ms"
    return text if seconds < 0 else f"+{text}"


def _speedup_text(run: ComparedRun) -> str:
    if run.is_baseline:
        return "1"
    return factor_text(run.speedup.value if run.speedup else None)


def _speedup_label(*runs: ComparedRun) -> str:
    objectives = {run.objective for run in runs}
    if len(objectives) > 1:
        return "own speed-up (rate, or planned run)"
    return (
        "own speed-up of planned run" if Objective.FINISH_TIME in objectives else "speed-up over own baseline"
    )


def _own_range(run: ComparedRun) -> str:
    rate = run.rate_samples_per_s
    if rate.low == rate.high:
        return UNKNOWN
    return TOO_WIDE_IN_TABLE if is_too_wide(rate) else f"{rate_text(rate.low)} to {rate_text(rate.high)}"


def _buffer_text(run: ComparedRun) -> str:
    return f"{bytes_text(run.buffer_bytes)} {run.buffer_verdict or ''}".rstrip()
