"""Runs side by side in words: which is faster, how sure that is, and where the time went. Pure."""

from collections.abc import Callable, Sequence

from tunekit.plain_text import printable
from tunekit.recommend.time_breakdown import SAMPLES
from tunekit.records.comparison import ComparedRun, ReferenceComparison, RunComparison
from tunekit.records.finding import WORST_FIRST, Severity
from tunekit.records.run import Objective
from tunekit.report.blocks import (
    PREDICTED,
    Basis,
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
    predicted_rows,
)
from tunekit.report.text import (
    TOO_WIDE_IN_TABLE,
    UNKNOWN,
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
_RANGE = "  95% range"


def comparison_report(comparison: RunComparison, width: int) -> Report:
    """Return everything that a comparison of two runs or more shows; tables drop columns to fit the width."""
    reference, against = comparison.reference, comparison.against
    is_pair = len(against) == 1
    compared = against if is_pair else [one for one in against if one.baseline_verdict in _CHANGES]
    tables = [_rows_table(comparison, width), _knobs_table(comparison)]
    if is_pair:
        tables = [_pair_table(comparison)]
    return Report(
        f"tunekit compare: {'regression' if comparison.has_regression else 'no regression'}",
        (
            *(Lead(_answer(one, reference.name, comparison.tolerance)) for one in against),
            *(Line(line) for one in compared for line in _machine_lines(one, comparison)),
            Facts(tuple((run.name, _run_text(run, run is reference)) for run in comparison.runs)),
            Section("tables", "Configs and figures", "Figures"),
            *tables,
            Section("time", "Where the time goes", "Time"),
            _time_table(comparison),
            Passage("", _change_lines(comparison)),
            Section("findings", "What is doubtful", "Doubts"),
            *(found_blocks(against[0].findings) if is_pair else _notes(against)),
            Section("method", "How they were compared", "Method"),
            Line(_how_compared(comparison), is_quiet=True, is_apart=True),
        ),
    )


def _answer(one: ReferenceComparison, reference: str, tolerance: float) -> str:
    if one.factor is None or one.verdict is None:
        return (
            f"{one.name} trains {factor_text(one.rate_ratio)} as fast as {reference}, but too few fresh "
            "processes ran to tell whether that is a difference."
        )
    factor = speedup_text(one.factor)
    if one.verdict not in _CHANGES:
        return f"{one.name} and {reference}: {one.verdict}, {factor}."
    if one.verdict == "faster":
        gained = f"{_share_text(one.factor.value - 1)} faster than"
        if one.factor.value >= _TIMES:
            gained = f"{one.factor.value:,.0f} times as fast as"
        return f"{one.name} trains {gained} {reference}: {factor}."
    limit = percent_text(tolerance)
    where = f"beyond the tolerance of {limit}" if one.is_regression else f"within the tolerance of {limit}"
    slower = _share_text(1 - one.factor.value)
    return f"{one.name} trains {slower} slower than {reference}: {factor}, {where}."


def _share_text(share: float) -> str:
    return f"{share:.0%}" if share >= 0.095 else f"{share:.1%}"


def _machine_lines(one: ReferenceComparison, comparison: RunComparison) -> list[str]:
    """Return what the baselines say of the machines; nothing where baselines are what is compared."""
    reference = comparison.reference
    own = next(run for run in comparison.runs if run.name == one.name)
    is_difference = one.verdict in _CHANGES
    if own.is_baseline and reference.is_baseline:
        if not is_difference or one.changed_knobs:
            return []
        return [
            f"The config is the same in {one.name} and {reference.name}: the machine, its software or the "
            "code makes the difference."
        ]
    if one.baseline_factor is None:
        return [
            f"Whether the machines of {one.name} and {reference.name} differ is unknown: their baselines are "
            "not the same script, command and knobs, or were measured too seldom."
        ]
    factor = speedup_text(one.baseline_factor)
    relative = _relative_text(one, own, reference)
    if one.baseline_verdict not in _CHANGES:
        return [
            f"The machine: the baselines of {one.name} and {reference.name}, the same script and knobs, show "
            f"{one.baseline_verdict}, {factor}.{relative}"
        ]
    own_name, its_name = one.name, reference.name
    also = f"The baseline of {own_name}, the same script and knobs, is {factor} as fast as that of {its_name}"
    if one.machine_explains:
        return [f"{also}: the machine, its software or other code differs, not the config.{relative}"]
    return [f"{also}: the machine, its software or other code differs too.{relative}"]


def _relative_text(one: ReferenceComparison, compared: ComparedRun, reference: ComparedRun) -> str:
    if compared.speedup is None or reference.speedup is None:
        return ""
    of_rates = compared.objective is Objective.RATE and reference.objective is Objective.RATE
    before, after = factor_text(reference.speedup.value), factor_text(compared.speedup.value)
    speedups = f"{before} in {reference.name}, {after} in {one.name}"
    ratio = ""
    if one.relative_factor is not None and one.relative_verdict is not None:
        ratio = f"{speedup_text(one.relative_factor)}: {one.relative_verdict}"
    if of_rates:
        return f" Relative to its own baseline: {speedups}{f', {ratio}' if ratio else ''}."
    return f" Rate relative to its own baseline: {ratio}." if ratio else ""


def _run_text(run: ComparedRun, is_reference: bool) -> str:
    whose = "the user's own config" if run.tier is None else run.tier.value
    if run.tier is not None and run.is_baseline:
        whose += ", which is the user's own config"
    processes = count_text(len(run.rates_samples_per_s), "fresh process", "fresh processes")
    role = "the reference, " if is_reference else ""
    return printable(
        f"{run.folder}: {role}{whose}, {processes} on {run.measured_on}, search of {run.created_at}"
    )


def _change_lines(comparison: RunComparison) -> tuple[str, ...]:
    lines = [
        f"{one.name}: {_time_change_text(comparison.reference, run)}"
        for one, run in zip(comparison.against, comparison.runs[1:], strict=True)
        if one.verdict in (None, *_CHANGES)
    ]
    if comparison.clock == "host" and any(run.device_memory_bytes is not None for run in comparison.runs):
        lines.append(
            "By the host's clock: a GPU works on meanwhile, and what waits for it shows where the host next "
            "waits."
        )
    return tuple(lines)


def _notes(against: Sequence[ReferenceComparison]) -> tuple[Note, ...]:
    """Return what is unfair about several runs; what is the same for some is said once."""
    named: dict[tuple[Severity, str], list[str]] = {}
    for one in against:
        for finding in one.findings:
            named.setdefault((finding.severity, finding_text(finding)), []).append(one.name)
    ordered = sorted(named.items(), key=lambda item: WORST_FIRST.index(item[0][0]))
    return tuple(Note(severity, f"{', '.join(names)}: {text}") for (severity, text), names in ordered)


def _how_compared(comparison: RunComparison) -> str:
    floors = ", ".join(
        f"{run.name} {run.noise_floor.relative:.1%}" if run.noise_floor else f"{run.name} n/a"
        for run in comparison.runs
    )
    return (
        "Measured rates over whole epochs. Factors are of independent fresh processes (95% intervals, "
        "Welch's t on log rates); what the machines differ by is not in the interval. A difference counts "
        f"beyond the larger A/A noise floor of the two: {floors}."
    )


# --- tables ----------------------------------------------------------------------------------


def _pair_table(comparison: RunComparison) -> Table:
    before, after = comparison.runs
    (one,) = comparison.against
    has_device = before.peak_reserved_bytes is not None or after.peak_reserved_bytes is not None
    ram_ratio = after.base_ram_bytes / before.base_ram_bytes if before.base_ram_bytes else None
    figures: list[tuple[str, Callable[[ComparedRun], str], str]] = [
        ("samples/s", lambda run: rate_text(run.rate_samples_per_s.value), factor_text(one.rate_ratio)),
        (_RANGE, _own_range, range_text(one.factor)),
        ("it/s", lambda run: rate_text(run.it_per_s.value), ""),
        ("epoch", lambda run: duration_text(run.epoch_time_s), ""),
        (_speedup_label(before, after), _speedup_text, ""),
        (_RANGE, lambda run: range_text(run.speedup) if run.speedup else "", ""),
        ("VRAM reserved", lambda run: bytes_text(run.peak_reserved_bytes), _ratio_text(one.reserved_ratio)),
        ("RAM of processes", lambda run: bytes_text(run.base_ram_bytes), _ratio_text(ram_ratio)),
        (f"RAM buffer {PREDICTED}", _buffer_text, ""),
    ]
    knobs = knob_rows([before.config, after.config])
    rows = [(*row, "changed" if row[1] != row[2] else "") for row in knobs]
    rows += [
        (label, text(before), text(after), ratio)
        for label, text, ratio in figures
        if has_device or label != "VRAM reserved"
    ]
    return Table(
        "Side by side (measured)",
        ("", before.name, after.name, f"{after.name} to {before.name}"),
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
    each = [{part.name: part.seconds for part in run.time_parts} | {"together": run.time_s} for run in runs]
    rows = []
    for name in (*names, "together"):
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
    what = f"what {'grew' if grew else 'shrank'} most: {name}, {_signed(changes[name])}"
    if abs(changes[name]) <= abs(whole_s):
        return f"{what} of {_signed(whole_s)} per {SAMPLES:,} samples."
    return f"{what}; the rest {_signed(rest_s)}, together {_signed(whole_s)} per {SAMPLES:,} samples."


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
