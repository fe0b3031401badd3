"""What reports are made of: blocks that say what is shown; terminal, Markdown and page draw each."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, Literal, TypeVar

from tunekit.records.finding import WORST_FIRST, Finding, Severity
from tunekit.records.run import TargetRecord
from tunekit.report.text import SEVERITY_WORDS, UNKNOWN, factor_text, finding_text

Item = TypeVar("Item")
Tone = Literal["", "good", "bad", "warn"]

PREDICTED = "(predicted)"
"""The end of a predicted row's label."""


class Basis(StrEnum):
    """Where a shown figure comes from."""

    MEASURED = "measured"
    PREDICTED = "predicted"


@dataclass(frozen=True)
class Lead:
    """A sentence of the answer."""

    text: str
    badge: str = ""
    """How sure it is, in a word or two. Empty where nothing is claimed."""
    tone: Tone = ""
    """What a page colours the badge by."""

    @property
    def sentence(self) -> str:
        """The text after its badge."""
        return f"{self.badge}: {self.text}" if self.badge else self.text


@dataclass(frozen=True)
class Line:
    """A sentence below the answer."""

    text: str
    is_quiet: bool = False
    """Whether it says how a result was obtained, not the result."""
    is_apart: bool = False
    """Whether it doesn't belong to the block above."""


