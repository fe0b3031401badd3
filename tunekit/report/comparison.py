"""Runs side by side as they are shown: every number and sentence computed once. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from tunekit.plain_text import printable
from tunekit.records.comparison import AgainstReference, ComparedRun, RunComparison
from tunekit.records.finding import WORST_FIRST, Severity
from tunekit.records.run import Objective
from tunekit.report.comparison_tables import runs_tables, time_change_text, time_table
from tunekit.report.findings import FindingView, finding_view
from tunekit.report.table import Passage, Table
from tunekit.report.text import Note, factor_text, finding_text, speedup_text
from tunekit.units import count_text, percent_text

_SAME = "no significant difference"


_TIMES = 3.0
"""From this factor on, shares of it are no longer read easily."""


@dataclass(frozen=True)
class ComparedRunView:
    """One run, in words."""

    name: str
    folder: str
    told: str
    """Whose config it is and how it was measured."""

    @property
    def line(self) -> str:
        """All of it."""
        return f"{self.name}  {self.folder}: {self.told}"


@dataclass(frozen=True)
class ComparisonView:
    """What a comparison shows, in its order."""

    answers: tuple[str, ...]
    """A sentence for each run but the reference."""
    machines: tuple[str, ...]
    """What the runs' own baselines say of the machines."""
    runs: tuple[ComparedRunView, ...]
    tables: tuple[Table, ...]
    """Configs and figures."""
    time: Table
    """Where the time goes."""
    changes: Passage
    """What of it grew or shrank."""
    findings: tuple[FindingView, ...]
    """What is unfair or doubtful about two runs."""
    notes: tuple[Note, ...]
    """The same of more than two, a line each."""
    how_compared: str
    has_regression: bool


def comparison_view(comparison: RunComparison, width: int) -> ComparisonView:
    """Return everything that a comparison shows.

    Args:
        comparison: of two runs or more.
        width: of the terminal, in letters; tables with a row for each run drop columns to fit.
    """
    reference, against = comparison.reference, comparison.against
    is_pair = len(against) == 1
    told = against if is_pair else [one for one in against if one.baseline_verdict in ("faster", "slower")]
    sentences = [line for one in told for line in _machine_lines(one, comparison)]
    return ComparisonView(
        answers=tuple(_answer(one, reference.name, comparison.tolerance) for one in against),
        machines=tuple(sentences),
        runs=tuple(_run_view(run, run is reference) for run in comparison.runs),
        tables=runs_tables(comparison, width),
        time=time_table(comparison),
        changes=_changes(comparison),
        findings=tuple(finding_view(finding) for finding in against[0].findings) if is_pair else (),
        notes=() if is_pair else _notes(against),
        how_compared=_how_compared(comparison),
        has_regression=comparison.has_regression,
    )


def _answer(one: AgainstReference, reference: str, tolerance: float) -> str:
    """Return what came of one run against the reference, in a sentence."""
    if one.factor is None or one.verdict is None:
        return (
            f"{one.name} trains {factor_text(one.rate_ratio)} as fast as {reference}, but too few fresh "
            "processes ran to tell whether that is a difference."
        )
    factor = speedup_text(one.factor)
    if one.verdict == _SAME:
        return f"{one.name} and {reference}: {_SAME}, {factor}."
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


def _machine_lines(one: AgainstReference, comparison: RunComparison) -> list[str]:
    """Return what the baselines say of the machines; nothing where baselines are what is compared."""
    reference = comparison.reference
    own = next(run for run in comparison.runs if run.name == one.name)
    is_difference = one.verdict is not None and one.verdict != _SAME
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
    if one.baseline_verdict == _SAME:
        return [
            f"The machine: the baselines of {one.name} and {reference.name}, the same script and knobs, show "
            f"{_SAME}, {factor}.{relative}"
        ]
    own_name, its_name = one.name, reference.name
    also = f"The baseline of {own_name}, the same script and knobs, is {factor} as fast as that of {its_name}"
    if one.machine_explains:
        return [f"{also}: the machine, its software or other code differs, not the config.{relative}"]
    return [f"{also}: the machine, its software or other code differs too.{relative}"]


def _relative_text(one: AgainstReference, own: ComparedRun, reference: ComparedRun) -> str:
    """Return each run's speed-up over its own baseline, and whether these differ."""
    if own.speedup is None or reference.speedup is None:
        return ""
    of_rates = own.objective is Objective.RATE and reference.objective is Objective.RATE
    before, after = factor_text(reference.speedup.value), factor_text(own.speedup.value)
    told = f"{before} in {reference.name}, {after} in {one.name}"
    ratio = ""
    if one.relative_factor is not None and one.relative_verdict is not None:
        ratio = f"{speedup_text(one.relative_factor)}: {one.relative_verdict}"
    if of_rates:
        return f" Relative to its own baseline: {told}{f', {ratio}' if ratio else ''}."
    return f" Rate relative to its own baseline: {ratio}." if ratio else ""


def _run_view(run: ComparedRun, is_reference: bool) -> ComparedRunView:
    whose = "the user's own config" if run.tier is None else run.tier.value
    if run.tier is not None and run.is_baseline:
        whose += ", which is the user's own config"
    processes = count_text(len(run.rates_samples_per_s), "fresh process", "fresh processes")
    told = f"{whose}, {processes} on {run.measured_on}, search of {run.created_at}"
    return ComparedRunView(
        name=run.name,
        folder=printable(run.folder),
        told=printable(("the reference, " if is_reference else "") + told),
    )


def _changes(comparison: RunComparison) -> Passage:
    """Return which part of the time grew or shrank most, where the rates differ."""
    lines = []
    for one, run in zip(comparison.against, comparison.runs[1:], strict=True):
        if one.verdict != _SAME:
            text = time_change_text(comparison.reference, run)
            lines.append(f"{one.name}: {text}")
    if comparison.clock == "host" and any(run.device_memory_bytes is not None for run in comparison.runs):
        lines.append(
            "By the host's clock: a GPU works on meanwhile, and what waits for it shows where the host next "
            "waits."
        )
    return Passage("", tuple(lines))


def _notes(against: Sequence[AgainstReference]) -> tuple[Note, ...]:
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
