"""Stores of the built-in workloads: the same each time, made once, complete after a kill."""

import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from tunekit.workloads import WORKLOADS, stores

SMALL = {
    "images": {"samples": 40, "image_size": 28},
    "ppg": {"samples": 20_000},
    "spectrograms": {"samples": 12},
    "text": {"samples": 12_000, "max_length": 128},
    "records": {"samples": 10_000},
}
"""Sizes of two parts or three."""


def contents(name: str, **sizes: int) -> Any:
    return import_module(f"tunekit.workloads.{name}_store").Contents(**(sizes or SMALL[name]))


def arrays_in(folder: Path) -> dict[str, np.ndarray]:
    return {name: array[:] for name, array in zarr.open_group(folder, mode="r").arrays()}


def assert_equal(folder: Path, other: Path) -> None:
    ones, others = arrays_in(folder), arrays_in(other)
    assert ones.keys() == others.keys() and ones
    for name, array in ones.items():
        np.testing.assert_array_equal(array, others[name])


def make(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tunekit", "workloads", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


@pytest.mark.parametrize("name", WORKLOADS)
def test_data_made_twice_is_equal(name: str, tmp_path: Path) -> None:
    first, second = (stores.store_folder(contents(name), tmp_path / place) for place in ("one", "two"))
    assert contents(name).part_rows < contents(name).rows
    assert_equal(first, second)
    assert all(array.any() for array in arrays_in(first).values())


def test_a_killed_process_loses_no_finished_part_and_the_next_one_makes_the_same(tmp_path: Path) -> None:
    words = ("ppg", "--samples", "300000", "--data")
    maker = make(*words, str(tmp_path / "killed"))
    making = tmp_path / "killed" / ".300000-v1"
    written = making / stores.WRITTEN_PARTS
    end = time.monotonic() + 60
    while not (written.exists() and written.read_text().count("\n") > 2) and time.monotonic() < end:
        time.sleep(0.005)
    maker.send_signal(signal.SIGKILL)
    maker.communicate()
    assert maker.returncode == -signal.SIGKILL
    parts = [int(line) for line in written.read_text().splitlines(keepends=True) if line.endswith("\n")]
    with written.open("a") as lines:
        lines.write("8")  # of a line that the kill cut off
    chunks = {making / f"windows/c/{(start // 512)}/0" for start in parts}
    made_at = {chunk.relative_to(making): chunk.stat().st_mtime_ns for chunk in chunks}
    resumed, whole = make(*words, str(tmp_path / "killed")), make(*words, str(tmp_path / "whole"))
    assert [one.communicate(timeout=240)[0] and one.returncode for one in (resumed, whole)] == [0, 0]
    folder = tmp_path / "killed" / "300000-v1"
    assert {path.name for path in folder.parent.iterdir()} == {folder.name, f".{folder.name}.lock"}
    assert len(made_at) > 2
    assert {chunk: (folder / chunk).stat().st_mtime_ns for chunk in made_at} == made_at
    assert_equal(folder, tmp_path / "whole" / "300000-v1")


def test_two_processes_that_make_the_same_at_once_both_succeed(tmp_path: Path) -> None:
    makers = [make("ppg", "--samples", "60000", "--data", str(tmp_path)) for _ in range(2)]
    outputs = [maker.communicate(timeout=240)[0] for maker in makers]
    assert [maker.returncode for maker in makers] == [0, 0], outputs
    assert {path.name for path in tmp_path.iterdir()} == {".60000-v1.lock", "60000-v1"}


def test_a_failure_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    failing = contents("records")
    monkeypatch.setattr(failing, "write", full)
    with pytest.raises(OSError, match="No space left"):
        stores.store_folder(failing, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [".10000-v1.lock"]


def test_progress_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int]] = []
    monkeypatch.setattr(stores, "PROGRESS_EVERY_S", -1.0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})  # one part after the other
    stores.store_folder(contents("images"), tmp_path, lambda written, count: seen.append((written, count)))
    assert seen == [(16, 40), (32, 40), (40, 40)]
