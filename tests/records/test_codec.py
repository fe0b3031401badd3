"""Records as files: what is written is read back, and what is no record is refused by name."""

import json
import os
from pathlib import Path

import pytest
from any_records import runs, trial_records
from build_records import config, failure, run, trial_record
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from tunekit.errors import DamagedRecordError, NewerRecordError
from tunekit.records.codec import (
    MAX_FILE_BYTES,
    from_json,
    read_json,
    to_json,
    write_json,
    write_text,
)
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord


@given(trial_records(), st.none() | st.just(2))
def test_a_trial_survives_json(record: TrialRecord, indent: int | None):
    assert from_json(to_json(record, indent), TrialRecord) == record


@given(runs())
def test_a_run_survives_json(whole: Run):
    assert from_json(to_json(whole), Run) == whole
    assert from_json(to_json(whole).encode(), Run) == whole


def test_a_record_survives_the_disk_byte_for_byte(tmp_path: Path):
    path = tmp_path / "trial.json"
    write_json(path, trial_record())
    first = path.read_bytes()
    write_json(path, read_json(path, TrialRecord))
    assert path.read_bytes() == first
    assert first.startswith(b'{\n  "schema_version": 1,')


@pytest.mark.parametrize("version", [2, 3, 10**30])
def test_a_newer_file_is_refused_with_the_remedy(version: int):
    payload = json.loads(to_json(run())) | {"schema_version": version, "a_field_of_tomorrow": 1}
    with pytest.raises(NewerRecordError, match=rf"run\.json has schema_version {version}.*upgrade tunekit"):
        from_json(json.dumps(payload), Run, source="run.json")


@pytest.mark.parametrize("version", [0, -1, "1", None, [], 1.5])
def test_a_version_that_never_was_is_damage(version: object):
    payload = json.loads(to_json(run())) | {"schema_version": version}
    with pytest.raises(DamagedRecordError, match="schema_version"):
        from_json(json.dumps(payload), Run)


@pytest.mark.parametrize("text", ["null", "[]", "1", '"run"', "true", "{}", "[[[[]]]]"])
def test_json_of_another_kind_is_damaged(text: str):
    with pytest.raises(DamagedRecordError, match="the text is not a Run"):
        from_json(text, Run)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("number", -1),
        ("role", "rehearsal"),
        ("duration_s", -0.1),
        ("measurement", {"loop": 1}),
        ("surprise", 1),
    ],
)
def test_the_damaged_field_is_named(field: str, value: object):
    payload = json.loads(to_json(trial_record())) | {field: value}
    with pytest.raises(DamagedRecordError, match=rf"trial\.json is not a TrialRecord: {field}"):
        from_json(json.dumps(payload), TrialRecord, source="trial.json")


def test_a_damaged_field_deep_inside_is_named_by_its_path():
    payload = json.loads(to_json(run()))
    payload["trials"][1]["measurement"]["loop"]["steady_batches"] = 0
    with pytest.raises(DamagedRecordError, match=r"trials\.1\.measurement\.loop\.steady_batches"):
        from_json(json.dumps(payload), Run)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_beyond_counting_are_refused(number: str):
    text = to_json(trial_record()).replace('"duration_s": 20.0', f'"duration_s": {number}')
    assert number in text
    with pytest.raises(DamagedRecordError, match="duration_s"):
        from_json(text, TrialRecord)


def test_a_file_too_large_to_be_a_record_is_not_read(tmp_path: Path):
    path = tmp_path / "run.json"
    with path.open("wb") as stream:
        stream.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(DamagedRecordError, match=rf"run\.json has {MAX_FILE_BYTES + 1:,} bytes"):
        read_json(path, Run)


def test_a_write_that_fails_leaves_the_old_file_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "run.json"
    write_text(path, "old")

    def disk_full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", disk_full)
    with pytest.raises(OSError, match="No space left"):
        write_text(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_is_readable_by_others(tmp_path: Path):
    write_text(tmp_path / "run.json", "text")
    assert (tmp_path / "run.json").stat().st_mode & 0o777 == 0o644


def test_a_trial_has_exactly_one_outcome():
    with pytest.raises(ValidationError, match="exactly one of a measurement"):
        trial_record(overrides={"failure": failure()})
    with pytest.raises(ValidationError, match="exactly one of a measurement"):
        trial_record(overrides={"measurement": None})


@pytest.mark.parametrize(
    ("knobs", "words"),
    [
        ({"num_workers": 0, "prefetch_factor": 2}, "prefetch_factor must be null with num_workers 0, got 2"),
        (
            {"num_workers": 0, "persistent_workers": True},
            "persistent_workers must be false with num_workers 0",
        ),
        (
            {"num_workers": 3, "prefetch_factor": None},
            "prefetch_factor must be at least 1 with num_workers 3, got null",
        ),
        ({"batch_size": 0}, "greater than 0"),
        ({"precision": "fp7"}, "'fp32', 'tf32', 'bf16' or 'fp16'"),
        ({"learning_rate": 0.1}, "learning_rate"),
    ],
)
def test_illegal_configs_are_refused_with_what_would_be_legal(knobs: dict[str, object], words: str):
    with pytest.raises(ValidationError) as caught:
        config(**knobs)
    assert words in str(caught.value)
