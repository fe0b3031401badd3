"""A run on disk: owned by one search at a time, whole after kill -9, clear when damaged."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from build_records import baseline_record, run, trial_record

from tunekit.errors import DamagedRecordError, RunFolderError, RunFolderLockedError
from tunekit.session.folder import RUN_FILE, RunFolder, load_run

OWNER = """
import sys
from pathlib import Path
from tunekit.session.folder import RunFolder

with RunFolder(Path(sys.argv[1])):
    print("owned", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "reports" / "train"


def start_owner(folder: Path) -> subprocess.Popen[str]:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    assert owner.stdout.readline() == "owned\n"
    return owner


def test_another_process_is_refused_and_told_whose_it_is(folder: Path):
    with start_owner(folder) as owner:
        with pytest.raises(
            RunFolderLockedError, match=rf"in use by a search \(process {owner.pid}\)"
        ) as caught:
            RunFolder(folder).__enter__()
        assert "--out" in str(caught.value)
        assert str(folder) in str(caught.value)
        owner.communicate("")
    with RunFolder(folder):
        pass


def test_kill_9_of_the_owner_frees_the_folder(folder: Path):
    with start_owner(folder) as owner:
        owner.send_signal(signal.SIGKILL)
        owner.communicate()
    with RunFolder(folder) as owned, pytest.raises(RunFolderLockedError):
        RunFolder(owned.path).__enter__()


def test_trials_are_kept_in_order_whatever_their_order_of_writing(folder: Path):
    records = [baseline_record(0), *(trial_record(number) for number in (1, 2, 10, 9999, 10000))]
    with RunFolder(folder) as owned:
        for record in reversed(records):
            owned.save_trial(record)
    with RunFolder(folder) as owned:
        assert list(owned.load_trials()) == records


def test_a_trial_that_was_cut_off_is_cleared_away(folder: Path):
    with RunFolder(folder) as owned:
        owned.save_trial(baseline_record(0))
        cut = owned.trials_folder / "0001"
        cut.mkdir()
        (cut / "request.json").write_text("{}")
        notes = owned.trials_folder / "2026"
        notes.mkdir()
        (cut / ".trial.json-abc").write_text("{")
        assert [record.number for record in owned.load_trials()] == [0]
        assert [cut.exists(), notes.exists()] == [False, True]


@pytest.mark.parametrize("text", ["{", '{"schema_version": 1, "number": 1}'])
def test_a_damaged_trial_is_named_with_its_path(folder: Path, text: str):
    with RunFolder(folder) as owned:
        owned.save_trial(trial_record(1))
        (owned.trials_folder / "0001" / "trial.json").write_text(text)
        with pytest.raises(DamagedRecordError, match=r"trials/0001/trial\.json"):
            owned.load_trials()


@pytest.mark.parametrize("name", ["balanced.yaml", "trials/0003/trial.json", "telemetry/zarr.json"])
def test_a_file_that_is_no_run_asks_for_its_folder(folder: Path, name: str):
    with RunFolder(folder) as owned:
        owned.save(run())
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{}" if name.endswith("json") else "batch_size: 64\n")
    with pytest.raises(RunFolderError) as caught:
        load_run(file)
    assert str(caught.value) == f"{file} is no run; give the folder: {folder}"


def test_a_damaged_run_is_named_and_its_trials_pointed_at(folder: Path):
    with RunFolder(folder) as owned:
        owned.save(run())
    payload = json.loads((folder / RUN_FILE).read_text())
    payload["options"]["budget_s"] = -1
    (folder / RUN_FILE).write_text(json.dumps(payload))
    with pytest.raises(DamagedRecordError, match=r"run\.json is not a Run: options\.budget_s") as caught:
        load_run(folder)
    assert f"its trials are in {folder}/trials" in str(caught.value)