@dataclass(frozen=True)
class Changes:
    """What to change: each knob with its values, "before -> after"."""

    rows: tuple[tuple[str, str], ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """Knob and values as one text each."""
        return tuple(f"{knob}: {values}" for knob, values in self.rows)


@dataclass(frozen=True)
class Facts:
    """Sentences with a label each."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Passage:
    """Sentences under a heading; without one they belong to the block above."""

    title: str
    lines: tuple[str, ...]
    basis: Basis | None = None
    """Where its figures come from, except those marked measured in their line; None where neither applies."""
    is_list: bool = False
    """Whether its lines are indented."""
    is_quiet: bool = False
    is_apart: bool = False
    """Whether it is separate from the block above although it has no heading."""


@dataclass(frozen=True)
class Table:
    """Texts in rows and columns; numeric columns are right-aligned."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numeric: tuple[int, ...] = ()
    basis: Basis | None = None
    """Where its figures come from, except `predicted_rows`; None where neither applies."""
    predicted_rows: tuple[int, ...] = ()
    """Rows whose figures are predictions."""
    changed: tuple[tuple[int, int], ...] = ()
    """Cells, by row and column, that differ from the baseline's of their row."""


@dataclass(frozen=True)
class FoundBlock:
    """A finding in lines."""

    severity: Severity
    heading: str
    """Severity, code and message."""
    details: tuple[str, ...]
    """Evidence, remedy, gain."""


@dataclass(frozen=True)
class Note:
    """One line below a report's tables."""

    severity: Severity
    text: str

    @property
    def line(self) -> str:
        """The text after the word for its severity."""
        return f"{SEVERITY_WORDS[self.severity]}: {self.text}"


Step = tuple[str, str]
"""Words and the command that follows them; without a command, something to do by hand."""


@dataclass(frozen=True)
class Commands:
    """Lines to be copied, never broken: commands, or a config."""

    title: str
    steps: tuple[str | Step, ...]
    """Commands, or lines of a config."""
    language: str = "sh"

    @property
    def pairs(self) -> tuple[Step, ...]:
        """Every step with its words."""
        return tuple(("", one) if isinstance(one, str) else one for one in self.steps)

    @property
    def lines(self) -> tuple[str, ...]:
        """Every step in one line."""
        return tuple(": ".join(filter(None, pair)) for pair in self.pairs)


@dataclass(frozen=True)
class Section:
    """Begins a section of the page, with an entry in its table of contents."""

    id: str
    title: str
    short: str
    """Its name in the table of contents."""


@dataclass(frozen=True)
class Point:
    """One figure of a series."""

    x: float | str
    """Its place: a number, or the name of a bar."""
    y: float
    text: str
    """The figure with its unit, as every report writes it: "980 samples/s (955 to 1,005)"."""
    low: float | None = None
    high: float | None = None
    """Ends of its 95% range; both None where it has none."""
    note: str = ""
    """What else is known of it, such as the config of a trial."""


@dataclass(frozen=True)
class Series:
    """Figures of one kind."""

    name: str
    basis: Basis
    points: tuple[Point, ...]
    mark: Literal["points", "line", "steps", "bars", "failures", "totals"] = "points"
    """"failures" are places without a figure: drawn as crosses at their y. "steps" hold until the next point.
    "totals" are written above the bars that they sum up."""
    stands_out: bool = False
    """Whether it is what the chart is about: drawn larger, on top of the others."""


@dataclass(frozen=True)
class LimitLine:
    """A limit on y, drawn as a line."""

    value: float
    text: str
    """What it is, with its figure."""


@dataclass(frozen=True)
class Chart:
    """Series over one axis."""

    id: str
    """The id of its element in the page, and its name in `run.figures`."""
    title: str
    summary: str
    """What it shows, in a sentence or two: its text alternative."""
    x_title: str
    y_title: str
    series: tuple[Series, ...]
    x_is_log: bool = False
    is_horizontal: bool = False
    """Whether bars are horizontal: x then holds their names and y their lengths."""
    limits: tuple[LimitLine, ...] = ()
    """Lines across the chart; the axis always reaches the largest."""


@dataclass(frozen=True)
class Trace:
    """One figure of one trial over its time."""

    name: str
    """The trial's config."""
    times_s: tuple[float, ...]
    """Seconds since the trial's start."""
    values: tuple[float | None, ...]
    """None where there was no answer."""


@dataclass(frozen=True)
class Panel:
    """One figure of several trials over their time."""

    title: str
    """What is shown, with its unit."""
    traces: tuple[Trace, ...]


@dataclass(frozen=True)
class Window:
    """A stretch of a trial's time."""

    name: str
    """The trial's config."""
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Timeline:
    """The machine over the time of some trials: panels below each other over one axis."""

    id: str
    title: str
    summary: str
    names: tuple[str, ...]
    """The configs' names, in the order of their colours."""
    panels: tuple[Panel, ...]
    windows: tuple[Window, ...]
    """When each trial was measured."""
    table: Table
    """Each panel's figures, where there are windows in these."""
    of: str = "trial"
    """Whose start the times are counted from."""


def stacked_bars(
    name: str,
    title: str,
    summary: str,
    axes: tuple[str, str],
    parts: Iterable[Series],
    totals: Iterable[Series],
    limits: Iterable[LimitLine] = (),
) -> Chart:
    """Return horizontal bars of parts that add up to totals, without parts that are zero everywhere."""
    shown = (one for one in parts if any(point.y for point in one.points))
    return Chart(
        id=name,
        title=title,
        summary=summary,
        x_title=axes[0],
        y_title=axes[1],
        series=(*shown, *(one for one in totals if one.points)),
        is_horizontal=True,
        limits=tuple(limits),
    )


Drawing = Chart | Timeline
"""What is drawn as a figure."""


class TrialState(StrEnum):
    """The outcome of a trial in a word."""

    MEASURED = "measured"
    ABANDONED = "abandoned"
    """Stopped early as certainly too slow."""
    REFUSED = "refused"
    """Not run: it would not fit."""
    FAILED = "failed"


@dataclass(frozen=True)
class TrialRow:
    """One trial."""

    cells: tuple[str, ...]
    state: TrialState
    reason: str
    """Why it failed or was refused, with the remedy; empty otherwise."""


@dataclass(frozen=True)
class TrialTable:
    """Every trial, in the order they ran."""

    title: str
    columns: tuple[str, ...]
    numeric: tuple[int, ...]
    rows: tuple[TrialRow, ...]
    summary: str
    """How many trials have each state."""
    same: str = ""
    """Knobs with the same value in all trials, which have no columns."""


Block = (
    Lead
    | Line
    | Changes
    | Facts
    | Passage
    | Table
    | Chart
    | Timeline
    | TrialTable
    | FoundBlock
    | Note
    | Commands
    | Section
)


@dataclass(frozen=True)
class Report:
    """A record in words, and tables and charts of words."""

    title: str
    blocks: tuple[Block, ...]
    about: str = ""
    """When, on which machine and by which command it was measured."""


def has_content(block: Block) -> bool:
    """Return whether a block says anything."""
    match block:
        case Lead() | Line():
            return bool(block.text)
        case Changes() | Passage() | Commands():
            return bool(block.lines)
        case Facts() | Table() | TrialTable():
            return bool(block.rows)
        case _:
            return True


# --- findings and notes ----------------------------------------------------------------------


def found_blocks(findings: Iterable[Finding]) -> tuple[FoundBlock, ...]:
    """Return findings as blocks, the worst first."""
    return tuple(map(_found_block, sorted(findings, key=lambda one: WORST_FIRST.index(one.severity))))


def _found_block(finding: Finding) -> FoundBlock:
    has_gain = finding.gain is not None and finding.gain >= 1.005
    gain = factor_text(finding.gain)
    gain = f"{gain} (measured)" if finding.is_measured else f"at most {gain} (predicted)"
    texts = {"seen": finding.evidence, "do": finding.remedy, "gain": gain if has_gain else None}
    return FoundBlock(
        finding.severity,
        f"{SEVERITY_WORDS[finding.severity]} {finding.code}: {finding.message}",
        tuple(f"{label}: {text}" for label, text in texts.items() if text),
    )


def note_of(finding: Finding) -> Note:
    """Return a finding as a note."""
    return Note(finding.severity, finding_text(finding))


def trial_notes(run: TargetRecord) -> tuple[Note, ...]:
    """Return what was wrong with the machine, and which trials failed."""
    failures = (f"trial {one.number} failed, {one.failure.text}" for one in run.trials if one.failure)
    return (*map(note_of, run.machine_warnings), *(Note(Severity.INFO, line) for line in failures))


# --- tables ----------------------------------------------------------------------------------


def side_by_side(
    title: str, names: Sequence[str], rows: Sequence[tuple[str, ...]], knobs: Sequence[tuple[str, ...]] = ()
) -> Table:
    """Return a table with a column for each config, the first of which is the reference.

    Args:
        title: of the table.
        names: of the configs.
        rows: of texts, after their labels; a label may end with `PREDICTED`.
        knobs: the first rows, whose cells are marked where they differ from the reference's.
    """
    return Table(
        title,
        ("", *names),
        (*knobs, *rows),
        tuple(range(1, len(names) + 1)),
        Basis.MEASURED,
        predicted_rows=tuple(
            len(knobs) + place for place, row in enumerate(rows) if row[0].endswith(PREDICTED)
        ),
        changed=tuple(
            (place, column)
            for place, (_, reference, *_) in enumerate(knobs)
            for column in range(2, len(names) + 1)
            if knobs[place][column] != reference
        ),
    )


@dataclass(frozen=True)
class Column(Generic[Item]):
    """One figure of every item."""

    title: str
    cell: Callable[[Item], str]
    is_numeric: bool = True
    is_optional: bool = False
    """Whether it is left out where no item has a figure."""


def field_text(path: str, text: Callable[[Any], str] = str, missing: str = UNKNOWN) -> Callable[[Any], str]:
    """Return a function that writes one field of an item as a cell.

    Args:
        path: names of fields, with dots between them.
        text: of its value.
        missing: what is written for None.
    """
    names = path.split(".")

    def cell(item: Any) -> str:
        for name in names:
            item = None if item is None else getattr(item, name)
        return missing if item is None else text(item)

    return cell


def table_of(
    title: str, columns: Iterable[Column[Item]], items: Sequence[Item], basis: Basis | None = None
) -> Table:
    """Return a row for each item, without optional columns that are empty."""
    cells = [(column, tuple(column.cell(item) for item in items)) for column in columns]
    shown = [
        (column, texts)
        for column, texts in cells
        if not column.is_optional or any(text.strip() not in ("", UNKNOWN) for text in texts)
    ]
    return Table(
        title,
        tuple(column.title for column, _ in shown),
        tuple(zip(*(texts for _, texts in shown), strict=True)),
        tuple(place for place, (column, _) in enumerate(shown) if column.is_numeric),
        basis,
    )
