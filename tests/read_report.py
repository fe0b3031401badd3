"""What a report says, by the kind of its blocks."""

import io
from collections.abc import Sequence
from typing import TypeVar

from rich.console import Console

from tunekit.report.blocks import Block, Commands, Facts, FoundBlock, Lead, Line, Note, Passage, Report, Table
from tunekit.report.terminal import draw

Kind = TypeVar("Kind")


class Read:
    """A report, to be asked for what it says."""

    def __init__(self, report: Report) -> None:
        self.blocks = report.blocks
        self.answers = tuple(one.text for one in self._of(Lead))
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


def drawn(blocks: Sequence[Block], width: int) -> str:
    """Return blocks as a terminal of a width shows them."""
    out = io.StringIO()
    draw(Console(width=width, file=out, color_system=None, highlight=False), blocks)
    return out.getvalue()
