"""Whether parts of a file are in the kernel's page cache, and putting them out of it."""

import ctypes
import mmap
import os
from functools import cache
from typing import Any, NamedTuple

_CAP_FOWNER = 3
_FAILED = ctypes.c_void_p(-1).value


class Residency(NamedTuple):
    """How many pages of a part of a file are in the page cache."""

    pages: int
    resident: int


def residency(descriptor: int, start: int, length: int) -> Residency | None:
    """Return how much of a part of a file is in the page cache; None where the kernel does not tell.

    The kernel calls every page resident to a process that neither owns the file nor may write it
    (mincore(2), since Linux 5.2), so such a process is told nothing.
    """
    if length <= 0 or not _is_told(descriptor):
        return None
    before = start % mmap.PAGESIZE
    size = length + before
    pages = -(-size // mmap.PAGESIZE)
    try:
        library = _library()
        address = library.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, start - before)
    except (OSError, AttributeError):
        return None
    if address in (None, _FAILED):
        return None
    try:
        vector = (ctypes.c_ubyte * pages)()
        if library.mincore(address, size, vector) != 0:
            return None
    finally:
        library.munmap(address, size)
    return Residency(pages, sum(byte & 1 for byte in vector))


def drop(descriptor: int, start: int, length: int) -> None:
    """Ask the kernel to forget a part of a file: clean pages go, dirty and mapped ones stay."""
    _advise(descriptor, start, length, "POSIX_FADV_DONTNEED")


def expect_random_reads(descriptor: int) -> None:
    """Ask the kernel not to read ahead, which would bring in what is to be read later."""
    _advise(descriptor, 0, 0, "POSIX_FADV_RANDOM")


def _advise(descriptor: int, start: int, length: int, advice: str) -> None:
    try:
        os.posix_fadvise(descriptor, start, length, getattr(os, advice))
    except (OSError, AttributeError):
        return  # advice is no promise: whether it helped is seen by `residency`


def _is_told(descriptor: int) -> bool:
    try:
        owner = os.fstat(descriptor).st_uid
        return owner == os.geteuid() or _has_capability() or os.access(f"/proc/self/fd/{descriptor}", os.W_OK)
    except OSError:
        return False


@cache
def _has_capability() -> bool:
    try:
        with open("/proc/self/status", encoding="utf-8", errors="replace") as status:  # noqa: PTH123
            effective = next((line.split()[1] for line in status if line.startswith("CapEff:")), "0")
        return bool(int(effective, 16) >> _CAP_FOWNER & 1)
    except (OSError, ValueError, IndexError):
        return False


@cache
def _library() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (
        *(ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int),
        ctypes.c_long,
    )
    library.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
    library.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
    return library
