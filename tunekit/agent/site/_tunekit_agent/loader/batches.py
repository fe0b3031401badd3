"""Bytes and samples of a real batch, however it is nested."""

from __future__ import annotations

import heapq
import sys
import types
from collections import deque
from typing import Any

from .storages import Storages, data_bytes, is_tensor

_MAX_CONTAINERS = 100_000
_MAX_LEAVES = 64
_MAX_PATH = 200
_MAX_DIMENSIONS = 16
_IN_LIST = "[{}]"
_PLAIN = (str, bytes, bytearray, bool, int, float, complex, type(None), type, types.ModuleType)
_NUMBER_BYTES = 8
_PIXEL_BYTES = {"I": 4, "F": 4, "I;16": 2, "I;16L": 2, "I;16B": 2}


def walk(batch: object):
    """Yield (place, leaf) for each leaf of a batch, outermost first, visiting each container once.

    A leaf is a tensor, an array, a text, a number or any object without parts. Places sort in the batch's
    own order; `path_of` names them.
    """
    waiting: deque = deque([((), batch)])
    seen: set = set()
    while waiting and len(seen) < _MAX_CONTAINERS:
        place, item = waiting.popleft()
        parts = parts_of(item)
        if parts is None:
            if item is not None:
                yield place, item
        elif id(item) not in seen:
            seen.add(id(item))
            form, held = parts
            waiting.extend(((*place, (i, form, key)), one) for i, (key, one) in enumerate(held))


def path_of(place: tuple) -> str:
    """Return the expression by which a script would reach a place, such as "[0]['labels'].ids"."""
    try:
        return "".join(form.format(key) for _, form, key in place)[:_MAX_PATH]
    except Exception:  # a key that can't be shown as text
        return "n/a"


def parts_of(item: Any) -> tuple | None:
    """Return the form of a container's access and a (key, part) for each part; None for a leaf."""
    try:
        if isinstance(item, _PLAIN) or is_tensor(item) or shape_of(item) is not None:
            return None
        if hasattr(item, "items") and callable(item.items):
            return "[{!r}]", [(key, part) for key, part in item.items()]
        if isinstance(item, tuple) and hasattr(item, "_fields"):
            return ".{}", [(name, getattr(item, name)) for name in item._fields]
        if isinstance(item, (list, tuple, set, frozenset, deque)):
            return _IN_LIST, list(enumerate(item))
        attributes = None if hasattr(item, "getbands") else _attributes(item)
    except Exception:  # an object that only looks like a container
        return None
    return (".{}", attributes) if attributes else None


def _attributes(item: Any) -> list:
    names = dict.fromkeys(getattr(item, "__dataclass_fields__", ()))
    for kind in reversed(type(item).__mro__):
        slots = vars(kind).get("__slots__", ())
        names.update(dict.fromkeys((slots,) if isinstance(slots, str) else slots))
    names.update(dict.fromkeys(getattr(item, "__dict__", ())))
    skipped = ("__dict__", "__weakref__")
    return [(name, getattr(item, name)) for name in names if name not in skipped and hasattr(item, name)]


def shape_of(item: Any) -> tuple | None:
    """Return an object's shape up to the first dimension that isn't a number; None if it has no shape."""
    try:
        shape = item.shape
    except AttributeError:
        return None
    except Exception:
        return _first_dimension(item)
    sizes: list = []
    try:
        for size in shape:
            sizes.append(int(size))
    except Exception:  # a ragged dimension, or a shape of another kind
        return tuple(sizes)
    return tuple(sizes)


def _first_dimension(item: Any) -> tuple | None:
    """Return the only dimension that a nested tensor reports; None for a lazy or misbehaving object."""
    try:
        return (int(item.size(0)),)
    except Exception:
        return None


def _is_number(leaf: object) -> bool:
    numpy = sys.modules.get("numpy")
    return isinstance(leaf, (int, float, complex)) or (
        numpy is not None and isinstance(leaf, getattr(numpy, "generic", ()))
    )


def _kind(leaf: Any) -> str:
    try:
        if is_tensor(leaf):
            return "tensor"
        if isinstance(leaf, (str, bytes, bytearray)):
            return "text"
        if _is_number(leaf):
            return "number"
        return "array" if hasattr(leaf, "nbytes") and hasattr(leaf, "dtype") else "other"
    except Exception:  # user classes may raise anything
        return "other"


def _leaf_bytes(leaf: Any) -> int:
    """Return the bytes of a leaf's data: its elements or pixels, or the whole object for a text or number."""
    if is_tensor(leaf):
        return data_bytes(leaf)
    try:
        if hasattr(leaf, "nbytes"):
            return int(leaf.nbytes)
        if hasattr(leaf, "getbands"):
            width, height = leaf.size
            return width * height * len(leaf.getbands()) * _PIXEL_BYTES.get(leaf.mode, 1)
        return sys.getsizeof(leaf)
    except Exception:
        return 0


