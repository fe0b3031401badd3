"""Recordings of real trainings: what goes wrong is named, and what only looks like it is not."""

from collections.abc import Callable

import pytest
from build_recordings import BEGAN_S, EACH_S, growing, recording, since, stalls
from build_records import GIB, MIB
from finding_texts import texts_of

from tunekit.diagnose.recording import latest_reading, rises_at
from tunekit.records.recording import Recording

BUSY = since(60, others_cpu_s=1.2)
FAULTS = {
    "memory-creep": recording(host=growing("pss_bytes", 4 * MIB)),
    "starved": recording(since(0, step_s=1.2, wait_s=0.7)),
    "slower-data": recording(since(60, wait_s=0.6)),
    "slowdown": recording(since(60, step_s=2.6)),
    "checkpoint-stall": recording(stalls),
}


def codes(one: Recording) -> list[str]:
    return [finding.code for finding in one.findings]


@pytest.mark.parametrize("code", FAULTS)
def test_a_fault_is_named_and_nothing_else(code: str) -> None:
    assert codes(FAULTS[code]) == [code]


def test_what_is_said_of_faults(golden: Callable[[str], object]) -> None:
    assert texts_of(one for several in FAULTS.values() for one in several.findings) == golden(
        "recordings.txt"
    )


@pytest.mark.parametrize(
    "clean",
    [
        recording(),
        recording(since(60, wait_s=0.15)),
        recording(since(60, step_s=2.0)),
        recording(lambda at: {"wait_s": 0.6} if 60 <= at < 75 else {}),
        recording(since(60, wait_s=0.6), BUSY),
        recording(since(60, step_s=2.6), BUSY),
        recording(lambda at: {"checkpoint_s": 1.0, "checkpoints": 1} if at % 60 == 59 else {}),
        recording(host=growing("pss_bytes", MIB // 4)),
        recording(host=lambda at: {"pss_bytes": 2 * GIB + min(at, 40) * 16 * MIB}),
        recording(host=lambda at: {"pss_bytes": 2 * GIB + at % 30 * 64 * MIB}),
        recording(since(0, steps=0, batches=0, samples=0, step_s=0.0, wait_s=0.0)),
    ],
    ids=["clean", "wait", "steps", "burst", "busy wait", "busy", "rare", "slow", "fills", "saw", "no step"],
)
def test_what_is_right_is_not(clean: Recording) -> None:
    assert codes(clean) == []


def test_a_leak_of_the_gpu_is_an_error_that_says_when_it_is_full() -> None:
    leak = recording(host=growing("vram_bytes", 8 * MIB)).figures.vram
    assert leak is not None
    assert leak.bytes_per_h == pytest.approx(8 * MIB * 1800)
    assert leak.hours_left == pytest.approx((24 * GIB - leak.last_bytes) / leak.bytes_per_h)


def test_a_change_is_dated_and_chance_is_none() -> None:
    change = FAULTS["slowdown"].figures.step_change
    assert change is not None
    assert change.at_s == pytest.approx(BEGAN_S + 60 * EACH_S, abs=5 * EACH_S)
    assert rises_at([1.0] * 12 + [2.0] * 12) == 12
    assert rises_at([1.0, 2.0] * 12) is None
    assert rises_at([2.0] * 12 + [1.0] * 12) is None


def test_the_whole_time_is_divided_and_the_rest_of_the_training_is_foreseen() -> None:
    one = recording(stalls)
    figures = one.figures
    parts = (figures.start_s, figures.step_s, figures.wait_s, figures.checkpoint_s, figures.other_s)
    assert sum(parts) == pytest.approx(figures.elapsed_s)
    assert figures.goodput == pytest.approx(figures.step_s / 246)
    assert figures.usd == pytest.approx(1.2 * 246 / 3600)
    assert latest_reading(one, BEGAN_S + 240).eta_s == pytest.approx(4_000 / 50)
    assert latest_reading(one.changed(epochs=None), BEGAN_S + 240).eta_s is None
    assert latest_reading(one, BEGAN_S + 340).latest.it_per_s == pytest.approx(1_000 / (20 + 96))
