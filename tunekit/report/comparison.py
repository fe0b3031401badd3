"""Runs side by side in words: which is faster, how sure that is, and where the time went. Pure."""

import textwrap
from collections.abc import Callable, Sequence

from tunekit.plain_text import printable
from tunekit.recommend.time_breakdown import SAMPLES
from tunekit.records.comparison import ComparedRun, ReferenceComparison, RunComparison
from tunekit.records.finding import WORST_FIRST, Severity
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
    changed_cells,
    fitted_table,
    found_blocks,
    note_of,
    predicted_rows,
)
from tunekit.report.text import (
    TOO_WIDE_IN_TABLE,
    UNKNOWN,
    change_text,
    factor_text,
    finding_text,
    interval_text,
    is_too_wide,
    knob_rows,
    range_text,
    speedup_text,
)
from tunekit.units import bytes_text, count_text, duration_text, percent_text, rate_text

_CHANGES = ("faster", "slower")
_TIMES = 3.0
"""From this factor on, shares of it are no longer read easily."""
_RANGE = "  range (95%; B / A 99%)"
_OF_RATES = "speed-up over own baseline"
_NOTE_LINES = 4
"""Lines of findings in the answer; --full has all, with their remedies."""
_IN_ANSWER = ("not-comparable",)
"""Findings whose message is the answer."""
_WOULD_TELL = ("undecided", "too-few-processes")
"""Findings whose remedy belongs to the answer."""


def comparison_answer(comparison: RunComparison, width: int) -> tuple[Block, ...]:
    """Return which run is faster, how sure that is and what distorts it: for two runs, one screen."""
    against = comparison.against
    table = _rows_table(comparison, width)
    if len(against) == 1:
        table = _pair_table(comparison, is_short=True)
    findings = sum(len(one.findings) for one in against)
    more = f"{count_text(findings, 'finding')}, " if findings else ""
    return (
        *_answer_blocks(comparison),
        table,
        Passage("", _config_lines(comparison)),
        *_short_notes(against, width),
        Line(f"{more}configs, time breakdown, method: --full, or --html FILE", is_quiet=True, is_apart=True),
    )


def comparison_report(comparison: RunComparison, width: int) -> Report:
    """Return everything that a comparison of two runs or more shows; tables drop columns to fit the width."""
    against = comparison.against
    is_pair = len(against) == 1
    tables = [_rows_table(comparison, width), _knobs_table(comparison)]
    if is_pair:
        tables = [_pair_table(comparison)]
    outcome = "no regression" if comparison.is_comparable else "not comparable"
    return Report(
        f"tunekit compare: {'regression' if comparison.has_regression else outcome}",
        (
            *_answer_blocks(comparison),
            Section("tables", "Configs and figures", "Figures"),
            *tables,
            Section("time", "Where the time goes", "Time"),
            _time_table(comparison),
            Passage("", _change_lines(comparison)),
            Section("findings", "Findings", "Findings"),
            *(found_blocks(against[0].findings) if is_pair else _notes(against)),
            Section("method", "Method", "Method"),
            Line(_how_compared(comparison), is_quiet=True, is_apart=True),
        ),
    )


def _answer_blocks(comparison: RunComparison) -> tuple[Block, ...]:
    reference, against = comparison.reference, comparison.against
    beside = against if len(against) == 1 else [one for one in against if one.baseline_verdict in _CHANGES]
    return (
        *(Lead(_answer(one, reference.name, comparison.tolerance)) for one in against),
        *(Line(line) for one in beside for line in _machine_lines(one, comparison)),
        Facts(tuple((run.name, _run_text(run, run is reference)) for run in comparison.runs)),
    )


