"""Measures what one read of a zarr array costs: files, chunks, bytes, and samples/s cold and warm."""

import itertools
import math
import os
import random
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from tunekit.errors import UsageError
from tunekit.machine.storage.data_files import walk
from tunekit.machine.storage.read_probe import evict, fetched_bytes
from tunekit.records.data_layout import ArrayAccess, Rates
from tunekit.units import GIB, KIB, bytes_text

MARKERS = ("zarr.json", ".zgroup", ".zarray", ".zattrs")
"""Files with the metadata of a zarr group or array."""
ZarrArray = zarr.Array[Any]
_MAX_DECODED_BYTES = GIB
"""Samples that decode more are not timed: one read could take the whole budget."""
_MIN_CODEC_BYTES = 64 * KIB
"""Reads that decode less don't show the codec's rate: zarr itself takes most of their time."""
_MAX_ROUND = 64
"""Reads between two evictions."""
_COLD_SHARE = 0.5
"""Reads are cold if at least this share of their bytes came from storage; chunks vary in size."""
_INDEX_ENTRY_BYTES, _INDEX_CHECKSUM_BYTES = 16, 4
_RAM_READS = 5_000
_SETTINGS = ("cname", "level", "clevel", "shuffle")
_NOT_SHOWN = ("", "noshuffle", None)


def is_store(path: Path) -> bool:
    """Return whether a folder is a zarr group or array."""
    return any((path / name).is_file() for name in MARKERS)


def opened(path: Path) -> ZarrArray | zarr.Group:
    """Open a zarr store for reading.

    Raises:
        UsageError: zarr can't read it.
    """
    try:
        return zarr.open(path, mode="r")
    except Exception as error:
        raise UsageError(f"zarr can't open {str(path)!r}: {error}; give a folder that zarr reads") from error


def arrays_of(store: ZarrArray | zarr.Group) -> dict[str, ZarrArray]:
    """Return the arrays of a store by their paths, sorted; a store that is one array has the path ""."""
    return {path: one for path, one in _members(store) if isinstance(one, zarr.Array)}


def groups_of(store: ZarrArray | zarr.Group) -> dict[str, zarr.Group]:
    """Return the groups of a store by their paths, sorted; the store itself has the path ""."""
    return {path: one for path, one in _members(store) if isinstance(one, zarr.Group)}


def _members(store: ZarrArray | zarr.Group) -> list[tuple[str, ZarrArray | zarr.Group]]:
    if isinstance(store, zarr.Array):
        return [("", store)]
    with warnings.catch_warnings(action="ignore"):  # about files that belong to no array
        return [("", store), *sorted(store.members(max_depth=None))]


def facts_of(array: ZarrArray, folder: Path, path: str, deadline_s: float) -> ArrayAccess:
    """Return an array's layout and what a read of a sample costs, without rates.

    Args:
        array: the array.
        folder: its own folder.
        path: its path within the store.
        deadline_s: when to stop counting its files, in seconds of the monotonic clock; their total size is
            then estimated from those counted.
    """
    shape, chunks, shards = array.shape, array.chunks, array.shards
    unit = shards or chunks
    found = walk(os.fsencode(folder), deadline_s, time.monotonic)
    metadata = [file.stat().st_size for name in MARKERS if (file := folder / name).is_file()]
    files, stored = found.count - len(metadata), max(0, found.total_bytes - sum(metadata))
    planned = math.prod(_ceilings(shape, unit))
    if not found.is_complete and files > 0:
        stored = round(stored / files * planned)
    per_sample = math.prod(_ceilings(shape[1:], chunks[1:])) if array.size and shape else 0
    chunks_stored = math.prod(_ceilings(shape, chunks)) or 1
    indexes = 0
    if shards:
        indexes = _INDEX_CHECKSUM_BYTES + _INDEX_ENTRY_BYTES * math.prod(_ceilings(shards, chunks))
    chunk_bytes = max(0, stored - planned * indexes) / chunks_stored
    sample_items = math.prod(shape[1:])
    amplification = per_sample * math.prod(chunks) / sample_items if per_sample else None
    size = array.dtype.itemsize
    return ArrayAccess(
        path=path,
        shape=shape,
        dtype=str(array.dtype),
        zarr_format=array.metadata.zarr_format,
        chunks=chunks,
        shards=shards,
        codecs=tuple(map(_codec_text, (*array.filters, *array.compressors))),
        files=planned,
        stored_bytes=stored,
        decoded_bytes=array.nbytes,
        compression_ratio=array.nbytes / stored if stored and array.nbytes else None,
        sample_bytes=sample_items * size if shape else 0,
        chunks_per_sample=per_sample,
        read_bytes_per_sample=chunk_bytes * per_sample + indexes * math.prod(_ceilings(shape[1:], unit[1:])),
        decoded_bytes_per_sample=per_sample * math.prod(chunks) * size,
        read_amplification=amplification,
    )


