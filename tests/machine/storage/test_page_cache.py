import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tunekit.machine.storage.read_probe import Residency, drop, residency
from tunekit.units import MIB

PAGE = os.sysconf("SC_PAGE_SIZE")


@pytest.fixture
def written(tmp_path: Path) -> Iterator[int]:
    """A file of 4 MiB that lies on disk and in the page cache."""
    path = tmp_path / "data.bin"
    path.write_bytes(os.urandom(4 * MIB))
    descriptor = os.open(path, os.O_RDWR)
    os.fsync(descriptor)
    os.pread(descriptor, 4 * MIB, 0)
    yield descriptor
    os.close(descriptor)


def can_drop(descriptor: int) -> bool:
    drop(descriptor, 0, 0)
    left = residency(descriptor, 0, 4 * MIB)
    os.pread(descriptor, 4 * MIB, 0)
    return left is not None and left.resident == 0


def read(descriptor: int, start: int, length: int) -> Residency | None:
    """Read a part of a file and ask for it, again where the kernel reclaimed a page in between."""
    found = None
    for _ in range(20):
        os.pread(descriptor, length, start)
        found = residency(descriptor, start, length)
        if found is None or found.resident == found.pages:
            break
    return found


def test_what_was_read_is_resident_until_it_is_dropped(written: int) -> None:
    if not can_drop(written):
        pytest.skip("the file system of the temporary folder keeps its pages (tmpfs, overlay on tmpfs)")
    pages = 4 * MIB // PAGE
    assert read(written, 0, 4 * MIB) == Residency(pages, pages)
    drop(written, 0, 4 * MIB)
    assert residency(written, 0, 4 * MIB) == Residency(pages, 0)
    assert read(written, 0, 1) == Residency(1, 1)


def test_a_file_that_can_not_be_mapped_is_not_told(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    try:
        assert residency(descriptor, 0, PAGE) is None
        drop(descriptor, 0, PAGE)
    finally:
        os.close(descriptor)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who does not own the file")
def test_somebody_elses_file_is_not_told(tmp_path: Path) -> None:
    path = tmp_path / "data.bin"
    path.write_bytes(b"x" * PAGE)
    path.chmod(0o644)
    program = (
        "import os, sys; from tunekit.machine.storage.read_probe import residency; "
        "descriptor = os.open(sys.argv[1], os.O_RDONLY); os.setuid(65533); "
        "print(residency(descriptor, 0, 4096))"
    )
    command = [sys.executable, "-c", program, str(path)]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "None"
