"""The view on a terminal: whole at 80 columns, and text as text."""

import io
import re

import pytest
from build_records import target
from build_reports import full_run
from build_searched import walked
from read_report import drawn as drawn_blocks
from rich.console import Console

from tunekit.records.run import Run
from tunekit.report.run import on_page
from tunekit.report.terminal import hang
from tunekit.report.trials import trials_table


def drawn(shown: Run, width: int) -> str:
    return drawn_blocks(on_page(shown, "reports/train-2026-01-02").blocks, width)


def trial_lines(shown: Run, width: int) -> list[list[str]]:
    """The titles and rows of each part of the table of trials."""
    _, _, text = drawn(shown, width).partition("Trials (figures are measured)\n")
    parts = [
        [line for line in part.splitlines() if re.match(r"trial  | *\d+  ", line)]
        for part in text.split("\n\n")
    ]
    return [part for part in parts if part and part[0].startswith("trial  ")]


@pytest.mark.parametrize("width", [60, 80, 120, 250])
def test_every_trial_stands_with_all_its_cells_at_any_width(width: int):
    table = trials_table(full_run())
    parts = trial_lines(full_run(), width)
    assert len(table.columns) == 11 and {"device_oom", "measured"} <= {row.cells[-1] for row in table.rows}
    assert (len(parts) == 1) is (width == 250)
    assert max(len(line) for part in parts for line in part) <= width
    titles, *rows = list(zip(*parts, strict=True))
    for cells, lines in zip(
        (table.columns, *(row.cells for row in table.rows)), (titles, *rows), strict=True
    ):
        number, first, *others = ("  ".join(lines)).split(maxsplit=2)[0], *lines
        assert all(line.split()[0] == number for line in (first, *others))
        assert all(cell in "  ".join(lines) for cell in cells)


@pytest.mark.parametrize("width", [20, 40, 60])
def test_no_figure_is_cut_on_a_narrow_terminal(width: int):
    text, usual = drawn(walked(), width), drawn(walked(), 80)
    assert "\u2026" not in text
    tables = [part for part in usual.split("\n\n") if part.startswith(("Tiers", "Multi-GPU scaling"))]
    assert len(tables) == 2
    cells = {cell for table in tables for line in table.splitlines()[1:] for cell in line.split("  ")}
    assert all(cell.strip() in text for cell in cells)


def test_a_command_is_never_broken():
    long = target(command=("python", "train.py", *(f"--option-{number}=value" for number in range(20))))
    text = drawn(walked().changed(target=long, measured_on="cpu"), 80)
    assert " ".join(long.command) in text


def hung(text: str, first: str = "", rest: str = "  ", width: int = 24) -> str:
    out = io.StringIO()
    hang(Console(width=width, file=out, color_system=None, highlight=False), text, first, rest)
    return out.getvalue()


def test_lines_are_measured_by_the_columns_that_their_letters_take():
    assert hung("\u2e80" * 8 + " " + "\u2e80" * 5) == "\u2e80" * 8 + "\n  " + "\u2e80" * 5 + "\n"


def test_further_lines_stand_further_in():
    assert hung("every line after the first") == "every line after the\n  first\n"
    assert hung("two GPUs and eight cores", "GPU  ", "     ") == "GPU  two GPUs and eight\n     cores\n"
    assert hung("two\nlines", "- ") == "- two\\nlines\n"
    assert hung("", "GPU  ") == "GPU\n"


def test_a_path_is_never_broken():
    path = "/a-long/" + "folder-" * 10
    assert hung(f"it lies in {path} there") == f"it lies in\n  {path}\n  there\n"
