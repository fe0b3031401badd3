"""Which samples a loader makes and what is in them, recorded before collating by the process that makes them.

A number in the loader's map (`work`) switches this on. Each process appends rows to its own files.

    samples-PID:  index (-1 from a stream) | fingerprint of the sample; a fetcher's first row is MARK
    pinned-PID:   index | a bit for each leaf that was equal twice | fingerprint of each leaf
"""

from __future__ import annotations

import contextlib
import operator
import pickle
import random
import struct
import sys
import types
from itertools import islice
from typing import Any
from zlib import crc32

from ..originals import append_to, os
from .batches import leading_size, path_of, walk
from .storages import is_tensor

OFF, NOTED, PINNED = range(3)
"""What is recorded: nothing; all samples; all, plus some that are made twice with pinned generators."""
MARK = -2
LEAVES = 8
"""Leaves of a sample with their own fingerprint; the last one also covers all further leaves."""
_ROW = struct.Struct("<qI")
_PINNED_ROW = struct.Struct(f"<qB{LEAVES}I")
_PRINTS = struct.Struct(f"<{LEAVES}I")
OPAQUE = 1 << 62
"""Indices that aren't numbers are identified by a number from here on."""
MAX_GENERATORS = 8
_MAX_LEAVES, _MAX_ELEMENTS, _MAX_ROWS = 4096, 4096, 4096
_MAX_THINGS, _MAX_IN_LIST, _DEPTH = 300, 64, 4
_PLAIN = (bool, int, float, str, type(None))
_WHOLE = (*_PLAIN, bytes, type, types.ModuleType, types.FunctionType)
_SEED = 20_240_229


# --- fingerprints ------------------------------------------------------------------------------


def prints_of(sample: Any) -> tuple:
    """Return a fingerprint for each leaf of a sample; equal type, shape and data give equal fingerprints."""
    prints = [0] * LEAVES
    for number, (place, leaf) in enumerate(islice(walk(sample), _MAX_LEAVES)):
        at = min(number, LEAVES - 1)
        prints[at] = crc32(bytes_of(leaf), crc32(path_of(place).encode("utf-8", "replace"), prints[at]))
    return tuple(prints)