def _answer(one: ReferenceComparison, reference: str, tolerance: float) -> str:
    if one.why_not is not None:
        return printable(f"{one.name} can't be compared with {reference}: {one.why_not}.")
    by_rate = one.compared_by == "rate"
    deciding = one.factor if by_rate else one.relative_factor
    ratio = f"{one.name} / {reference}" + ("" if by_rate else " in speed-up over own baseline")
    if deciding is None or one.verdict is None:
        measured = f" {factor_text(one.rate_ratio)}" if by_rate else ""
        return f"Inconclusive: {ratio}{measured}, too few fresh processes for a range."
    factor = speedup_text(deciding)
    if one.verdict == "inconclusive":
        return f"Inconclusive: {ratio} {factor}."
    if one.verdict == "no difference":
        return f"No difference: {ratio} {factor}."
    if one.verdict == "faster":
        times = f"{deciding.value:,.0f} times as fast as"
        gained = times if deciding.value >= _TIMES else f"{_share_text(deciding.value - 1)} faster than"
        lost = ""
    else:
        gained = f"{_share_text(1 - deciding.value)} slower than"
        lost = f", {'beyond' if one.is_regression else 'within'} the tolerance of {percent_text(tolerance)}"
    if by_rate:
        return f"{one.name} trains {gained} {reference}: {ratio} {factor}{lost}."
    own = f"Relative to its own baseline, {one.name} is {gained} {reference}"
    return f"{own}: {one.name} / {reference} {factor}{lost}."


def _share_text(share: float) -> str:
    return f"{share:.0%}" if share >= 0.095 else f"{share:.1%}"


def _machine_lines(one: ReferenceComparison, comparison: RunComparison) -> list[str]:
    """Return what the baselines and the machines add to the answer."""
    reference = comparison.reference
    own = next(run for run in comparison.runs if run.name == one.name)
    ratio, relative = f"{one.name} / {reference.name}", _relative_text(one, own, reference)
    if one.why_not is not None:
        return []
    if one.compared_by == "speed-up":
        differing = ", ".join(one.machine_differences)
        rates = speedup_text(one.factor) if one.factor else factor_text(one.rate_ratio)
        return [
            f"The machines differ ({differing}), so speed-ups over the own baseline decide"
            f"{f': {relative}' if relative else ''}. Rates: {ratio} {rates}."
        ]
    if own.is_baseline and reference.is_baseline:
        if one.verdict not in _CHANGES or one.changed_knobs:
            return []
        return [
            f"The config is the same in {reference.name} and {one.name}: the code or the machine's load "
            "makes the difference."
        ]
    if one.baseline_factor is None:
        return [
            f"Whether the machine changed between {reference.name} and {one.name} is unknown: their "
            "baselines are not the same script, command and knobs, or ran too few processes."
        ]
    factor, beside = speedup_text(one.baseline_factor), [relative] if relative else []
    if one.relative_factor is not None:
        beside.append(f"{ratio} {speedup_text(one.relative_factor)}")
    speedups = f" Speed-up over own baseline: {', '.join(beside)}." if beside else ""
    if one.baseline_verdict not in _CHANGES:
        return [f"Baselines: {one.baseline_verdict}, {ratio} {factor}.{speedups}"]
    too = " too" if one.baseline_verdict == one.verdict else ""
    cause = "the code or the machine's load changed" + ("" if one.machine_explains else " as well")
    cause += ", not the config" if one.machine_explains else ""
    return [f"The baseline is {one.baseline_verdict}{too}, {ratio} {factor}: {cause}.{speedups}"]


def _relative_text(one: ReferenceComparison, compared: ComparedRun, reference: ComparedRun) -> str:
    """Return both speed-ups over the own baseline; nothing where they are of planned runs."""
    of_rates = compared.objective is Objective.RATE and reference.objective is Objective.RATE
    if not of_rates or compared.speedup is None or reference.speedup is None:
        return ""
    before, after = factor_text(reference.speedup.value), factor_text(compared.speedup.value)
    return f"{before} in {reference.name}, {after} in {one.name}"


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
    whose = "baseline" if run.tier is None else run.tier.value
    if run.tier is not None and run.is_baseline:
        whose += " (the baseline)"
    processes = count_text(len(run.rates_samples_per_s), "process", "processes")
    role = "reference, " if is_reference else ""
    day = run.created_at.partition("T")[0]
    return printable(f"{run.folder}: {role}{whose}, {processes} on {run.measured_on}, {day}")


