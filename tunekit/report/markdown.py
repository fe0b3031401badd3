"""The view as Markdown for a pull request: under 60 lines, whatever the run holds. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tunekit.report.findings import FindingView
from tunekit.report.markdown_text import as_code, as_text, clipped, code_block
from tunekit.report.table import Passage, Table
from tunekit.report.view import RunView

MOST_LINES = 59
_TEXT_LETTERS = 700
"""Of one sentence, as Markdown; only what is hostile or broken is longer. GitHub takes 65,536 in all."""
_CELL_LETTERS = 200
_BLOCK_LETTERS = 6_000
"""Of a block of code, which can't be cut: a longer one is named instead."""
_BLOCK_LINES = 6
_TIERS = 3
"""That a run can have."""


@dataclass(frozen=True)
class _Section:
    """Lines under a heading, of which as many are shown as there is room for."""

    title: str
    lines: tuple[str, ...]
    most: int

    def drawn(self, shown: int) -> list[str]:
        """Return its heading and its first lines, the others counted."""
        if not self.lines:
            return []
        more = len(self.lines) - shown
        if not shown:
            return [f"- **{as_text(self.title)}**: {more:,} in the report"]
        rest = [f"  - {more:,} more in the report"] if more else []
        return [f"- **{as_text(self.title)}**", *(f"  - {line}" for line in self.lines[:shown]), *rest]


def markdown(shown: RunView, configs: Sequence[tuple[str, str]] = ()) -> str:
    """Return the report for a pull-request comment, in GitHub's Markdown.

    Args:
        shown: what it shows; figures read as they do there.
        configs: tiers by name, each with its knobs as YAML.
    """
    head = [f"## tunekit: {_line(shown.title)}", "", f"**{_line(shown.answer)}**", ""]
    head += [*_tiers(shown.short_tiers), "", *_key_lines(shown)]
    foot = ["", f"<sub>{_line(shown.how_measured)}</sub>", *_reproduce(shown.reproduce), *_configs(configs)]
    sections = _sections(shown)
    room = MOST_LINES - len(head) - len(foot)
    return "\n".join([*head, *_fitted(sections, room), *foot]) + "\n"


def _line(text: str) -> str:
    return clipped(text, _TEXT_LETTERS)


def _tiers(table: Table) -> list[str]:
    """Return the baseline and the tiers, a row each, under the table's title."""
    titles = (table.title, *table.columns[1:])
    rules = ["---:" if place in table.numeric else "---" for place in range(len(titles))]
    rows = [_row(clipped(cell, _CELL_LETTERS) for cell in row) for row in table.rows[: 1 + _TIERS]]
    more = len(table.rows) - len(rows)
    rest = [_row([f"{more:,} more in the report"])] if more else []
    return [_row(as_text(title) for title in titles), _row(rules), *rows, *rest]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _key_lines(shown: RunView) -> list[str]:
    """Return what to change and what it costs, a line each."""
    lines = [f"- **Change** {', '.join(map(as_code, shown.changes))}"] if shown.changes else []
    told = (shown.headroom, shown.price, shown.losses, shown.largest, "; ".join(shown.missing_tiers))
    return lines + [f"- {_line(text)}" for text in told if text]


def _sections(shown: RunView) -> list[_Section]:
    plan = (shown.plan.basis, *shown.plan.answers) if shown.plan else ()
    return [
        _passage(shown.ceilings, 3),
        _Section("Findings", tuple(_finding(one) for one in shown.findings), 3),
        _Section("Failed trials", tuple(_line(note.text) for note in shown.notes), 2),
        _Section("The whole training", tuple(_line(one) for one in plan), 4),
        _passage(shown.prediction, 2),
    ]


def _passage(passage: Passage, most: int) -> _Section:
    return _Section(passage.title, tuple(_line(line) for line in passage.lines), most)


def _finding(one: FindingView) -> str:
    return _line(one.heading) + (f"<br>{_line(one.remedy)}" if one.remedy else "")


def _fitted(sections: Sequence[_Section], room: int) -> list[str]:
    """Return the sections with as many lines each as fit the room, the longest ones cut first."""
    counts = [min(len(one.lines), one.most) for one in sections]
    while True:
        each = zip(sections, counts, strict=True)
        lines = [line for section, count in each for line in section.drawn(count)]
        if len(lines) <= room or not any(counts):
            return lines
        longest = max(range(len(counts)), key=lambda place: (counts[place], place))
        counts[longest] -= 1


def _reproduce(command: str) -> list[str]:
    if len(command) > _BLOCK_LETTERS:
        return ["", f"The command of {len(command):,} letters stands in run.json."]
    return ["", *code_block([command], "sh")]


def _configs(configs: Sequence[tuple[str, str]]) -> list[str]:
    """Return the tiers' knobs, folded; a config that was shown already is only named."""
    if not configs:
        return []
    told: list[str] = []
    named: dict[str, str] = {}
    for name, text in configs[:_TIERS]:
        lines = text.splitlines()
        if text in named:
            told.append(f"# {name}: the same as {named[text]}")
            continue
        named[text] = name
        if len(lines) > _BLOCK_LINES or len(text) > _BLOCK_LETTERS:
            told.append(f"# {name}: {len(lines):,} lines, {len(text):,} letters, in {name}.yaml")
            continue
        told += [f"# {name}", *lines]
    if len(configs) > _TIERS:
        told.append(f"# {len(configs) - _TIERS:,} more in the run folder")
    return ["", "<details><summary>Configs</summary>", "", *code_block(told, "yaml"), "", "</details>"]
