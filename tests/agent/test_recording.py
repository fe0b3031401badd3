"""The recorder in the training process: how it divides time, and a file that stays bounded."""

import json
import shutil
import subprocess
import types
from itertools import pairwise
from pathlib import Path

import pytest
from _tunekit_agent import recording
from _tunekit_agent.loader.info import LoaderInfo
from _tunekit_agent.process import Owner, Ranks
from _tunekit_agent.recording import MAX_INTERVALS, BoundedFile, Recorder

from tunekit.agent import SITE_FOLDER
from tunekit.records.recording import HostInterval, LoopInterval
from tunekit.trial.recording import _PEAKS, _SUMS

ROW = {
    **dict.fromkeys(recording._SUMS, 1),
    "at_s": 1.0,
    "duration_s": 2.0,
    "epoch": 1,
    "epoch_batch": 1,
    "epoch_batches": 9,
    "world_size": 1,
}


class Training:
    """A loop on a scripted clock, recorded."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.now_s, self.folder = 1.0, folder
        clock = types.SimpleNamespace(perf_counter=lambda: self.now_s, time=lambda: self.now_s)
        patch.setattr(recording, "time", clock)
        self.recorder = Recorder(str(folder), Ranks(Owner(), lambda: None), None)
        self.optimizer = types.FunctionType(compile("0", "", "eval"), {})
        self.loader, self.validation = LoaderInfo((), 0), LoaderInfo((), 1)
        self.loader.loader = self.validation.loader = lambda: None
        self.step()

    def fetch(self, info: LoaderInfo, wait_s: float = 0.0) -> None:
        self.now_s += wait_s
        info.epoch_fetches += 1
        self.recorder.fetched(info, range(4), wait_s, 0.0)

    def step(self, seconds: float = 0.01, wait_s: float = 0.0) -> None:
        self.fetch(self.loader, wait_s)
        self.now_s += seconds
        self.recorder.stepped(self.optimizer)

    def sums(self) -> LoopInterval:
        self.recorder._ended()
        (path,) = self.folder.glob("loop-*.jsonl")
        rows = [LoopInterval.model_validate_json(line) for line in path.read_text().splitlines()]
        return rows[-1].changed(**{name: sum(getattr(one, name) for one in rows) for name in recording._SUMS})


@pytest.fixture
def training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Training:
    return Training(tmp_path, monkeypatch)


def test_time_is_divided_into_what_it_went_to(training: Training) -> None:
    for _ in range(10):
        training.step(wait_s=0.02)
    training.recorder._saved = True
    training.step(0.51)
    training.fetch(training.validation)
    training.fetch(training.validation)
    training.recorder.epoch_ended(training.validation, training.now_s)
    training.step(1.01)
    training.step(3.01)
    seen = training.sums()
    assert (seen.steps, seen.batches, seen.checkpoints) == (14, 13, 1)
    parts = (seen.step_s, seen.wait_s, seen.checkpoint_s, seen.validation_s, seen.other_s)
    assert parts == pytest.approx((0.13, 0.2, 0.5, 1.0, 3.0))
    assert seen.duration_s == pytest.approx(sum(parts))


def test_epochs_are_counted_by_the_training_loader(training: Training) -> None:
    for _ in range(2):
        training.step()
    training.fetch(training.loader)  # and then it validates, before it trains on that
    for _ in range(9):
        training.fetch(training.validation)
    training.recorder.epoch_ended(training.validation, training.now_s)
    training.recorder.stepped(training.optimizer)
    training.loader.epoch_fetches = 0
    training.recorder.epoch_started(training.loader, training.now_s)
    training.now_s += 0.5  # its workers start
    training.step()
    seen = training.sums()
    assert (seen.epoch, seen.epoch_batch, seen.batches) == (2, 1, 4)
    assert seen.wait_s == pytest.approx(0.5)


def test_another_optimizer_and_a_fault_leave_the_script_alone(training: Training) -> None:
    training.recorder.stepped(lambda: None)
    training.step()
    training.recorder._log = types.SimpleNamespace(emit=lambda *event, **facts: None)
    training.recorder.fetched(training.loader, range(4), "no number", 0.0)  # type: ignore[arg-type]
    training.step()
    assert training.recorder.has_failed
    assert training.sums().steps == 1


def test_a_full_file_is_halved_and_keeps_its_sums(tmp_path: Path) -> None:
    path = tmp_path / "loop.jsonl"
    file, count = BoundedFile(str(path), recording._SUMS), 3 * MAX_INTERVALS
    for at in range(count):
        file.append({**ROW, "at_s": 1.0 + 2 * at, "epoch_batch": at})
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert MAX_INTERVALS / 2 <= len(lines) < MAX_INTERVALS
    assert path.stat().st_size < 1 << 20
    assert sum(one["steps"] for one in lines) == count
    assert file.every_s > recording.INTERVAL_S
    assert all(one["at_s"] + one["duration_s"] == other["at_s"] for one, other in pairwise(lines))
    assert lines[-1]["epoch_batch"] == count - 1
    path.unlink()
    path.mkdir()
    file.append(ROW)  # can't be written, and does not raise


def test_neighbours_of_the_machine_are_merged_alike() -> None:
    one = HostInterval(at_s=1, duration_s=2, cpu_s=1, others_cpu_s=0, read_bytes=5, pss_bytes=7)
    other = one.changed(at_s=3, pss_bytes=6, vram_bytes=9)
    both = BoundedFile("", _SUMS, _PEAKS)._merged(one.model_dump(), other.model_dump())
    assert set(both) == {"at_s", *_SUMS, *_PEAKS}
    assert (both["at_s"], both["duration_s"], both["cpu_s"]) == (1, 4, 2)
    assert (both["pss_bytes"], both["vram_bytes"], both["gpu_busy_s"]) == (7, 9, None)


@pytest.mark.parametrize("version", ["3.9", "3.10", "3.13"])
def test_older_pythons_take_it(version: str, tmp_path: Path) -> None:
    python = shutil.which(f"python{version}")
    code = f"""
import sys; sys.path.insert(0, {str(SITE_FOLDER)!r})
from _tunekit_agent.recording import *
file = BoundedFile({str(tmp_path / "loop")!r}, {recording._SUMS!r})
for at in range(MAX_INTERVALS):
    file.append({ROW!r})
print(len(open({str(tmp_path / "loop")!r}).readlines()))
"""
    if python is None or subprocess.run([python, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"no Python {version}")
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == MAX_INTERVALS // 2
