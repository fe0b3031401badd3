"""Runs side by side as they are shown: the answer first, every figure with its basis, whole at 80 columns."""

import pytest
from build_comparisons import compared, searched, slower, waiting
from build_records import GIB, config, cpu, host, target
from read_report import Read
from read_report import drawn as drawn_blocks

from tunekit.records.comparison import RunComparison
from tunekit.records.finding import Severity
from tunekit.report.blocks import WIDE, Basis
from tunekit.report.comparison import comparison_answer, comparison_report
from tunekit.report.markdown import MOST_LINES, markdown

AT_80 = """
B trains 20% slower than A: B / A 0.80x (0.77 to 0.83), beyond the tolerance of
5%.
Baselines: no difference, B / A 1.00x (0.96 to 1.04). Speed-up over own
baseline: 1.96x in A, 1.57x in B, B / A 0.80x (0.74 to 0.86).

A  reports/a: reference, balanced, 3 processes on a10g, 2026-01-02
B  reports/b: balanced, 3 processes on a10g, 2026-01-02

Side by side (measured)
                                       A           B         B / A
samples/s                            980         784         0.80x
  range (95%; B / A 99%)    955 to 1,005  764 to 804  0.77 to 0.83
speed-up over own baseline         1.96x       1.57x         0.80x
VRAM reserved                    5.0 GiB     5.0 GiB         1.00x
Config of B: same as A

configs, time breakdown, method: --full, or --html FILE
"""
OTHER_CPU = {"host": host(cpu_name="AMD EPYC")}


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
        "B trains 20% slower than A: B / A 0.80x (0.77 to 0.83), beyond the tolerance of 5%."
    )
    assert sentence(compared(searched(), slower(0.25), tolerance=0.225)) == (
        "B trains 20% slower than A: B / A 0.80x (0.77 to 0.83), within the tolerance of 22.5%."
    )
    assert sentence(compared(slower(0.25), searched())) == (
        "B trains 25% faster than A: B / A 1.25x (1.20 to 1.30)."
    )
    assert sentence(compared(searched(), searched())) == "No difference: B / A 1.00x (0.96 to 1.04)."


def test_what_can_not_be_told_is_not_claimed():
    alone = [searched(rates=[rate], own_rates=[500.0]) for rate in (980.0, 735.0)]
    assert sentence(compared(*alone)) == ("Inconclusive: B / A 0.75x, too few fresh processes for a range.")
    assert rows_of(compared(*alone))["samples/s"] == ("980", "735", "0.75x")
    (table,) = comparison_view(compared(*alone), 80).tables[:-1]
    place = [row[0] for row in table.rows].index("samples/s") + 1
    assert table.rows[place] == ("  range (95%; B / A 99%)", "n/a", "n/a", "n/a")


def test_an_open_answer_is_called_inconclusive():
    open_one = compared(searched(), searched(rates=(940.0, 960.0, 930.0)))
    assert sentence(open_one) == "Inconclusive: B / A 0.96x (0.91 to 1.02)."
    assert "--confirm 8" in answer_at(open_one, 80)


def test_a_small_difference_is_not_rounded_away():
    exact = [searched(rates=(1000.0, 1000.1, 999.9), own_rates=(500.0, 500.1, 499.9))] * 2
    less = searched(rates=(996.0, 996.1, 995.9), own_rates=(500.0, 500.1, 499.9))
    assert sentence(compared(exact[0], less)).startswith("B trains 0.4% slower than A: B / A 1.00x")


# --- the machine ---------------------------------------------------------------------------


def test_a_baseline_that_slowed_too_is_said():
    slow = searched(rates=(784.0, 776.0, 792.0), own_rates=(400.0, 404.0, 396.0))
    (line,) = comparison_view(compared(searched(), slow), 80).lines
    assert line == (
        "The baseline is slower too, B / A 0.80x (0.77 to 0.83): the code or the machine's load changed, not "
        "the config. Speed-up over own baseline: 1.96x in A, 1.96x in B, B / A 1.00x (0.93 to 1.08)."
    )
    slower_still = searched(rates=(490.0, 485.0, 495.0), own_rates=(400.0, 404.0, 396.0))
    (line,) = comparison_view(compared(searched(), slower_still), 80).lines
    assert "the code or the machine's load changed as well. Speed-up over own baseline: 1.96x in A" in line
    faster = searched(rates=(1180.0, 1170.0, 1190.0), own_rates=(400.0, 404.0, 396.0))
    (line,) = comparison_view(compared(searched(), faster), 80).lines
    assert line.startswith("The baseline is slower, B / A 0.80x")


def test_other_trainings_leave_the_machine_unknown():
    other = slower(0.25, target=target(script_sha256="b" * 64))
    (line,) = comparison_view(compared(searched(), other), 80).lines
    assert line.startswith("Whether the machine changed between A and B is unknown")


def test_unlike_machines_are_compared_by_speed_up_with_the_rates_beside():
    slow = searched(rates=(590.0, 585.0, 595.0), own_rates=(400.0, 404.0, 396.0), **OTHER_CPU)
    found = compared(searched(), slow)
    assert sentence(found) == (
        "Relative to its own baseline, B is 25% slower than A: B / A 0.75x (0.70 to 0.81), beyond the "
        "tolerance of 5%."
    )
    (line,) = comparison_view(found, 80).lines
    assert line == (
        "The machines differ (CPU model), so speed-ups over the own baseline decide: 1.96x in A, 1.48x in B. "
        "Rates: B / A 0.60x (0.58 to 0.62)."
    )


