"""The training on a batch of the data set's largest samples, in real trials once they are measured."""

from pathlib import Path

import pytest
from real_trials import RealTrials, zoo_target

from tunekit.records.details import Detail
from tunekit.records.trial import OutcomeKind, TrialRecord

pytestmark = pytest.mark.real

ROW_BYTES, LABEL_BYTES = 4 * 4, 8


def looked(folder: Path, *words: str) -> TrialRecord:
    trials = RealTrials(zoo_target(*words), folder, window_s=0.3)
    return trials.run_baseline((Detail.LARGEST,))


def test_samples_that_the_measured_window_never_met_are_trained_on(tmp_path: Path) -> None:
    record = looked(tmp_path, "grows_longer.py", "--longest", "150")
    assert record.measurement is not None, record.failure
    assert record.measurement.details is not None
    assert record.measurement.details.faults == ()
    seen = record.measurement.details.largest
    assert seen is not None
    assert seen.why_ended is None
    assert (seen.varies, seen.data_set_samples, seen.batch_size) == (True, 1_000_000, 16)
    assert seen.samples_read > 16
    assert seen.batch_bytes is not None
    # The longest of those that were read, of 130 to 150 rows; each is padded to it.
    rows, rest = divmod(seen.batch_bytes - 16 * LABEL_BYTES, 16 * ROW_BYTES)
    assert rest == 0
    assert 130 < rows <= 150
    assert seen.times_usual is not None
    assert seen.times_usual > 1
    assert seen.batch_bytes > 1.5 * record.measurement.loop.batch_bytes
    assert seen.is_lived_through
    assert seen.step_s is not None
    loop = record.measurement.loop
    assert seen.step_s > loop.steady_time_s / loop.steady_batches


def test_a_script_without_memory_for_the_longest_has_failed(tmp_path: Path) -> None:
    record = looked(tmp_path, "grows_longer.py", "--longest", "2500", "--room", "400")
    assert record.failure is not None
    assert record.failure.kind is OutcomeKind.HOST_OOM
    assert record.failure.message.startswith(
        "ran out of memory on a batch of the data set's largest samples ("
    )
    assert "of 1,000,000 read; " in record.failure.message
    assert "can't allocate memory" in record.failure.message
    assert record.failure.largest is not None
    assert record.failure.largest.is_given
    assert not record.failure.largest.is_lived_through


def test_samples_of_one_size_are_known_at_once(tmp_path: Path) -> None:
    record = looked(tmp_path, "known_times.py", "--stacked", "--workers", "1")
    assert record.measurement is not None, record.failure
    assert record.measurement.details is not None
    seen = record.measurement.details.largest
    assert seen is not None
    assert (seen.varies, seen.samples_read, seen.data_set_samples) == (False, 16, 160_000)
    assert not seen.is_given
    assert seen.why_ended is None
