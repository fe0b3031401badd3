"""Runs side by side as they are shown: the answer first, every figure with its basis, whole at 80 columns."""

import pytest
from build_comparisons import compared, searched, slower, waiting
from build_records import GIB, config, cpu, host, target
from read_report import Read
from read_report import drawn as drawn_blocks

from tunekit.records.comparison import RunComparison
from tunekit.records.finding import Severity
from tunekit.report.blocks import WIDE, Basis
from tunekit.report.comparison import comparison_report
from tunekit.report.markdown import MOST_LINES, markdown

AT_80 = """
B trains 20% slower than A: 0.80x (0.78 to 0.82), beyond the tolerance of 5%.
The machine: the baselines of B and A, the same script and knobs, show no
significant difference, 1.00x (0.98 to 1.02). Relative to its own baseline:
1.96x in A, 1.57x in B, 0.80x (0.76 to 0.84): slower.

A  reports/a: the reference, balanced, 3 fresh processes on a10g, search of
   2026-01-02T03:04:05Z
B  reports/b: balanced, 3 fresh processes on a10g, search of
   2026-01-02T03:04:05Z

"""


def comparison_view(comparison: RunComparison, width: int) -> Read:
    return Read(comparison_report(comparison, width))


def drawn(comparison: RunComparison, width: int) -> str:
    return drawn_blocks(comparison_report(comparison, width).blocks, width)


def sentence(comparison: RunComparison) -> str:
    (answer,) = comparison_view(comparison, 80).answers
    return answer


def rows_of(comparison: RunComparison, place: int = 0, width: int = 160) -> dict[str, tuple[str, ...]]:
    table = comparison_view(comparison, width).tables[place]
    return {row[0]: row[1:] for row in table.rows}


# --- answers -------------------------------------------------------------------------------


def test_the_answer_says_how_much_how_sure_and_against_what():
    assert sentence(compared(searched(), slower(0.25))) == (
        "B trains 20% slower than A: 0.80x (0.78 to 0.82), beyond the tolerance of 5%."
    )
    assert sentence(compared(searched(), slower(0.25), tolerance=0.225)) == (
        "B trains 20% slower than A: 0.80x (0.78 to 0.82), within the tolerance of 22.5%."
    )
    assert sentence(compared(slower(0.25), searched())) == "B trains 25% faster than A: 1.25x (1.22 to 1.28)."
    assert sentence(compared(searched(), searched())) == (
        "B and A: no significant difference, 1.00x (0.98 to 1.02)."
    )


def test_what_can_not_be_told_is_not_claimed():
    alone = [searched(rates=[rate], own_rates=[500.0]) for rate in (980.0, 735.0)]
    assert sentence(compared(*alone)) == (
        "B trains 0.75x as fast as A, but too few fresh processes ran to tell whether that is a difference."
    )
    assert rows_of(compared(*alone))["samples/s"] == ("980", "735", "0.75x")
    (table,) = comparison_view(compared(*alone), 80).tables[:-1]
    place = [row[0] for row in table.rows].index("samples/s") + 1
    assert table.rows[place] == ("  95% range", "n/a", "n/a", "n/a")


def test_a_small_difference_is_not_rounded_away():
    exact = [searched(rates=(1000.0, 1000.1, 999.9), own_rates=(500.0, 500.1, 499.9))] * 2
    less = searched(rates=(996.0, 996.1, 995.9), own_rates=(500.0, 500.1, 499.9))
    assert sentence(compared(exact[0], less)).startswith("B trains 0.4% slower than A: 1.00x")


# --- the machine ---------------------------------------------------------------------------


def test_the_machine_is_named_where_it_explains_the_difference():
    slow = searched(rates=(784.0, 776.0, 792.0), own_rates=(400.0, 404.0, 396.0))
    (line,) = comparison_view(compared(searched(), slow), 80).lines
    assert line == (
        "The baseline of B, the same script and knobs, is 0.80x (0.78 to 0.82) as fast as that of A: the "
        "machine, its software or other code differs, not the config. Relative to its own baseline: 1.96x in "
        "A, 1.96x in B, 1.00x (0.96 to 1.05): no significant difference."
    )


def test_the_machine_is_named_where_it_explains_a_part():
    slow = searched(rates=(490.0, 485.0, 495.0), own_rates=(400.0, 404.0, 396.0))
    (line,) = comparison_view(compared(searched(), slow), 80).lines
    assert "its software or other code differs too. Relative to its own baseline: 1.96x in A" in line
    assert line.endswith(": slower.")


def test_other_trainings_leave_the_machine_unknown():
    other = slower(0.25, target=target(script_sha256="b" * 64))
    (line,) = comparison_view(compared(searched(), other), 80).lines
    assert line.startswith("Whether the machines of B and A differ is unknown")


# --- tables --------------------------------------------------------------------------------


def test_knobs_that_differ_are_marked_in_words_and_as_cells():
    other = searched(tuned=config(batch_size=256, num_workers=4))
    (table,) = comparison_view(compared(searched(), other), 80).tables[:-1]
    rows = {row[0]: row[1:] for row in table.rows}
    assert rows["batch_size"] == ("512", "256", "changed")
    assert rows["num_workers"] == ("4", "4", "")
    assert [table.rows[place][0] for place, _ in table.changed] == ["batch_size"]
    assert table.basis is Basis.MEASURED
    assert [table.rows[place][0] for place in table.predicted_rows] == ["RAM buffer (predicted)"]