def test_what_can_not_be_compared_is_said_and_called_neither():
    other = target(command=("python", "train.py", "--depth", "50"))
    found = compared(searched(), slower(0.25, target=other, **OTHER_CPU))
    assert sentence(found) == (
        "B can't be compared with A: the machines differ (CPU model), and their baselines are not the same "
        "script, command and knobs."
    )
    assert comparison_report(found, 80).title == "tunekit compare: not comparable"
    several = compared(searched(), slower(0.25, target=other, **OTHER_CPU), searched())
    assert rows_of(several)["B"][2] == "not comparable"
    assert "B: largest" not in " ".join(comparison_view(found, 80).passage())


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
    assert rows["data wait"] == ("0 ms", "400 ms", "+400 ms")
    assert rows["transfer, forward, backward"][2] == "0 ms"
    assert rows["total"][2] == "+400 ms"
    assert shown.passage()[0] == ("B: largest increase: data wait, +400 ms of +400 ms per 1,000 samples.")
    assert shown.passage()[1].startswith("By the host's clock: the GPU runs asynchronously")


def test_the_part_that_shrank_is_told_with_what_grew_meanwhile():
    slow = waiting(searched(), 0.4)
    fast = slower(0.1)
    (line, _) = comparison_view(compared(slow, fast), 80).passage()
    assert line == (
        "B: largest decrease: data wait, -400 ms; the rest +102 ms, in total -298 ms per 1,000 samples."
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
        "0.80x (0.77 to 0.83)",
        "1.00x (0.96 to 1.04)",
        "1.25x (1.20 to 1.30)",
    ]
    assert [row[2] for row in rows.values()] == ["reference", "regression", "no difference", "faster"]


def test_unfair_differences_of_several_are_notes_told_once():
    other = {"host": host(cpu_name="AMD EPYC")}
    found = compared(searched(), slower(0.25, **other), slower(0.2), slower(-0.2, **other))
    shown = comparison_view(found, 80)
    assert shown.findings == ()
    notes = [note.text for note in shown.notes if "CPUs" in note.text]
    assert notes == [
        "B: the CPUs are different models (Intel(R) Xeon(R) in A, AMD EPYC in B); search both on one machine "
        "to compare rates; on unlike machines speed-ups are compared",
        "D: the CPUs are different models (Intel(R) Xeon(R) in A, AMD EPYC in D); search both on one machine "
        "to compare rates; on unlike machines speed-ups are compared",
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


def answer_at(comparison: RunComparison, width: int) -> str:
    return drawn_blocks(comparison_answer(comparison, width), width)


def test_two_runs_at_80_columns():
    assert answer_at(compared(searched(), slower(0.25)), 80) == AT_80


@pytest.mark.parametrize("width", [80, 120])
def test_two_runs_fit_one_screen_whatever_differs(width: int):
    knobs = config(batch_size=512, num_workers=6, compile=True, precision="bf16", pin_memory=True)
    other = {"host": host(cpu_name="AMD EPYC", ram_limit_bytes=16 * GIB), "tunekit_version": "1.1.0"}
    loops = {"peak_reserved_bytes": 9 * GIB, "epoch_samples": 20_000}
    noisy = searched(
        rates=(850.0, 1100.0, 930.0), own_rates=(300.0, 400.0, 320.0), tuned=knobs, loop=loops, **other
    )
    for found in (compared(searched(), noisy), compared(searched(), slower(0.25, tuned=knobs, **other))):
        text = answer_at(found, width)
        assert len(text.splitlines()) <= 24
        assert f"{len(found.against[0].findings)} findings, configs" in text


def test_the_findings_that_would_tell_come_first_with_their_remedy():
    noisy = {"host": host(cpus=6), "tunekit_version": "1.1.0"}
    text = answer_at(compared(searched(), searched(rates=(940.0, 960.0, 930.0), **noisy)), 120)
    notes = [line for line in text.splitlines() if line.startswith(("warning: ", "note: "))]
    assert notes[0].startswith("warning: a slowdown of up to")
    assert notes[1] == "warning: the numbers of usable CPUs differ (8 in A, 6 in B)"


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("runs", [2, 3, 5])
def test_no_line_is_wider_than_the_terminal_nor_ends_in_spaces(width: int, runs: int):
    loops = {"peak_reserved_bytes": 8 * GIB}
    several = compared(searched(), *(slower(0.1 * place, loop=loops) for place in range(1, runs)))
    for line in (drawn(several, width) + answer_at(several, width)).splitlines():
        assert len(line) <= width
        assert line == line.rstrip()


# --- as a comment ----------------------------------------------------------------------------


def comment(comparison: RunComparison) -> str:
    return markdown(comparison_report(comparison, WIDE), MOST_LINES)


def test_the_answer_comes_first():
    lines = comment(compared(searched(), slower(0.25))).splitlines()
    assert lines[0] == "## tunekit compare: regression"
    assert lines[2] == (
        "**B trains 20% slower than A: B / A 0.80x (0.77 to 0.83), beyond the tolerance of 5%.**"
    )
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
