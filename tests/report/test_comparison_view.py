"""Runs side by side as whole outputs, on a terminal and as a comment."""

from collections.abc import Callable

import pytest
from build_comparisons import compared, searched, slower, waiting
from build_records import GIB, config, cpu, host, target
from read_report import Read, drawn

from tunekit.records.comparison import RunComparison
from tunekit.report.comparison import comparison_answer, comparison_report
from tunekit.report.markdown import MAX_LINES, markdown

Golden = Callable[[str], object]
ON_CPU = {"device": cpu()}
OTHER_CPU = {"host": host(cpu_name="AMD EPYC")}
OTHER_SCRIPT = target(command=("python", "train.py", "--depth", "50"))
SLOW_BASELINE = (400.0, 404.0, 396.0)
OTHER_KNOBS = searched(tuned=config(batch_size=256, num_workers=4), loop={"peak_reserved_bytes": 8 * GIB})
COMPARISONS = {
    "slower": compared(searched(), slower(0.25)),
    "within-tolerance": compared(searched(), slower(0.25), tolerance=0.225),
    "faster-other-knobs": compared(slower(0.25), OTHER_KNOBS),
    "no-difference": compared(searched(loop=ON_CPU), searched(loop=ON_CPU)),
    "inconclusive": compared(searched(), searched(rates=(940.0, 960.0, 930.0))),
    "one-process": compared(*(searched(rates=[rate], own_rates=[500.0]) for rate in (980.0, 735.0))),
    "baseline-slower-too": compared(
        searched(), searched(rates=(784.0, 776.0, 792.0), own_rates=SLOW_BASELINE)
    ),
    "slower-beyond-baseline": compared(
        searched(), searched(rates=(490.0, 485.0, 495.0), own_rates=SLOW_BASELINE)
    ),
    "other-script": compared(searched(), slower(0.25, target=target(script_sha256="b" * 64))),
    "not-comparable": compared(searched(), slower(0.25, target=OTHER_SCRIPT, **OTHER_CPU)),
    "waits": compared(searched(), waiting(searched(), 0.4)),
    "four": compared(
        searched(),
        slower(0.25),
        searched(rates=(590.0, 585.0, 595.0), own_rates=SLOW_BASELINE, **OTHER_CPU),
        OTHER_KNOBS,
    ),
}


def answer_at(comparison: RunComparison, width: int) -> str:
    return drawn(comparison_answer(comparison), width)


def report_at(comparison: RunComparison, width: int) -> str:
    return drawn(comparison_report(comparison).blocks, width)


@pytest.mark.parametrize("name", COMPARISONS)
def test_runs_side_by_side(name: str, golden: Golden):
    found = COMPARISONS[name]
    assert (answer_at(found, 80) + "=" * 80 + "\n" + report_at(found, 80)) == golden(f"compare-{name}.txt")


def test_a_small_difference_is_not_rounded_away():
    exact = searched(rates=(1000.0, 1000.1, 999.9), own_rates=(500.0, 500.1, 499.9))
    less = searched(rates=(996.0, 996.1, 995.9), own_rates=(500.0, 500.1, 499.9))
    assert "0.4% slower, 1.00x" in Read(comparison_report(compared(exact, less))).answer


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
        assert len(text.splitlines()) <= 30
        assert f"{len(found.against[0].findings)} finding" in text


def test_findings_that_would_settle_it_come_first_with_their_remedy():
    noisy = {"host": host(cpus=6), "tunekit_version": "1.1.0"}
    text = answer_at(compared(searched(), searched(rates=(940.0, 960.0, 930.0), **noisy)), 120)
    notes = [line for line in text.splitlines() if line.startswith(("warning: ", "note: "))]
    assert notes[0].startswith("warning: B: the runs are too noisy")
    assert "(CPU count: 8 in A, 6 in B)" in notes[1]


def comment(comparison: RunComparison) -> str:
    return markdown(comparison_report(comparison), MAX_LINES)


def test_a_comment(golden: Golden):
    assert comment(compared(searched(), slower(0.25))) == golden("compare-comment.md")


@pytest.mark.parametrize("runs", [2, 3, 10])
def test_it_is_under_sixty_lines_whatever_differs(runs: int):
    knobs = config(batch_size=512, num_workers=4, accumulate_grad_batches=2)
    other = {"host": host(cpu_name="AMD EPYC", cpus=6, ram_limit_bytes=16 * GIB), "tunekit_version": "1.1.0"}
    loops = {"peak_reserved_bytes": 9 * GIB, "epoch_samples": 20_000}
    slow = slower(0.25, own_rates=(400.0, 404.0, 396.0), tuned=knobs, loop=loops, **other)
    text = comment(compared(searched(), *([slow] * (runs - 1))))
    assert len(text.splitlines()) <= MAX_LINES < 60
    assert text.endswith("</sub>\n")
    if runs == 10:
        assert "more in the report" in text