def test_memory_stands_side_by_side():
    rows = rows_of(compared(searched(), searched(loop={"peak_reserved_bytes": 8 * GIB})))
    assert rows["VRAM reserved"] == ("5.0 GiB", "8.0 GiB", "1.60x")
    assert rows["RAM of processes"] == ("1.0 GiB", "1.0 GiB", "1.00x")
    assert rows["RAM buffer (predicted)"] == ("3.9 MiB Safe", "3.9 MiB Safe", "")
    on_cpu = {"device": cpu()}
    assert "VRAM reserved" not in rows_of(compared(searched(loop=on_cpu), searched(loop=on_cpu)))


def test_the_part_that_grew_is_told():
    before = searched()
    shown = comparison_view(compared(before, waiting(before, 0.4)), 80)
    rows = {row[0]: row[1:] for row in shown.tables[-1].rows}
    assert rows["waiting for data"] == ("0 ms", "400 ms", "+400 ms")
    assert rows["transfer, forward, backward"][2] == "0 ms"
    assert rows["together"][2] == "+400 ms"
    assert shown.passage()[0] == (
        "B: what grew most: waiting for data, +400 ms of +400 ms per 1,000 samples."
    )
    assert shown.passage()[1].startswith("By the host's clock: a GPU works on meanwhile")


def test_the_part_that_shrank_is_told_with_what_grew_meanwhile():
    slow = waiting(searched(), 0.4)
    fast = slower(0.1)
    (line, _) = comparison_view(compared(slow, fast), 80).passage()
    assert line == (
        "B: what shrank most: waiting for data, -400 ms; the rest +102 ms, "
        "together -298 ms per 1,000 samples."
    )


def test_nothing_is_attributed_to_what_is_no_difference():
    on_cpu = {"device": cpu()}
    shown = comparison_view(compared(searched(loop=on_cpu), searched(loop=on_cpu)), 80)
    assert shown.passage() == ()


# --- more than two -------------------------------------------------------------------------


def test_more_runs_are_a_row_each():
    found = compared(searched(), slower(0.25), searched(), slower(-0.2))
    shown = comparison_view(found, 160)
    assert len(shown.answers) == 3
    rows = rows_of(found)
    assert [row[0] for row in rows.values()] == [
        "980 (955 to 1,005)",
        "784 (764 to 804)",
        "980 (955 to 1,005)",
        "1,225 (1,194 to 1,256)",
    ]
    assert [row[1] for row in rows.values()] == [
        "1",
        "0.80x (0.78 to 0.82)",
        "1.00x (0.98 to 1.02)",
        "1.25x (1.22 to 1.28)",
    ]
    assert [row[2] for row in rows.values()] == ["reference", "regression", "same", "faster"]


def test_unfair_differences_of_several_are_notes_told_once():
    other = {"host": host(cpu_name="AMD EPYC")}
    found = compared(searched(), slower(0.25, **other), slower(0.2), slower(-0.2, **other))
    shown = comparison_view(found, 80)
    assert shown.findings == ()
    notes = [note.text for note in shown.notes if "CPUs" in note.text]
    assert notes == [
        "B: the CPUs are different models (Intel(R) Xeon(R) in A, AMD EPYC in B); to compare configs, search "
        "both on one machine; this factor is of the machines as well",
        "D: the CPUs are different models (Intel(R) Xeon(R) in A, AMD EPYC in D); to compare configs, search "
        "both on one machine; this factor is of the machines as well",
    ]
    assert all(note.severity is Severity.WARNING for note in shown.notes)


def test_configs_of_several_stand_beside_each_other():
    found = compared(searched(), searched(tuned=config(batch_size=256, num_workers=4)), searched())
    assert rows_of(found, place=1)["batch_size"] == ("512", "* 256", "512")


def test_memory_of_several_stays_at_80_columns():
    found = compared(searched(), slower(0.25), slower(0.1))
    (table, _) = comparison_view(found, 80).tables[:-1]
    assert table.columns[-2:] == ("VRAM", "RAM")
    (wide, _) = comparison_view(found, 160).tables[:-1]
    assert [row[wide.columns.index("buffer (predicted)")] for row in wide.rows] == ["3.9 MiB Safe"] * 3


# --- the terminal --------------------------------------------------------------------------


def test_two_runs_at_80_columns():
    text = drawn(compared(searched(), slower(0.25)), 80)
    assert text.startswith(AT_80)


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("runs", [2, 3, 5])
def test_no_line_is_wider_than_the_terminal_nor_ends_in_spaces(width: int, runs: int):
    loops = {"peak_reserved_bytes": 8 * GIB}
    several = [searched(), *(slower(0.1 * place, loop=loops) for place in range(1, runs))]
    for line in drawn(compared(*several), width).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


# --- as a comment ----------------------------------------------------------------------------


def comment(comparison: RunComparison) -> str:
    return markdown(comparison_report(comparison, WIDE), MOST_LINES)


def test_the_answer_comes_first():
    lines = comment(compared(searched(), slower(0.25))).splitlines()
    assert lines[0] == "## tunekit compare: regression"
    assert lines[2] == "**B trains 20% slower than A: 0.80x (0.78 to 0.82), beyond the tolerance of 5%.**"
    assert comment(compared(searched(), searched())).startswith("## tunekit compare: no regression\n")


def test_figures_read_as_on_the_terminal():
    text = comment(compared(searched(), slower(0.25)))
    assert "| samples/s | 980 | 784 | 0.80x |" in text
    assert "| RAM buffer (predicted) | 3.9 MiB Safe | 3.9 MiB Safe |  |" in text
    assert "(measured, by the host's clock) |" in text


def test_tables_have_a_line_for_each_row_and_nothing_between():
    lines = comment(compared(searched(), slower(0.25), searched())).splitlines()
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
    text = comment(compared(searched(), *([slow] * (runs - 1))))
    assert len(text.splitlines()) <= MOST_LINES < 60
    assert text.endswith("</sub>\n")
    if runs == 10:
        assert "more in the report" in text
