"""The keeper: how a command ended, and the beginning and the end of whatever it wrote, in bounded room."""

import json
import mmap
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tunekit.trial import keeper
from tunekit.trial.keeper import NcclSegments, OutputLog

MAPS_A_SEGMENT = """
import mmap, signal, sys
with open(sys.argv[1], "w+b") as segment:
    segment.truncate(4096)
    shared = mmap.mmap(segment.fileno(), 4096)
open(sys.argv[2], "w").close()
signal.pause()
"""
Write = Callable[[bytes], None]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[tuple[OutputLog, Write, Path]]:
    """A log with a head of 10 bytes and a tail of 20, how to write to it, and its file."""
    reader, writer = os.pipe()
    kept = OutputLog(str(tmp_path / "output.log"), reader, head_bytes=10, tail_bytes=20)

    def write(data: bytes) -> None:
        os.write(writer, data)
        assert kept.take()

    yield kept, write, tmp_path / "output.log"
    if not kept.closed:
        os.close(writer)
    os.close(reader)


def test_the_beginning_and_the_end_of_much_output_are_kept(log: tuple[OutputLog, Write, Path]) -> None:
    _, write, path = log
    for number in range(1000):
        write(b"%09d\n" % number)
        assert path.stat().st_size <= 10 + 2 * 20 + 50
    text = path.read_bytes()
    assert text.startswith(b"000000000\n\n[tunekit left out ")
    assert text.endswith(b"000000998\n000000999\n")


def test_a_full_disk_does_not_stop_the_draining(
    log: tuple[OutputLog, Write, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, write, path = log

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    write(b"lost")
    monkeypatch.undo()
    write(b"kept")
    assert path.read_bytes() == b"kept"


def test_a_command_that_ends_at_once_is_not_waited_for(tmp_path: Path) -> None:
    for attempt in range(10):  # it may end before the keeper has so much as looked at it
        words = [str(tmp_path / "output.log"), str(tmp_path / "scratch"), "--", "false"]
        command = [sys.executable, "-I", "-S", keeper.__file__, *words]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.wait(timeout=30) == 0, attempt
            told = {"returncode": 1, "error": None, "left": 0}
            assert json.loads(process.stdout.read()) == told


@pytest.fixture
def segments() -> Iterator[tuple[Path, Path]]:
    """Two of NCCL's names in /dev/shm: one that nobody has mapped is there, the other is free."""
    others, own = (Path(f"/dev/shm/nccl-{os.getpid()}-{whose}") for whose in ("others", "own"))
    others.write_bytes(bytes(4096))
    yield others, own
    others.unlink(missing_ok=True)
    own.unlink(missing_ok=True)


def test_what_killed_ranks_shared_by_nccl_is_removed_and_nobody_elses(
    segments: tuple[Path, Path], tmp_path: Path
) -> None:
    others, own = segments
    ready = tmp_path / "ready"
    words = [str(tmp_path / "output.log"), str(tmp_path / "scratch"), "--"]
    rank = [sys.executable, "-c", MAPS_A_SEGMENT, str(own), str(ready)]
    command = [sys.executable, "-I", "-S", keeper.__file__, *words, *rank]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        while not ready.exists():
            assert process.poll() is None
        assert own.exists()
        process.communicate(timeout=30)
    assert (own.exists(), others.exists()) == (False, True)


@contextmanager
def seen_mapped(own: Path) -> Iterator[NcclSegments]:
    """Have a segment seen while this process has it mapped, which lasts as long as this."""
    known = NcclSegments()
    with own.open("w+b") as file:
        file.truncate(4096)
        with mmap.mmap(file.fileno(), 4096):
            known.look(lambda: [os.getpid()])
            yield known


def test_a_segment_is_known_though_its_rank_ended_before_the_others(segments: tuple[Path, Path]) -> None:
    others, own = segments
    with seen_mapped(own) as known:
        pass
    known.look(lambda: [os.getpid()], at_once=True)
    known.remove()
    assert (own.exists(), others.exists()) == (False, True)


def test_a_segment_of_the_same_name_that_came_later_is_somebody_elses(segments: tuple[Path, Path]) -> None:
    others, own = segments
    with seen_mapped(own) as known:
        own.unlink()
        own.write_bytes(bytes(4096))
    known.remove()
    assert (own.exists(), others.exists()) == (True, True)
