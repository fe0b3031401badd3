"""Rewrites a zarr store in another layout, beside the old one: block by block, resumable, verified.

The new store is written as NEW.unfinished and renamed to NEW once every block was read back and compared, so
NEW is complete whenever it exists. A journal in NEW.unfinished lists each written block with the checksum of
the source's decoded bytes: after a kill, the next rewrite continues after the last of them.
"""

import fcntl
import hashlib
import itertools
import json
import math
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import zarr

from tunekit.errors import DamagedRecordError, TunekitError, UsageError
from tunekit.machine.storage.array_access import ZarrArray, arrays_of, groups_of, opened
from tunekit.machine.storage.layouts import create_like
from tunekit.records.codec import from_json, to_json
from tunekit.records.data_layout import Layout, Rewrite, RewritePlan
from tunekit.units import MIB, bytes_text

JOURNAL = "tunekit-rewrite.jsonl"
_BLOCK_BYTES = 32 * MIB
"""Largest decoded size of a block, unless a single shard is larger."""
_SPARE = 1.05
"""Required free space, as a multiple of the expected size."""

Progress = Callable[[str, int, int], None]
"""Called with "writing" or "verifying", the number of finished blocks and of all."""
Block = tuple[slice, ...]


def unfinished(new: Path) -> Path:
    """Return the folder in which a new store is written."""
    return new.with_name(new.name + ".unfinished")


def begun_plan(source: Path, new: Path) -> RewritePlan | None:
    """Return the plan of an interrupted rewrite of the source; None if there is none.

    Raises:
        UsageError: NEW exists or overlaps the source, or its unfinished folder is something else.
    """
    old, made = source.resolve(), new.resolve()
    if made.is_relative_to(old) or old.is_relative_to(made):
        raise UsageError(f"{str(new)!r} overlaps the source {str(source)!r}; name a folder beside it")
    if os.path.lexists(new):
        raise UsageError(f"{str(new)!r} exists already; name another folder, or remove it")
    folder = unfinished(new)
    if not os.path.lexists(folder):
        return None
    try:
        with (folder / JOURNAL).open() as journal:
            plan = from_json(journal.readline(), RewritePlan, str(folder / JOURNAL))
    except (OSError, ValueError, DamagedRecordError) as error:
        raise UsageError(
            f"{str(folder)!r} is not an unfinished rewrite ({error}); remove it, or name another folder"
        ) from error
    if plan.source_state != state_of(source) or plan.source != str(old):
        raise UsageError(
            f"{str(folder)!r} is a rewrite of another store, or of {plan.source!r} before it changed; "
            "remove it to start over"
        )
    return plan


def state_of(source: Path) -> str:
    """Return a digest of the names, sizes and times of a store's files: it differs after any change."""
    digest = hashlib.blake2b(digest_size=16)
    for folder, folders, files in os.walk(source, followlinks=True):
        folders.sort()
        for name in sorted(files):
            path = Path(folder, name)
            status = path.stat()
            place = os.fsencode(path.relative_to(source))
            digest.update(b"%b %d %d\n" % (place, status.st_size, status.st_mtime_ns))
    return digest.hexdigest()


def rewrite(
    source: Path, new: Path, layouts: Mapping[str, Layout], needs_bytes: int, progress: Progress
) -> Rewrite:
    """Write a store with other layouts of some arrays, verify it bit for bit, and return what was done.

    Args:
        source: the store; it is only read.
        new: the new store; it must not exist, but an unfinished one with the same layouts is resumed.
        layouts: new layouts by the path of their array; the others keep theirs.
        needs_bytes: expected size of the new store.
        progress: called after each block.

    Raises:
        UsageError: NEW can't be used, or is too large for its disk. TunekitError: the source changed
        during the rewrite, or a block or the metadata reads back differently.
    """
    begun = begun_plan(source, new)
    plan = RewritePlan(source=str(source.resolve()), source_state=state_of(source), layouts=dict(layouts))
    if begun is not None and begun != plan:
        raise UsageError(
            f"{str(unfinished(new))!r} was started with other layouts; leave out --array, --chunks, --shards "
            "and --codec to finish it, or remove it"
        )
    folder = unfinished(new)
    folder.mkdir(parents=True, exist_ok=True)
    with _journal(folder / JOURNAL) as journal:
        written = _written_blocks(journal, plan)
        if not written:
            _check_space(folder, needs_bytes)
            _create(opened(source), folder, layouts)
        old, made = arrays_of(opened(source)), arrays_of(zarr.open(folder, mode="r+"))
        blocks = [(path, block) for path in old for block in blocks_of(made[path])]
        resumed = len(written)
        for done, (path, block) in enumerate(blocks):
            progress("writing", done, len(blocks))
            if (key := _key(path, block)) in written:
                continue
            data = old[path][block]
            made[path][block] = data
            written[key] = checksum_of(data)
            _append(journal, json.dumps([key, written[key]]))
        total = _verified(opened(source), folder, blocks, written, progress)
        if state_of(source) != plan.source_state:
            raise TunekitError(
                f"{plan.source!r} changed while it was rewritten; remove {str(folder)!r} and start over"
            )
        folder.rename(new)
        (new / JOURNAL).unlink()
    return Rewrite(
        path=str(new),
        layouts=dict(layouts),
        arrays=len(old),
        blocks=len(blocks),
        resumed_blocks=resumed,
        stored_bytes=sum(path.stat().st_size for path in new.rglob("*") if path.is_file()),
        checksum=total,
    )


