"""Runs side by side: which is faster, how sure that is, and where the time went. Pure."""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from tunekit.recommend.time_breakdown import SAMPLES
from tunekit.records.comparison import ComparedRun, ReferenceComparison, RunComparison
from tunekit.records.finding import WORST_FIRST
from tunekit.records.run import Objective
from tunekit.report.blocks import (
    PREDICTED,
    Basis,
    Block,
    Column,
    Facts,
    Lead,
    Line,
    Note,
    Passage,
    Report,
    Section,
    Table,
    field_text,
    side_by_side,
    table_of,
)
from tunekit.report.text import (
    TOO_WIDE_IN_TABLE,
    UNKNOWN,
    by_text,
    change_text,
    factor_text,
    finding_text,
    interval_text,
    knob_rows,
    speedup_text,
)
from tunekit.units import bytes_text, count_text, duration_text, percent_text

_CHANGES = ("faster", "slower")
_SHOWN_NOTES = 2
"""Findings in the answer; --full has all, with their remedies."""
_IN_ANSWER = ("not-comparable",)
"""Findings whose message is the answer."""
_WOULD_TELL = ("undecided", "too-few-processes")
"""Findings whose remedy belongs to the answer."""
_INTERVAL = partial(interval_text, too_wide=TOO_WIDE_IN_TABLE)
_FACTOR = partial(speedup_text, too_wide=TOO_WIDE_IN_TABLE)


class _Row(NamedTuple):
    """One run beside the reference."""

    run: ComparedRun
    one: ReferenceComparison | None
    """None for the reference itself."""


def comparison_answer(comparison: RunComparison) -> tuple[Block, ...]:
    """Return which run is faster, how sure that is and what distorts it: for two runs, one screen."""
    findings = count_text(sum(len(one.findings) for one in comparison.against), "finding")
    more = f"{findings}, memory, time breakdown, method: --full, or --html FILE"
    return (
        *_answer_blocks(comparison),
        *_short_notes(comparison.against),
        Line(more, is_quiet=True, is_apart=True),
    )


def comparison_report(comparison: RunComparison) -> Report:
    """Return everything that a comparison of two runs or more shows."""
    outcome = "no regression" if comparison.is_comparable else "not comparable"
    return Report(
        f"tunekit compare: {'regression' if comparison.has_regression else outcome}",
        (
            *_answer_blocks(comparison),
            Section("tables", "Configs and memory", "Configs"),
            _knobs_table(comparison),
            Section("time", "Where the time goes", "Time"),
            _time_table(comparison),
            Section("findings", "Findings", "Findings"),
            *_notes(comparison.against),
            Section("method", "Method", "Method"),
            Line(_how_compared(comparison), is_quiet=True, is_apart=True),
        ),
    )


def _answer_blocks(comparison: RunComparison) -> tuple[Block, ...]:
    reference, against = comparison.reference, comparison.against
    beside = [one for one in against if len(against) == 1 or one.baseline_verdict in _CHANGES]
    lines = [(one.name, _baselines_text(one, comparison)) for one in beside]
    return (
        *(Lead(_answer(one, reference.name, comparison.tolerance)) for one in against),
        *map(Line, by_text(lines)),
        Facts(tuple((run.name, _run_text(run, run is reference)) for run in comparison.runs)),
        table_of("Runs (measured)", _columns(reference.name), _rows(comparison), Basis.MEASURED),
        Passage("", _config_lines(comparison)),
    )


def _answer(one: ReferenceComparison, reference: str, tolerance: float) -> str:
    if one.why_not is not None:
        return f"{one.name} can't be compared with {reference}: {one.why_not}."
    by_rate = one.compared_by == "rate"
    factor = one.factor if by_rate else one.relative_factor
    what = f"{one.name} vs {reference}" + ("" if by_rate else " by speedup over own baseline")
    if factor is None or one.verdict is None:
        return f"{what}: inconclusive, {factor_text(one.rate_ratio)}, too few fresh processes for a range."
    share = abs(factor.value - 1)
    by = f"{share:.0%} " if share >= 0.095 else f"{share:.1%} "
    verdict = (by if one.verdict in _CHANGES else "") + one.verdict
    beyond = f", {'beyond' if one.is_regression else 'within'} the tolerance of {percent_text(tolerance)}"
    return f"{what}: {verdict}, {speedup_text(factor)}{beyond if one.verdict == 'slower' else ''}."


def _baselines_text(one: ReferenceComparison, comparison: RunComparison) -> str:
    """Return what the baselines add to the answer."""
    own = next(run for run in comparison.runs if run.name == one.name)
    if one.why_not is not None:
        return ""
    if one.compared_by == "speed-up":
        machines = ", ".join(one.machine_differences)
        return f"the machines differ ({machines}), so speedups over own baselines are compared."
    if own.is_baseline and comparison.reference.is_baseline:
        return ""
    if one.baseline_factor is None:
        return "baselines not comparable: other script, command or knobs, or too few processes."
    changed = one.baseline_verdict in _CHANGES
    cause = f"; the code or the machine's load changed{', not the config' * one.machine_explains}" * changed
    return f"baselines {speedup_text(one.baseline_factor)}, {one.baseline_verdict}{cause}."


def _config_lines(comparison: RunComparison) -> tuple[str, ...]:
    """Return the knobs that differ from the reference's, a line for each run."""
    before = comparison.reference.config.model_dump()
    lines = []
    for one, run in zip(comparison.against, comparison.runs[1:], strict=True):
        after = run.config.model_dump()
        changes = [change_text(knob, before[knob], after[knob]) for knob in one.changed_knobs]
        if changes or len(comparison.against) == 1:
            what = ", ".join(changes) or f"same as {comparison.reference.name}"
            lines.append(f"Config of {one.name}: {what}")
    return tuple(lines)


