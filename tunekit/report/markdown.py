"""Draws a report as GitHub's Markdown; every text is literal: no markup, mention or link. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tunekit.plain_text import printable
from tunekit.report.blocks import (
    Block,
    Changes,
    Commands,
    Facts,
    FoundBlock,
    Lead,
    Line,
    Note,
    Passage,
    Report,
    Table,
    has_content,
)

MAX_LINES = 59
"""Lines of a comment on a pull request."""
_TEXT_LETTERS = 700
"""Letters of one sentence; only hostile or broken text is longer. GitHub allows 65,536 in total."""
_DETAIL_LETTERS = 400
_CODE_LETTERS, _CODE_LINES = 6_000, 20
"""Limits of a code block, which can't be cut: a longer one is only named."""


@dataclass(frozen=True)
class _Part:
    """A drawn block, or several of one kind."""

    lines: tuple[str, ...]
    is_list: bool = True
    """Whether it joins a list above it without an empty line."""
    kept: int | None = None
    """How many of its lines below the first are shown; None where none may be left out."""

    @property
    def drawn(self) -> list[str]:
        """Its lines, those that are left out counted."""
        title, *lines = self.lines
        if self.kept is None or self.kept >= len(lines):
            return [title, *lines]
        more = f"{len(lines) - self.kept:,}"
        if not self.kept:
            return [f"{title}: {more} in the report"]
        return [title, *lines[: self.kept], f"  - {more} more in the report"]


def markdown(report: Report, max_lines: int | None = None, max_listed: int | None = None) -> str:
    """Return a report in GitHub's Markdown.

    Args:
        report: charts, and what only a page can show, are left out.
        max_lines: its longest lists are cut to fit, and say how much was cut.
        max_listed: lines of a list at most.
    """
    parts = [_Part((f"## {clipped(report.title)}",), is_list=False)]
    for group in _groups(block for block in report.blocks if has_content(block)):
        parts += _parts(group)
    if max_listed is not None:
        parts = [
            part if part.kept is None else replace(part, kept=min(max_listed, part.kept)) for part in parts
        ]
    lines = _lines(parts)
    while max_lines is not None and len(lines) > max_lines:
        longest = max(parts, key=lambda part: part.kept or 0)
        if not longest.kept:
            break
        parts[parts.index(longest)] = replace(longest, kept=longest.kept - 1)
        lines = _lines(parts)
    return "\n".join(lines) + "\n"


def _groups(blocks: Iterable[Block]) -> list[list[Block]]:
    """Return blocks in groups: neighbouring leads, findings or notes are drawn together."""
    groups: list[list[Block]] = []
    for block in blocks:
        if groups and isinstance(block, Lead | FoundBlock | Note) and type(block) is type(groups[-1][0]):
            groups[-1].append(block)
        else:
            groups.append([block])
    return groups


def _parts(group: Sequence[Block]) -> list[_Part]:
    match group[0]:
        case Lead():
            answers = (clipped(block.sentence) for block in group if isinstance(block, Lead))
            return [_Part((f"**{' '.join(answers)}**",), is_list=False)]
        case Line(text=text, is_quiet=True):
            return [_Part((f"<sub>{clipped(text)}</sub>",), is_list=False)]
        case Line(text=text):
            return [_Part((f"- {clipped(text)}",))]
        case Changes(lines=lines):
            return [_Part((f"- **Change** {', '.join(map(as_code, lines))}",))]
        case Facts(rows=rows):
            entries = (f"**{clipped(label)}** {clipped(text)}" for label, text in rows)
            return [_Part(("<br>".join(entries),), is_list=False)]
        case Passage(title="", lines=lines):
            return [_Part((f"- {'<br>'.join(map(clipped, lines))}",))]
        case Passage(title=title, lines=lines):
            return [_listed(title, map(clipped, lines))]
        case Table():
            return [_Part(tuple(_table(group[0])), is_list=False)]
        case FoundBlock():
            found = (block for block in group if isinstance(block, FoundBlock))
            return [_listed("Findings", map(_found, found))]
        case Note():
            return [_listed("Notes", [clipped(block.line) for block in group if isinstance(block, Note)])]
        case Commands():
            return [_Part(tuple(_code(group[0])), is_list=False)]
        case _:
            return []


def _listed(title: str, lines: Iterable[str]) -> _Part:
    items = [f"  - {line}" for line in lines]
    return _Part((f"- **{as_text(title)}**", *items), kept=len(items))