def bytes_of(leaf: Any) -> bytes:
    """Return a leaf's type, shape and data (evenly spaced elements if it is large); its type on failure."""
    try:
        if isinstance(leaf, str):
            return leaf.encode("utf-8", "surrogatepass")
        if isinstance(leaf, (bytes, bytearray)):
            return bytes(leaf)
        if isinstance(leaf, (int, float, complex)):
            return repr(leaf).encode()
        if hasattr(leaf, "getbands"):
            return f"{leaf.mode}{leaf.size}".encode() + leaf.tobytes()
        head = f"{leaf.dtype}{tuple(leaf.shape)}".encode()
        flat = (leaf.detach() if is_tensor(leaf) else leaf).reshape(-1)
        some = flat[:: max(1, -(-flat.shape[0] // _MAX_ELEMENTS))]
        if is_tensor(leaf):
            some = some.cpu().contiguous().view(sys.modules["torch"].uint8)
            return head + (some.numpy().tobytes() if "numpy" in sys.modules else bytes(some.tolist()))
        return head + (repr(some.tolist()).encode() if leaf.dtype.hasobject else some.tobytes())
    except Exception:  # sparse, nested, or a user class that raises
        return type(leaf).__name__.encode()


def _row_prints(batch: Any) -> list:
    """Return a fingerprint for each sample of a ready batch, using its parts that have a row per sample."""
    count = min(leading_size(batch) or 0, _MAX_ROWS)
    parts = [
        (path_of(place), leaf)
        for place, leaf in islice(walk(batch), _MAX_LEAVES)
        if getattr(leaf, "shape", None) and len(leaf) >= count
    ]
    if not count or not parts:
        return [_print_of(batch)]
    return [_print_of([(path, leaf[row]) for path, leaf in parts]) for row in range(count)]


def _print_of(sample: Any) -> int:
    return crc32(_PRINTS.pack(*prints_of(sample)))


def id_of(index: Any) -> int:
    """Return a number that identifies an index: the index itself if it is one."""
    try:
        number = operator.index(index)
    except TypeError:
        number = -1
    return number if 0 <= number < OPAQUE else OPAQUE | crc32(repr(index).encode("utf-8", "replace"))


def rank_of(identity: int) -> int:
    """Return an index's rank in the order in which indices are chosen, the same in every trial."""
    return crc32(struct.pack("<q", identity))


# --- a data set's state ------------------------------------------------------------------------


def reached(thing: Any):
    """Yield (name, value) for everything in an object's attributes and short lists, a few levels deep."""
    waiting: list = [("", thing, 0)]
    seen: set = set()
    while waiting and len(seen) < _MAX_THINGS:
        name, one, depth = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, (list, tuple)):
            held = [(f"{name}[{i}]", part) for i, part in enumerate(one[:_MAX_IN_LIST])]
            yield f"len({name})", len(one)
        else:
            attributes = getattr(one, "__dict__", None)
            held = list(islice(attributes.items(), _MAX_THINGS)) if isinstance(attributes, dict) else []
            held = [(f"{name}.{key}".lstrip("."), part) for key, part in held]
        for key, part in held:
            yield key, part
            if depth < _DEPTH and not isinstance(part, _WHOLE) and not hasattr(part, "shape"):
                waiting.append((key, part, depth + 1))


def plain_attributes(dataset: Any) -> dict:
    """Return the numbers, texts and generator states in a data set and its parts, by name."""
    try:
        plain = {name: value for name, value in reached(dataset) if isinstance(value, _PLAIN)}
        return {**plain, **{name: state_print(one) for name, one in _own_generators(dataset)}}
    except Exception:  # user classes may raise anything when inspected
        return {}


class AttributeWatch:
    """Finds what the script changes in a data set between epochs, which persistent workers don't see.

    Attributes:
        names: names of the changed attributes.
        has_seen: whether there was a second epoch to compare.
        is_paused: true while the observer itself starts an epoch.
        first: plain attributes before the first epoch.
    """

    def __init__(self) -> None:
        self.names: set = set()
        self.has_seen = self.is_paused = False
        self.first: dict | None = None
        self._last: dict | None = None

    def ended(self, dataset: Any) -> None:
        """Note the end of an epoch, after which the script may change the data set."""
        if not self.is_paused:
            self._last = plain_attributes(dataset)

    def began(self, dataset: Any, has_workers: bool) -> None:
        """Note the start of an epoch, in which a data set without workers may change itself."""
        if self.is_paused:
            return
        now, last = plain_attributes(dataset), self._last
        self.first = now if self.first is None else self.first
        if last is not None:
            self.has_seen = True
            # Lists compare by identity first, so that NaN equals itself.
            self.names |= {name for name, value in now.items() if [last.get(name, value)] != [value]}
        self._last = now if has_workers else None


# --- random number generators ------------------------------------------------------------------


def generators_of(thing: Any) -> list:
    """Return (name, generator) for the global generators and for those that an object holds."""
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    shared = [("random", random), ("numpy.random", numpy), ("torch", torch and torch.default_generator)]
    return [*((name, one) for name, one in shared if one is not None), *_own_generators(thing)]


def _own_generators(thing: Any) -> list:
    numpy, torch = sys.modules.get("numpy.random"), sys.modules.get("torch")
    kinds: tuple = (random.Random,)
    kinds += (numpy.Generator, numpy.RandomState) if numpy is not None else ()
    kinds += (torch.Generator,) if torch is not None else ()
    found = ((name, one) for name, one in reached(thing) if isinstance(one, kinds))
    return [(name, one) for name, one in found if _state_of(one) is not None]


def _state_of(generator: Any) -> Any:
    try:
        if hasattr(generator, "getstate"):
            return generator.getstate()
        # Last, because `numpy.random` has a module called `bit_generator`.
        return generator.get_state() if hasattr(generator, "get_state") else generator.bit_generator.state
    except Exception:  # random.SystemRandom has no state
        return None


def state_print(generator: Any) -> int:
    """Return a fingerprint of a generator's state, never 0."""
    state = _state_of(generator)
    if is_tensor(state):
        state = bytes(state.tolist())
    return crc32(pickle.dumps(state)) or 1


def _set_state(generator: Any, state: Any) -> None:
    if hasattr(generator, "setstate"):
        generator.setstate(state)
    elif hasattr(generator, "set_state"):
        generator.set_state(state)
    else:
        generator.bit_generator.state = state


def _seed(generator: Any, seed: int) -> None:
    if hasattr(generator, "manual_seed"):
        generator.manual_seed(seed)
    elif hasattr(generator, "seed"):
        generator.seed(seed)
    else:
        generator.bit_generator.state = type(generator.bit_generator)(seed).state


@contextlib.contextmanager
def pinned(thing: Any, seed: int = _SEED) -> Any:
    """Seed all generators that an object can draw from, and restore them afterwards."""
    kept = [(one, _state_of(one)) for _, one in generators_of(thing)]
    try:
        for one, _ in kept:
            _seed(one, seed)
        yield
    finally:
        for one, state in kept:
            _set_state(one, state)


def prints_pinned(dataset: Any, index: Any) -> tuple:
    """Return the fingerprints of a sample made with generators seeded by its index."""
    with pinned(dataset, id_of(index) & 0xFFFFFFFF):
        return prints_of(dataset[index])


def is_seeded_by_index(dataset: Any, name: str, index: Any) -> bool:
    """Return whether the data set itself seeds a generator for every sample."""
    after = []
    for seed in (_SEED, _SEED + 1):
        with pinned(dataset, seed):
            dataset[index]
            after.append(state_print(dict(generators_of(dataset))[name]))
    return after[0] == after[1]


# --- in the processes that make samples --------------------------------------------------------


class SampleNotes:
    """Records the samples that one process makes.

    Args:
        folder: the folder for its files.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def fetch(self, original: Any, fetcher: Any, index: Any, mode: int, max_rank: int) -> Any:
        """Make a batch and record its samples.

        Args:
            original: makes the batch.
            fetcher: torch's fetcher, which has the data set.
            max_rank: samples whose index has at most this rank are made again with pinned generators.
        """
        collate = fetcher.collate_fn

        def noting(data):
            with contextlib.suppress(Exception):  # user classes may raise anything when inspected
                self._note(fetcher, index, data, mode, max_rank)
            return collate(data)

        fetcher.collate_fn = noting
        try:
            return original(fetcher, index)
        finally:
            fetcher.collate_fn = collate

    def _note(self, fetcher: Any, index: Any, data: Any, mode: int, max_rank: int) -> None:
        is_stream = hasattr(fetcher, "dataset_iter")
        has_list = fetcher.auto_collation and isinstance(data, (list, tuple))
        prints = [_print_of(one) for one in data] if has_list else _row_prints(data)
        if is_stream:
            indices = [None] * len(prints)
        else:
            indices = list(index) if fetcher.auto_collation else [index]
            prints = prints if len(prints) == len(indices) else [_print_of(data)] * len(indices)
        ids = [-1 if one is None else id_of(one) for one in indices]
        rows = list(map(_ROW.pack, ids, prints))
        if "_tunekit_marked" not in vars(fetcher):
            fetcher._tunekit_marked = True
            rows.insert(0, _ROW.pack(MARK, 0))
        self._append("samples", rows)
        if mode == PINNED and not is_stream:
            chosen = [one for one in indices if rank_of(id_of(one)) <= max_rank]
            self._append("pinned", [_pinned_row(fetcher.dataset, one) for one in chosen])

    def _append(self, kind: str, rows: list) -> None:
        append_to(os.path.join(self._folder, f"{kind}-{os.getpid()}"), b"".join(rows))


def _pinned_row(dataset: Any, index: Any) -> bytes:
    twice = [prints_pinned(dataset, index) for _ in range(2)]
    alike = sum(is_alike << at for at, is_alike in enumerate(map(operator.eq, *twice)))
    return _PINNED_ROW.pack(id_of(index), alike, *twice[0])


# --- in the process that trains ----------------------------------------------------------------


def rows_of(folder: str, pids: list) -> list:
    """Return (index, fingerprint) of the samples that some processes made in their latest epoch."""
    rows: list = []
    for content in _contents(folder, "samples", pids):
        latest: list = []
        for index, print_ in _ROW.iter_unpack(content):
            if index == MARK:
                latest = []
            else:
                latest.append((index, print_))
        rows += latest
    return rows


def pinned_rows_of(folder: str, pids: list) -> dict:
    """Return some processes' pinned samples by index: (bits of the equal leaves, fingerprints)."""
    rows = (row for content in _contents(folder, "pinned", pids) for row in _PINNED_ROW.iter_unpack(content))
    return {index: (alike, prints) for index, alike, *prints in rows}


def _contents(folder: str, kind: str, pids: list):
    for pid in pids:
        with contextlib.suppress(OSError):
            with open(os.path.join(folder, f"{kind}-{pid}"), "rb") as stream:
                content = stream.read()
            size = (_ROW if kind == "samples" else _PINNED_ROW).size
            yield content[: len(content) // size * size]