def _change_lines(comparison: RunComparison) -> tuple[str, ...]:
    lines = [
        f"{one.name}: {_time_change_text(comparison.reference, run)}"
        for one, run in zip(comparison.against, comparison.runs[1:], strict=True)
        if one.why_not is None and one.verdict in (None, *_CHANGES)
    ]
    if comparison.clock == "host" and any(run.device_memory_bytes is not None for run in comparison.runs):
        lines.append(
            "By the host's clock: the GPU runs asynchronously, so its time shows where the host waits for it."
        )
    return tuple(lines)


def _notes(against: Sequence[ReferenceComparison]) -> tuple[Note, ...]:
    """Return the findings of several runs; what is the same for some is said once."""
    named: dict[tuple[Severity, str], list[str]] = {}
    for one in against:
        for finding in one.findings:
            named.setdefault((finding.severity, finding_text(finding)), []).append(one.name)
    ordered = sorted(named.items(), key=lambda item: WORST_FIRST.index(item[0][0]))
    return tuple(Note(severity, f"{', '.join(names)}: {text}") for (severity, text), names in ordered)


def _short_notes(against: Sequence[ReferenceComparison], width: int) -> tuple[Note, ...]:
    """Return as many findings as fit into a few lines, first what would tell, then the worst."""
    is_pair, short = len(against) == 1, []
    for one in against:
        said = [finding for finding in one.findings if finding.code not in _IN_ANSWER]
        said.sort(key=lambda finding: finding.code not in _WOULD_TELL)
        kept = [one if one.code in _WOULD_TELL else one.changed(remedy=None) for one in said]
        short.append(one.changed(findings=tuple(kept)))
    notes = [note_of(finding) for finding in short[0].findings] if is_pair else _notes(short)
    shown, left = [], _NOTE_LINES
    for note in notes:
        left -= len(textwrap.wrap(note.line, width))
        if left < 0:
            break
        shown.append(note)
    return tuple(shown)


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


def _pair_table(comparison: RunComparison, is_short: bool = False) -> Table:
    """Return two runs side by side; in short only what the answer is of."""
    before, after = comparison.runs
    (one,) = comparison.against
    has_device = before.peak_reserved_bytes is not None or after.peak_reserved_bytes is not None
    ram_ratio = after.base_ram_bytes / before.base_ram_bytes if before.base_ram_bytes else None
    relative = one.relative_factor if _speedup_label(before, after) == _OF_RATES else None
    figures: list[tuple[str, Callable[[ComparedRun], str], str]] = [
        ("samples/s", lambda run: rate_text(run.rate_samples_per_s.value), factor_text(one.rate_ratio)),
        (_RANGE, _own_range, range_text(one.factor)),
        ("it/s", lambda run: rate_text(run.it_per_s.value), ""),
        ("epoch", lambda run: duration_text(run.epoch_time_s), ""),
        (_speedup_label(before, after), _speedup_text, factor_text(relative.value) if relative else ""),
        (
            _RANGE,
            lambda run: range_text(run.speedup) if run.speedup else "",
            range_text(relative) if relative else "",
        ),
        ("VRAM reserved", lambda run: bytes_text(run.peak_reserved_bytes), _ratio_text(one.reserved_ratio)),
        ("RAM of processes", lambda run: bytes_text(run.base_ram_bytes), _ratio_text(ram_ratio)),
        (f"RAM buffer {PREDICTED}", _buffer_text, ""),
    ]
    if is_short:
        figures = [*figures[:2], figures[4], figures[6]]
    knobs = [] if is_short else knob_rows([before.config, after.config])
    rows = [(*row, "changed" if row[1] != row[2] else "") for row in knobs]
    rows += [
        (label, text(before), text(after), ratio)
        for label, text, ratio in figures
        if has_device or label != "VRAM reserved"
    ]
    return Table(
        "Side by side (measured)",
        ("", before.name, after.name, f"{after.name} / {before.name}"),
        tuple(rows),
        (1, 2, 3),
        Basis.MEASURED,
        predicted_rows(rows),
        changed_cells(knobs),
    )