def _found(one: FoundBlock) -> str:
    return "<br>".join((clipped(one.heading), *(clipped(line, _DETAIL_LETTERS) for line in one.details)))


def _lines(parts: Sequence[_Part]) -> list[str]:
    lines: list[str] = []
    was_list = False
    for part in parts:
        if lines and not (was_list and part.is_list):
            lines.append("")
        lines += part.drawn
        was_list = part.is_list
    return lines


def _table(table: Table) -> list[str]:
    """Return titles, alignment and rows; the table's title goes into an empty corner, else above."""
    corner, *titles = table.columns
    align = ["---:" if place in table.numeric else "---" for place in range(len(table.columns))]
    rows = [
        [
            f"**{_cell(text)}**" if (place, column) in table.changed else _cell(text)
            for column, text in enumerate(row)
        ]
        for place, row in enumerate(table.rows)
    ]
    head = [] if not corner else [f"**{clipped(table.title)}**", ""]
    return [*head, _row(map(_cell, (corner or table.title, *titles))), _row(align), *map(_row, rows)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _code(block: Commands) -> list[str]:
    letters = sum(map(len, block.lines))
    if letters > _CODE_LETTERS or len(block.lines) > _CODE_LINES:
        return [f"{clipped(block.title)}: {letters:,} letters, in the report"]
    lines = code_block(block.lines, block.language)
    if block.language == "sh":
        return lines
    return [f"<details><summary>{clipped(block.title)}</summary>", "", *lines, "", "</details>"]


def _cell(text: str) -> str:
    return clipped(text, _DETAIL_LETTERS)


_APART = "\u200b"
"""A zero-width space: GitHub looks for names and references after it has undone Markdown's escapes."""

_MARKUP = re.compile(r"[\\`*\[\]<|~]|&(?=[#\w])|(?<!\S)#|(?<![^\W_])_|_(?![^\W_])")
"""An underscore within a word is none, nor is a # after other letters."""
_LINE_STARTS = re.compile(r"^(?:[>+=-]|\d+(?=[.)](?:\s|$)))")
"""What would begin a quote, a list or a line below a heading."""
_REFERENCES = re.compile(
    r"(?<=@)(?=\w)|(?<=#)(?=\d)|(?<=\bgh-)(?=\d)|(?<=:)(?=//)|(?<=\bwww)(?=\.)|(?<=:)(?=[\w+-]+:)",
    re.IGNORECASE,
)
"""Where a mention, an issue, an address or an emoji is broken up."""
_DOLLAR = "<span>$</span>"
"""Two plain ones would be a formula to GitHub."""


def as_text(text: str) -> str:
    """Return one line of Markdown that shows the text literally."""
    marked = _MARKUP.sub(r"\\\g<0>", _REFERENCES.sub(_APART, printable(text).strip()))
    start = _LINE_STARTS.match(marked)
    if start is not None:
        at = start.end() if marked[start.end() - 1].isdigit() else start.start()
        marked = f"{marked[:at]}\\{marked[at:]}"
    marked = marked.replace(_APART, f"&#{ord(_APART)};")
    return marked.replace("$", _DOLLAR) if marked.count("$") > 1 else marked


def clipped(text: str, most: int = _TEXT_LETTERS) -> str:
    """Return `as_text` of a text, cut to a number of letters; what is left out is counted."""
    kept = text
    while len(as_text(kept)) > most:
        kept = kept[: min(len(kept) // 2, most)]
    left_out = len(text) - len(kept)
    return as_text(kept) + (f" ... ({left_out:,} letters more)" if left_out else "")


def as_code(text: str) -> str:
    """Return a text as code within a line."""
    plain = printable(text)
    mark = "`" * (_longest_run(plain, "`") + 1)
    space = " " if not plain or plain[0] in "` " or plain[-1] in "` " else ""
    return f"{mark}{space}{plain}{space}{mark}"


def code_block(lines: Sequence[str], language: str = "") -> list[str]:
    """Return lines as a block of code; its fence is longer than any in them."""
    fence = "`" * max(3, 1 + max((_longest_run(line, "`") for line in lines), default=0))
    return [f"{fence}{language}", *(printable(line) for line in lines), fence]


def _longest_run(text: str, letter: str) -> int:
    return max((len(run) for run in re.findall(f"{re.escape(letter)}+", text)), default=0)