def _run_text(run: ComparedRun, is_reference: bool) -> str:
    whose = run.tier or "baseline"
    processes = count_text(len(run.rates_samples_per_s), "process", "processes")
    role = "reference, " if is_reference else ""
    day = run.created_at.partition("T")[0]
    commit = f", commit {run.commit[:12]}{'-dirty' * run.commit.endswith('-dirty')}" if run.commit else ""
    return f"{run.folder}: {role}{whose}, {processes} on {run.measured_on}, {day}{commit}"


def _notes(against: Sequence[ReferenceComparison]) -> tuple[Note, ...]:
    """Return the findings of all runs; what is the same for some is said once."""
    found = [(one.name, finding) for one in against for finding in one.findings]
    return tuple(
        Note(severity, text)
        for severity in WORST_FIRST
        for text in by_text((name, finding_text(one)) for name, one in found if one.severity is severity)
    )


def _short_notes(against: Sequence[ReferenceComparison]) -> tuple[Note, ...]:
    """Return two findings: what would settle it with its remedy, then the worst."""
    short = []
    for one in against:
        found = [finding for finding in one.findings if finding.code not in _IN_ANSWER]
        found.sort(key=lambda finding: finding.code not in _WOULD_TELL)
        kept = [each if each.code in _WOULD_TELL else each.changed(remedy=None) for each in found]
        short.append(one.changed(findings=tuple(kept)))
    return _notes(short)[:_SHOWN_NOTES]


def _how_compared(comparison: RunComparison) -> str:
    floors = ", ".join(
        f"{run.name} {run.noise_floor.relative:.1%}" if run.noise_floor else f"{run.name} n/a"
        for run in comparison.runs
    )
    return (
        "Rates are measured over whole epochs. Ratios of two runs are of independent fresh processes (99% "
        "intervals, Welch's t on log rates; a run's own figures have 95% intervals). A difference counts "
        f"beyond the larger A/A noise floor of the two: {floors}."
    )


# --- tables ----------------------------------------------------------------------------------


def _rows(comparison: RunComparison) -> list[_Row]:
    return [_Row(run, one) for run, one in zip(comparison.runs, (None, *comparison.against), strict=True)]


def _columns(reference: str) -> tuple[Column[_Row], ...]:
    return (
        Column("", field_text("run.name"), is_numeric=False),
        Column("samples/s (95%)", field_text("run.rate_samples_per_s", _INTERVAL)),
        Column(f"vs {reference} (99%)", _factor),
        Column("verdict", _verdict, is_numeric=False),
        Column("VRAM", field_text("run.memory.peak_reserved_bytes", bytes_text), is_optional=True),
        Column("speedup over baseline", _speedup, is_numeric=False),
        Column(f"baseline vs {reference}'s (99%)", field_text("one.baseline_factor", _FACTOR)),
        Column(f"speedup vs {reference}'s (99%)", field_text("one.relative_factor", _FACTOR)),
        Column("epoch", field_text("run.epoch_time_s", duration_text)),
    )


def _factor(row: _Row) -> str:
    if row.one is None:
        return "1"
    return _FACTOR(row.one.factor) if row.one.factor else f"{factor_text(row.one.rate_ratio)} ({UNKNOWN})"


def _verdict(row: _Row) -> str:
    one = row.one
    if one is None:
        return "reference"
    if one.why_not is not None:
        return "not comparable"
    by = "" if one.compared_by == "rate" else " by speedup"
    return ("regression" if one.is_regression else one.verdict or UNKNOWN) + by


def _speedup(row: _Row) -> str:
    if row.run.is_baseline:
        return "1"
    planned = " of planned run" if row.run.objective is Objective.FINISH_TIME else ""
    return _FACTOR(row.run.speedup) + planned


def _knobs_table(comparison: RunComparison) -> Table:
    """Return the knobs and the memory of all runs."""
    knobs = [
        (name, own, *(cell if cell == own else f"* {cell}" for cell in cells))
        for name, own, *cells in knob_rows([run.config for run in comparison.runs])
    ]
    figures = {
        "tier": field_text("run.tier", str, "own"),
        "VRAM reserved": field_text("run.memory.peak_reserved_bytes", bytes_text),
        "RAM of processes": field_text("run.memory.base_ram_bytes", bytes_text),
        f"RAM buffer {PREDICTED}": field_text("run.memory.buffer_bytes", bytes_text),
        f"  verdict {PREDICTED}": field_text("run.memory.buffer_verdict"),
    }
    title = f"Configs and memory (measured); * is another value than in {comparison.reference.name}"
    rows = [(name, *map(cell, _rows(comparison))) for name, cell in figures.items()]
    return side_by_side(title, [run.name for run in comparison.runs], rows, knobs)


def _time_table(comparison: RunComparison) -> Table:
    """Return where the time goes in each run, with its change from the reference."""
    runs = comparison.runs
    names = dict.fromkeys(part.name for run in runs for part in run.time_parts)
    each = [{part.name: part.seconds for part in run.time_parts} | {"total": run.time_s} for run in runs]
    rows = []
    for name in (*names, "total"):
        own, *others = (seconds.get(name) for seconds in each)
        changes = ["" if own is None or one is None else f" ({_signed(one - own)})" for one in others]
        texts = (duration_text(one) + change for one, change in zip(others, changes, strict=True))
        rows.append((name, duration_text(own), *texts))
    title = f"Time breakdown per {SAMPLES:,} samples (measured, by the {comparison.clock}'s clock)"
    return side_by_side(title, [run.name for run in runs], rows)


def _signed(seconds: float) -> str:
    text = duration_text(seconds)
    if text in ("0 ms", "-0 ms"):
        return "0 ms"
    return text if seconds < 0 else f"+{text}"
