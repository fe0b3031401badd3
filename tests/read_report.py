"""What a report says, by the kind of its blocks."""

import html
import io
import re
from collections.abc import Sequence
from typing import TypeVar

from rich.console import Console

from tunekit.records.plan import Plan
from tunekit.records.run import Run
from tunekit.report.blocks import (
    Block,
    Changes,
    Commands,
    Drawing,
    Facts,
    FoundBlock,
    Lead,
    Line,
    Note,
    Passage,
    Report,
    Section,
    Table,
    TrialTable,
)
from tunekit.report.charts.telemetry import Saved
from tunekit.report.run import in_comment, on_page
from tunekit.report.terminal import draw

Kind = TypeVar("Kind")


class Read:
    """A report, to be asked for what it says."""

    def __init__(self, report: Report) -> None:
        self.blocks = report.blocks
        self.answers = tuple(one.sentence for one in self._of(Lead))
        self.lines = tuple(one.text for one in self._of(Line) if one.text and not one.is_quiet)
        self.quiet = tuple(one.text for one in self._of(Line) if one.text and one.is_quiet)
        self.tables = self._of(Table)
        self.findings = self._of(FoundBlock)
        self.notes = self._of(Note)
        self.facts = tuple(row for one in self._of(Facts) for row in one.rows)
        self.next_steps = tuple(line for one in self._of(Commands) for line in one.lines)

    def _of(self, kind: type[Kind]) -> tuple[Kind, ...]:
        return tuple(block for block in self.blocks if isinstance(block, kind))

    @property
    def answer(self) -> str:
        (answer,) = self.answers
        return answer

    def passage(self, title: str = "") -> tuple[str, ...]:
        """Return the lines under a title; of all passages without one for an empty title."""
        return tuple(line for one in self._of(Passage) if one.title == title for line in one.lines)


class ReadRun(Read):
    """The report of a run as its page has it, its parts by name."""

    def __init__(self, run: Run, folder: str, plan: Plan | None, saved: Saved) -> None:
        super().__init__(on_page(run, folder, plan, saved=saved))
        self.answers = self.answers[:1]  # the others are the plan's
        lines = [one.text for one in self._of(Line)]
        self.headroom, self.price, self.losses, self.largest, self.how_measured = lines[:5]
        self.changes = tuple(line for one in self._of(Changes) for line in one.lines)
        self.tiers = self._titled(Table, "Tiers")
        self.short_tiers = Read(in_comment(run)).tables[0]
        self.telemetry = self._titled(Table, "System during training")
        self.scaling = self._titled(Table, "Multi-GPU scaling")
        self.missing_tiers = self.passage("Tiers that are missing")
        self.bottleneck = self._titled(Passage, "Bottleneck")
        self.charts = tuple(one for one in self.blocks if isinstance(one, Drawing))
        (self.trials,) = self._of(TrialTable)
        self.next_steps, *_, (self.reproduce,) = (one.lines for one in self._of(Commands))

    def _titled(self, kind: type[Kind], start: str) -> Kind:
        return next(one for one in self._of(kind) if str(getattr(one, "title", "")).startswith(start))

    def section(self, name: str) -> tuple[Block, ...]:
        """Return what stands below a heading."""
        ids = [one.id if isinstance(one, Section) else "" for one in self.blocks]
        start = ids.index(name) + 1
        end = next(place for place in range(start, len(ids)) if ids[place])
        return self.blocks[start:end]


def view(run: Run, folder: str = "FOLDER", plan: Plan | None = None, saved: Saved = lambda _: ()) -> ReadRun:
    """Return what the report of a run says."""
    return ReadRun(run, folder, plan, saved)


def drawn(blocks: Sequence[Block], width: int) -> str:
    """Return blocks as a terminal of a width shows them."""
    out = io.StringIO()
    draw(Console(width=width, file=out, color_system=None, highlight=False), blocks)
    return out.getvalue()


def page_text(text: str) -> str:
    """Return what a page says, a line for each block and row, without its scripts and raw data."""
    body = re.sub(
        r"<(script|style|svg|head)\b.*?</\1>", "", text.partition('<section id="raw"')[0], flags=re.DOTALL
    )
    body = " ".join(body.split())
    spaced = re.sub(r"</t[dh]>\s*<t", "  <t", re.sub(r"(</t[dh]>)\s+(?=<t[dh])", r"\1", body))
    broken = re.sub(
        r"</?(?:p|h\d|li|tr|section|table|figure|details|summary|div|pre|button|nav)\b[^>]*>", "\n", spaced
    )
    lines = (line.strip() for line in html.unescape(re.sub(r"<[^>]+>", "", broken)).split("\n"))
    return "".join(f"{line}\n" for line in lines if line)