def _ratio_text(ratio: float | None) -> str:
    return "" if ratio is None else factor_text(ratio)


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
        if one.why_not is not None:
            return "not comparable"
        by = "" if one.compared_by == "rate" else " by speed-up"
        return f"regression{by}" if one.is_regression else f"{one.verdict or UNKNOWN}{by}"

    def baseline_text(run: ComparedRun) -> str:
        one = against.get(run.name)
        return "1" if one is None else speedup_text(one.baseline_factor, TOO_WIDE_IN_TABLE)

    columns = (
        Column[ComparedRun]("", lambda run: run.name, is_numeric=False),
        Column[ComparedRun](
            "samples/s (95%)", lambda run: interval_text(run.rate_samples_per_s, too_wide=TOO_WIDE_IN_TABLE)
        ),
        Column[ComparedRun](f"vs {comparison.reference.name} (99%)", factor_text),
        Column[ComparedRun]("verdict", verdict_text, is_numeric=False),
        Column[ComparedRun](f"baseline vs {comparison.reference.name}'s (99%)", baseline_text, drop=3),
        Column[ComparedRun]("speed-up", _speedup_text, drop=4),
        Column[ComparedRun]("epoch", lambda run: duration_text(run.epoch_time_s), drop=5),
        Column[ComparedRun]("VRAM", lambda run: bytes_text(run.peak_reserved_bytes), is_optional=True),
        Column[ComparedRun]("RAM", lambda run: bytes_text(run.base_ram_bytes), drop=1),
        Column[ComparedRun](f"buffer {PREDICTED}", _buffer_text, drop=2),
    )
    return fitted_table("Runs (measured)", columns, comparison.runs, width, Basis.MEASURED)


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


def _time_table(comparison: RunComparison) -> Table:
    runs = comparison.runs
    names = dict.fromkeys(part.name for run in runs for part in run.time_parts)
    each = [{part.name: part.seconds for part in run.time_parts} | {"total": run.time_s} for run in runs]
    rows = []
    for name in (*names, "total"):
        values = [seconds.get(name) for seconds in each]
        before, after = values[:2]
        change = UNKNOWN if before is None or after is None else _signed(after - before)
        rows.append((name, *map(duration_text, values), *([change] if len(runs) == 2 else ())))
    titles = ("", *(run.name for run in runs), *(("change",) if len(runs) == 2 else ()))
    return Table(
        f"Time breakdown per {SAMPLES:,} samples (measured, by the {comparison.clock}'s clock)",
        titles,
        tuple(rows),
        tuple(range(1, len(titles))),
        Basis.MEASURED,
    )


def _time_change_text(before: ComparedRun, after: ComparedRun) -> str:
    """Return which part of the time changed most in the direction of the whole, in a sentence."""
    old = {part.name: part.seconds for part in before.time_parts}
    changes = {part.name: part.seconds - old.get(part.name, 0.0) for part in after.time_parts}
    whole_s = after.time_s - before.time_s
    grew = whole_s >= 0
    name = max(changes, key=lambda part: changes[part] if grew else -changes[part])
    rest_s = whole_s - changes[name]
    what = f"largest {'increase' if grew else 'decrease'}: {name}, {_signed(changes[name])}"
    if abs(changes[name]) <= abs(whole_s):
        return f"{what} of {_signed(whole_s)} per {SAMPLES:,} samples."
    return f"{what}; the rest {_signed(rest_s)}, in total {_signed(whole_s)} per {SAMPLES:,} samples."


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
        return "speed-up (rate, or planned run)"
    return "speed-up of planned run" if Objective.FINISH_TIME in objectives else _OF_RATES


def _own_range(run: ComparedRun) -> str:
    rate = run.rate_samples_per_s
    if rate.low == rate.high:
        return UNKNOWN
    return TOO_WIDE_IN_TABLE if is_too_wide(rate) else f"{rate_text(rate.low)} to {rate_text(rate.high)}"


def _buffer_text(run: ComparedRun) -> str:
    return f"{bytes_text(run.buffer_bytes)} {run.buffer_verdict or ''}".rstrip()
