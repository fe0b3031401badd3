"""The training alone at several batch sizes, in real trials once they are measured."""

from pathlib import Path

import pytest
from real_trials import RealTrials, zoo_target

from tunekit.records.details import Detail, Details

pytestmark = pytest.mark.real


def swept(folder: Path, sizes: tuple[int, ...], *words: str) -> Details:
    trials = RealTrials(zoo_target("known_times.py", *words), folder, window_s=0.3)
    record = trials.run_baseline((Detail.SIZES,), sizes)
    assert record.measurement is not None, record.failure
    assert record.measurement.loop.batch_size == 16
    assert record.measurement.details is not None
    return record.measurement.details


def test_a_larger_batch_takes_longer_in_the_same_process(tmp_path: Path) -> None:
    details = swept(tmp_path, (8, 32), "--encoding", "--per-row", "0.001", "--workers", "1")
    assert details.faults == ()
    assert details.sizes is not None
    assert details.sizes.why_ended is None
    small, large = details.sizes.sizes
    assert (small.batch_size, large.batch_size) == (8, 32)
    assert small.step_s > 0.010 + 8 * 0.001  # what they sleep
    assert large.step_s > 0.010 + 32 * 0.001
    assert small.peak_reserved_bytes is None


def test_a_script_that_knows_its_own_size_alone_keeps_its_measurement_and_that_size(tmp_path: Path) -> None:
    details = swept(tmp_path, (16, 32, 64), "--state")
    assert details.sizes is not None
    (own,) = details.sizes.sizes
    assert own.batch_size == 16
    assert own.step_s > 0.010
    assert details.sizes.why_ended is not None
    assert details.sizes.why_ended.startswith("the script ended at batch size 32: ")
    assert "must match the size of tensor" in details.sizes.why_ended
