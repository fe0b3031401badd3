"""A Python that has loaded torch without the agent is found, and nothing else is."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tunekit.trial.processes import AgentlessTorch

IMAGE = 140_720_000_000_000


def process(proc: Path, pid: int, image: int, maps: str = "", command: str = "python\0train.py\0") -> None:
    """Let the kernel tell of a process."""
    folder = proc / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    fields = ["S", *["0"] * 24, str(image), *["0"] * 20]
    (folder / "stat").write_text(f"{pid} (a) odd) name) {' '.join(fields)}\n")
    (folder / "maps").write_text(maps)
    (folder / "cmdline").write_text(command)


TORCH = "7f00-7f01 r-xp 0 00:00 1 /env/lib/torch/lib/libtorch_python.so\n"


def test_torch_without_an_agent_is_named_once_it_was_seen_twice(tmp_path: Path) -> None:
    process(tmp_path, 7, IMAGE, TORCH)
    looking = AgentlessTorch(lambda: [7], tmp_path)
    assert looking.find(set()) is None
    assert looking.find(set()) == "python train.py (process 7)"


def test_a_process_with_the_agent_and_its_forked_children_are_left_alone(tmp_path: Path) -> None:
    process(tmp_path, 7, IMAGE, TORCH)
    process(tmp_path, 8, IMAGE, TORCH)
    looking = AgentlessTorch(lambda: [7, 8], tmp_path)
    assert [looking.find({IMAGE}) for _ in range(3)] == [None] * 3


def test_what_a_process_executes_anew_is_another_one(tmp_path: Path) -> None:
    looking = AgentlessTorch(lambda: [7], tmp_path)
    process(tmp_path, 7, IMAGE, TORCH)
    looking.find({IMAGE})
    process(tmp_path, 7, IMAGE + 4096, TORCH)
    assert looking.find({IMAGE}) is None
    assert looking.find({IMAGE}) is not None


@pytest.fixture
def with_torch() -> Iterator[int]:
    """A real Python that has loaded torch, and no agent."""
    script = "import torch, sys; print('loaded', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"loaded\n"
        yield started.pid
        assert started.stdin is not None
        started.stdin.close()


def test_a_real_process_is_found(with_torch: int) -> None:
    looking = AgentlessTorch(lambda: [with_torch])
    looking.find(set())
    found = looking.find({IMAGE})
    assert found is not None
    assert f"(process {with_torch})" in found
