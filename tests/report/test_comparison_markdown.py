"""A comparison as a pull-request comment: short, whole, and text as text."""

import pytest
from build_comparisons import compared, searched, slower
from build_records import GIB, config, host

from tunekit.records.comparison import RunComparison
from tunekit.report.blocks import WIDE
from tunekit.report.comparison import comparison_report
from tunekit.report.markdown import MOST_LINES, markdown


def drawn(comparison: RunComparison) -> str:
    return markdown(comparison_report(comparison, WIDE), MOST_LINES)


def test_the_answer_comes_first():
    lines = drawn(compared(searched(), slower(0.25))).splitlines()
    assert lines[0] == "## tunekit compare: regression"
    assert lines[2] == "**B trains 20% slower than A: 0.80x (0.78 to 0.82), beyond the tolerance of 5%.**"
    assert drawn(compared(searched(), searched())).startswith("## tunekit compare: no regression\n")


def test_figures_read_as_on_the_terminal():
    text = drawn(compared(searched(), slower(0.25)))
    assert "| samples/s | 980 | 784 | 0.80x |" in text
    assert "| RAM buffer (predicted) | 3.9 MiB Safe | 3.9 MiB Safe |  |" in text
    assert "(measured, by the host's clock) |" in text


def test_tables_have_a_line_for_each_row_and_nothing_between():
    lines = drawn(compared(searched(), slower(0.25), searched())).splitlines()
    tables = [place for place, line in enumerate(lines) if line.startswith("| ---")]
    assert len(tables) == 3
    for place in tables:
        columns = lines[place].count("|")
        assert lines[place - 1].count("|") == columns
        assert lines[place - 2] == ""
        assert lines[place + 1].count("|") == columns


@pytest.mark.parametrize("runs", [2, 3, 10])
def test_it_is_under_sixty_lines_whatever_differs(runs: int):
    knobs = config(batch_size=512, num_workers=4, accumulate_grad_batches=2)
    other = {"host": host(cpu_name="AMD EPYC", cpus=6, ram_limit_bytes=16 * GIB), "tunekit_version": "1.1.0"}
    loops = {"peak_reserved_bytes": 9 * GIB, "epoch_samples": 20_000}
    slow = slower(0.25, own_rates=(400.0, 404.0, 396.0), tuned=knobs, loop=loops, **other)
    text = drawn(compared(searched(), *([slow] * (runs - 1))))
    assert len(text.splitlines()) <= MOST_LINES < 60
    assert text.endswith("</sub>\n")
    if runs == 10:
        assert "more in the report" in text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("a|b", "a\\|b"),
        ("<script>", "\\<script>"),
        ("@someone", "@&#8203;someone"),
        ("[x](http://y)", "\\[x\\](http:&#8203;//y)"),
    ],
)
def test_names_are_text(name: str, shown: str):
    text = drawn(compared(searched(), slower(0.25, host=host(cpu_name=name))))
    assert f" in A, {shown} in B" in text
    assert f" in A, {name} in B" not in text


def test_a_folder_is_text():
    found = compared(searched(), slower(0.25))
    odd = found.runs[1].model_copy(update={"folder": "a`b\nc"})
    text = drawn(found.model_copy(update={"runs": (found.runs[0], odd)}))
    assert "**B** a\\`b\\\\nc: balanced" in text
