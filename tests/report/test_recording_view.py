"""A recorded training: report, live view and plain line."""

import time
from collections.abc import Callable, Iterator

import pytest
from build_recordings import BEGAN_S, START, recording, since
from read_report import drawn

from tunekit.diagnose.recording import latest_reading
from tunekit.records.recording import RecordingFigures
from tunekit.report.recording import reading_facts, reading_line, recording_report

SLOWER = recording(since(60, wait_s=0.6, checkpoint_s=0.1, checkpoints=1))


@pytest.fixture
def in_utc() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.parametrize("width", [80, 120])
def test_a_recording_is_shown(width: int, golden: Callable[[str], object], in_utc: None):
    reading = latest_reading(SLOWER, BEGAN_S + 240)
    shown = [
        drawn(recording_report(SLOWER, "reports/train").blocks, width),
        drawn((reading_facts(reading, START, "epoch 3"),), width),
        reading_line(reading, START),
    ]
    assert ("\n".join(shown) + "\n") == golden(f"recording.{width}.txt")


def test_without_an_agent_the_loop_is_unknown_and_it_says_so():
    unknown = RecordingFigures(elapsed_s=246, start_s=246)
    outside = SLOWER.changed(loop=(), figures=unknown, start=START.changed(has_loop=False))
    reading = latest_reading(outside, BEGAN_S + 240)
    line = reading_line(reading, outside.start)
    assert "started without tunekit" in line
    assert "it/s" not in line