def size_bytes(batch: object) -> int:
    """Return the bytes of a batch's data: elements of tensors and arrays, texts, numbers."""
    return sum(_leaf_bytes(leaf) for _, leaf in walk(batch))


def extent_of(sample: object) -> tuple:
    """Return the bytes of a sample's data and the shapes or lengths of its parts, in order.

    A text counts by its length, and every number counts the same: samples with equal data sizes have equal
    extents.
    """
    total_bytes = 0
    shapes: list = []
    for _, leaf in walk(sample):
        kind = _kind(leaf)
        if kind == "number":
            total_bytes += _NUMBER_BYTES
        elif kind == "text":
            total_bytes += len(leaf)
            shapes.append(len(leaf))
        else:
            total_bytes += _leaf_bytes(leaf)
            shapes.append(shape_of(leaf))
    return total_bytes, tuple(shapes)


def leading_size(batch: object) -> int | None:
    """Return the first dimension of a batch's first tensor; None if it has no tensor.

    Called for every batch, so the common forms (a tensor, or a list that begins with one) are tried first.
    """
    first = batch[0] if type(batch) in (list, tuple) and batch else batch  # type: ignore[index]
    shape = shape_of(first)
    if shape:
        return shape[0]
    for _, leaf in walk(batch):
        shape = shape_of(leaf)
        if shape:
            return shape[0]
    return None


def sizes_in(arguments: tuple, keywords: dict) -> list:
    """Return the plain facts of InputSeen records: the dimensions of a module's arguments.

    A list counts with its length, since it may hold one part per sample.
    """
    sizes: dict = {}
    for place, leaf in walk([arguments, keywords]):
        for depth in range(2, len(place)):  # skips the list of the arguments themselves
            number, form, _ = place[depth]
            if form == _IN_LIST:
                sizes[place[:depth]] = (number + 1,)
        shape = shape_of(leaf)
        if shape:
            sizes[place] = shape
    return [
        {"path": path_of(place[1:]), "sizes": list(sizes[place][:_MAX_DIMENSIONS])}
        for place in sorted(sizes)[:_MAX_LEAVES]
    ]


def batch_facts(batch: object, samples: int) -> dict:
    """Return the plain facts of a BatchSeen record.

    Pinning copies a batch, so the rest of a storage that a slice carried along is no longer visible.
    """
    shared = Storages("cpu")
    leaves: list = []
    total_bytes = piped_bytes = 0
    for place, leaf in walk(batch):
        size, kind = _leaf_bytes(leaf), _kind(leaf)
        total_bytes += size
        if kind == "tensor":
            shared.add(leaf)
        else:
            piped_bytes += size
        leaves.append((size, place, kind, leaf))
    largest = heapq.nlargest(_MAX_LEAVES, leaves, key=lambda one: one[0])
    return {
        "samples": samples,
        "total_bytes": total_bytes,
        "shared_bytes": shared.shared_bytes,
        "piped_bytes": piped_bytes,
        "leaves": [_leaf_facts(*one) for one in sorted(largest, key=lambda one: one[1])],
    }


def _leaf_facts(size: int, place: tuple, kind: str, leaf: Any) -> dict:
    return {
        "path": path_of(place),
        "kind": kind,
        "dtype": _dtype_of(leaf),
        "shape": list(shape_of(leaf) or ()),
        "bytes": size,
    }


def _dtype_of(leaf: Any) -> str | None:
    try:
        return str(leaf.dtype).replace("torch.", "")
    except Exception:  # no dtype, or a user class that raises
        return None


class BatchWatch:
    """Inspects one full batch of the training loader."""

    def __init__(self) -> None:
        self._latest: dict | None = None
        self._is_settled = False

    def take(self, info: Any, batch: object, samples: int, is_training: bool) -> None:
        """Inspect a batch, unless a full one is known already.

        Args:
            is_training: whether this is known to be the training loader.
        """
        if self._is_settled:
            return
        declared = info.facts.get("batch_size")
        is_full = declared is None or samples == declared
        if info.batch is None or (is_full and not info.has_full_batch):
            info.batch = _scaled(batch_facts(batch, samples), declared or samples)
            info.has_full_batch = is_full
            info.batch_sizes = sizes_in((batch,), {})
        self._latest = info.batch
        self._is_settled = is_training and info.has_full_batch

    def facts(self, training: Any) -> dict:
        """Return batch_bytes and batch for the parent's record of the loop.

        Args:
            training: the training loader's `info.LoaderInfo`; None for a loop without a loader.
        """
        known = (training and training.batch) or self._latest
        return {
            "batch_bytes": known["total_bytes"] if known else 0,
            "batch": known if training is not None else None,
        }


def _scaled(facts: dict, samples: int) -> dict:
    """Return a batch's facts with its totals scaled to a number of samples; its leaves are unchanged."""
    if facts["samples"] == samples:
        return facts
    totals = ("total_bytes", "shared_bytes", "piped_bytes")
    return {
        **facts,
        "samples": samples,
        **{name: facts[name] * samples // facts["samples"] for name in totals},
    }