# --- the journal -----------------------------------------------------------------------------


@contextmanager
def _journal(path: Path) -> Iterator[IO[str]]:
    with path.open("a+") as journal:
        try:
            fcntl.flock(journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(f"another process is writing {str(path.parent)!r}; wait for it") from None
        yield journal


def _written_blocks(journal: IO[str], plan: RewritePlan) -> dict[str, str]:
    """Return the checksums of the written blocks, and start an empty journal with the plan."""
    journal.seek(0)
    whole = [line for line in journal if line.endswith("\n")]
    journal.truncate(sum(len(line.encode()) for line in whole))  # drops an incomplete last line
    if not whole:
        _append(journal, to_json(plan, indent=None))
    try:
        return dict(json.loads(line) for line in whole[1:])
    except ValueError as error:
        raise UsageError(f"{journal.name!r} is damaged ({error}); remove its folder to start over") from error


def _append(journal: IO[str], line: str) -> None:
    journal.write(line + "\n")
    journal.flush()


def _key(path: str, block: Block) -> str:
    return f"{path}:{','.join(str(part.start) for part in block)}"


# --- arrays and blocks -----------------------------------------------------------------------


def _check_space(folder: Path, needs_bytes: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needs_bytes * _SPARE:
        raise UsageError(
            f"the new store takes about {bytes_text(needs_bytes)}, but {str(folder.parent)!r} has "
            f"{bytes_text(free)} free; name a folder on another disk"
        )


def _create(source: ZarrArray | zarr.Group, folder: Path, layouts: Mapping[str, Layout]) -> None:
    """Create the groups and empty arrays of a new store, in place of those that a killed process left."""
    for entry in folder.iterdir():
        if entry.name != JOURNAL:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for path, group in groups_of(source).items():
        zarr.create_group(folder, path=path, attributes=group.attrs.asdict())
    for path, array in arrays_of(source).items():
        create_like(array, folder, path, layouts.get(path))
    if _is_consolidated(source):
        with warnings.catch_warnings(action="ignore"):  # format 3 does not specify it yet
            zarr.consolidate_metadata(folder)


def _is_consolidated(store: ZarrArray | zarr.Group) -> bool:
    return isinstance(store, zarr.Group) and store.metadata.consolidated_metadata is not None


def blocks_of(array: ZarrArray) -> Iterator[Block]:
    """Yield the blocks of an array: whole shards, or whole chunks of an array without shards."""
    unit = array.shards or array.chunks
    shape, size = list(unit), math.prod(unit) * array.dtype.itemsize
    for axis in reversed(range(array.ndim)):
        parts = min(-(-array.shape[axis] // unit[axis]), max(1, _BLOCK_BYTES // size)) or 1
        shape[axis], size = unit[axis] * parts, size * parts
    places = [range(0, whole, part) for whole, part in zip(array.shape, shape, strict=True)]
    for starts in itertools.product(*places):
        ends = map(min, array.shape, (start + part for start, part in zip(starts, shape, strict=True)))
        yield tuple(map(slice, starts, ends))


def checksum_of(data: Any) -> str:
    """Return the BLAKE2 checksum of a block's native bytes; of variable-length text, that of its repr."""
    block = np.asarray(data)
    block = block.astype(_native(block.dtype), copy=False)
    is_text = block.dtype.hasobject
    content = repr(block.tolist()).encode() if is_text else np.ascontiguousarray(block).tobytes()
    return hashlib.blake2b(content, digest_size=16).hexdigest()


def _native(dtype: Any) -> Any:
    """Return a type in this machine's byte order: format 3's types have none."""
    return dtype if dtype.isnative else dtype.newbyteorder("=")


# --- verification ----------------------------------------------------------------------------


def _verified(
    source: ZarrArray | zarr.Group,
    folder: Path,
    blocks: list[tuple[str, Block]],
    written: Mapping[str, str],
    progress: Progress,
) -> str:
    """Read the new store back and return the checksum of all its blocks."""
    new = opened(folder)
    if described(new) != described(source):
        raise TunekitError(f"the metadata in {str(folder)!r} differs from its source's; please report this")
    arrays, total = arrays_of(new), hashlib.blake2b(digest_size=16)
    for done, (path, block) in enumerate(blocks):
        progress("verifying", done, len(blocks))
        checksum = checksum_of(arrays[path][block])
        if checksum != written[_key(path, block)]:
            raise TunekitError(
                f"{path or 'the array'} in {str(folder)!r} reads back differently at {_key(path, block)}; "
                "check the disk, remove the folder and start over"
            )
        total.update(checksum.encode())
    return total.hexdigest()


def described(store: ZarrArray | zarr.Group) -> dict[str, Any]:
    """Return what a rewrite must keep: groups, attributes, shapes, types, fill values, dimension names."""
    kept: dict[str, Any] = {path: _text(group.attrs.asdict()) for path, group in groups_of(store).items()}
    kept["is consolidated"] = _is_consolidated(store)
    for path, array in arrays_of(store).items():
        default = array.metadata.dtype.default_scalar()
        fill = default if array.fill_value is None else array.fill_value  # format 3 has no null
        kept[f"array {path}"] = (
            array.shape,
            str(_native(array.dtype)),
            checksum_of(np.asarray(fill, dtype=array.dtype)),
            getattr(array.metadata, "dimension_names", None),
            _text(array.attrs.asdict()),
        )
    return kept


def _text(attributes: Mapping[str, Any]) -> str:
    return json.dumps(attributes, sort_keys=True)  # in which NaN equals NaN