def _ceilings(sizes: Iterable[int], parts: Iterable[int]) -> tuple[int, ...]:
    return tuple(-(-size // part) for size, part in zip(sizes, parts, strict=True))


def _codec_text(codec: Any) -> str:
    if hasattr(codec, "to_dict"):
        described = codec.to_dict()
        name, settings = str(described["name"]), described.get("configuration", {})
    else:
        settings = codec.get_config()
        name = str(settings["id"])
    known = [f"{key}={settings[key]}" for key in _SETTINGS if settings.get(key) not in _NOT_SHOWN]
    return f"{name}({', '.join(known)})" if known else name


# --- rates -----------------------------------------------------------------------------------


@dataclass
class _Timed:
    """Totals over timed reads."""

    samples: int = 0
    decoded_bytes: int = 0
    cold_s: float = 0.0
    warm_s: float = 0.0
    fetched_bytes: int = 0
    expected_bytes: float = 0.0
    block: Any = None
    """The last block that was read."""

    @property
    def is_cold(self) -> bool | None:
        if not self.fetched_bytes:
            return None
        return self.fetched_bytes >= _COLD_SHARE * self.expected_bytes


Selection = tuple[int | slice, int]
"""An index or slice of the first axis, and the row of files that holds it."""


def rates_of(array: ZarrArray, facts: ArrayAccess, root: Path, window_s: float) -> Rates:
    """Return how fast samples are read at random, and in rows of chunks, each cold and warm.

    Before cold reads, their files are evicted from the page cache. In random order, each file is read once
    between evictions, so that readahead serves no later read, as in an epoch larger than RAM.

    Args:
        array: the array; it must have samples.
        facts: what a read costs.
        root: the folder of the store.
        window_s: seconds for all reads.
    """
    is_decoding = facts.decoded_bytes_per_sample >= _MIN_CODEC_BYTES
    rows = _timed_reads(array, facts, root, window_s / 3, _chunk_rounds(array, random.Random(0)))
    return random_rates(array, facts, root, window_s * 2 / 3, seed=0, has_warm=True).changed(
        chunks_cold=_per_s(rows.samples, rows.cold_s),
        chunks_warm=_per_s(rows.samples, rows.warm_s),
        in_ram=_ram_rate(rows.block, random.Random(0)),
        decode_mb_per_s=_per_s(rows.decoded_bytes / 1e6, rows.warm_s) if is_decoding else None,
    )


def random_rates(
    array: ZarrArray, facts: ArrayAccess, root: Path, window_s: float, seed: int, has_warm: bool = False
) -> Rates:
    """Return the rates in random order, the warm one only if asked for."""
    timed = _timed_reads(array, facts, root, window_s, _random_rounds(array, random.Random(seed)), has_warm)
    return Rates(
        random_cold=_per_s(timed.samples, timed.cold_s),
        random_warm=_per_s(timed.samples, timed.warm_s),
        is_cold=timed.is_cold,
    )


def why_not_timed(facts: ArrayAccess) -> str | None:
    """Return why an array's reads can't be timed; None if they can."""
    if not facts.chunks_per_sample:
        return "it has no samples"
    if facts.decoded_bytes_per_sample > _MAX_DECODED_BYTES:
        return f"one sample decodes {bytes_text(facts.decoded_bytes_per_sample)}"
    return None


def _timed_reads(
    array: ZarrArray,
    facts: ArrayAccess,
    root: Path,
    window_s: float,
    rounds: Iterator[list[Selection]],
    has_warm: bool = True,
) -> _Timed:
    """Read in rounds until the window ends, each round cold and then, if asked for, warm."""
    timed, end_s = _Timed(), time.monotonic() + window_s
    timed.block = array[next(rounds)[0][0]]  # the first read of a process sets up zarr's threads
    while not timed.samples or time.monotonic() < end_s:
        planned, done = next(rounds), 0
        for row in {row for _, row in planned}:
            for file in _files_of(array, root, row):
                evict(file)
        before = fetched_bytes()
        for what, _ in planned:
            timed.cold_s += _time_of(lambda: array[what])  # noqa: B023 - called at once
            timed.samples += 1 if isinstance(what, int) else what.stop - what.start
            done += 1
            if timed.cold_s >= window_s / (1 + has_warm):
                break
        timed.fetched_bytes += fetched_bytes() - before
        for what, _ in planned[: done * has_warm]:
            start_s = time.perf_counter()
            timed.block = array[what]
            timed.warm_s += time.perf_counter() - start_s
        timed.decoded_bytes += done * facts.decoded_bytes_per_sample
        timed.expected_bytes += done * facts.read_bytes_per_sample
    return timed


def _files_of(array: ZarrArray, root: Path, row: int) -> Iterator[bytes]:
    """Yield the files that hold a row of an array's shards, or of its chunks without shards."""
    grid = _ceilings(array.shape, array.shards or array.chunks)
    for rest in itertools.product(*map(range, grid[1:])):
        yield os.fsencode(root / array.path / array.metadata.encode_chunk_key((row, *rest)))


def _random_rounds(array: ZarrArray, chance: random.Random) -> Iterator[list[Selection]]:
    """Yield endless rounds of random samples, each sample from a different row of files."""
    per_file, length = (array.shards or array.chunks)[0], array.shape[0]
    rows = range(-(-length // per_file))
    while True:
        chosen = chance.sample(rows, min(len(rows), _MAX_ROUND))
        yield [(chance.randrange(row * per_file, min(length, (row + 1) * per_file)), row) for row in chosen]


def _chunk_rounds(array: ZarrArray, chance: random.Random) -> Iterator[list[Selection]]:
    """Yield endless rounds of consecutive rows of chunks."""
    per_file, per_chunk, length = (array.shards or array.chunks)[0], array.chunks[0], array.shape[0]
    starts = range(0, length, per_chunk)
    while True:
        first = chance.randrange(max(1, len(starts) - _MAX_ROUND + 1))
        chosen = starts[first : first + _MAX_ROUND]
        yield [(slice(start, min(length, start + per_chunk)), start // per_file) for start in chosen]


def _ram_rate(block: Any, chance: random.Random) -> float | None:
    samples = np.asarray(block)
    places = [chance.randrange(len(samples)) for _ in range(_RAM_READS)]
    spent_s = _time_of(lambda: [np.array(samples[place]) for place in places])
    return _per_s(len(places), spent_s)


def _time_of(work: Callable[[], object]) -> float:
    start_s = time.perf_counter()
    work()
    return time.perf_counter() - start_s


def _per_s(count: float, spent_s: float) -> float | None:
    return count / spent_s if count and spent_s > 0 else None
