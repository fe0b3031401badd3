"""Bytes and samples of a real batch, whatever it is nested in."""

from __future__ import annotations

import sys
from collections import deque

_MAX_CONTAINERS = 100_000


def leaves(batch: object):
    """Yield the tensors, arrays, strings and scalars of a batch, outermost first, each container once."""
    waiting: deque = deque([batch])
    seen: set = set()
    while waiting and len(seen) < _MAX_CONTAINERS:
        item = waiting.popleft()
        parts = _parts(item)
        if parts is None:
            yield item
        elif id(item) not in seen:
            seen.add(id(item))
            waiting.extend(parts)


def _parts(item: object) -> list | None:
    """Return what a container holds, None for a leaf."""
    if isinstance(item, (str, bytes, bytearray, int, float, complex, type(None))) or hasattr(item, "shape"):
        return None
    if hasattr(item, "items") and callable(item.items):
        return [value for _, value in item.items()]
    if isinstance(item, (list, tuple, set, frozenset)):
        return list(item)
    if hasattr(item, "__dict__"):
        return list(vars(item).values())
    return None


def size_bytes(batch: object) -> int:
    """Return the bytes that the batch's data takes: tensor and array storage, text, scalars."""
    total = 0
    for leaf in leaves(batch):
        if hasattr(leaf, "element_size") and hasattr(leaf, "numel"):
            total += leaf.numel() * leaf.element_size()
        elif hasattr(leaf, "nbytes"):
            total += int(leaf.nbytes)
        elif leaf is not None:
            total += sys.getsizeof(leaf)
    return total


def leading_size(batch: object) -> int | None:
    """Return the first dimension of the batch's first tensor, None when it has no tensor.

    Asked for every batch, so the common forms, a tensor or a list that begins with one, come first.
    """
    first = batch[0] if type(batch) in (list, tuple) and batch else batch  # type: ignore[index]
    shape = getattr(first, "shape", None)
    if shape is not None and len(shape) > 0:
        return int(shape[0])
    for leaf in leaves(batch):
        shape = getattr(leaf, "shape", None)
        if shape is not None and len(shape) > 0:
            return int(shape[0])
    return None


def leading_size_and_elements(batch: object) -> tuple:
    """Return the first dimension and the elements of the batch's first tensor, (None, None) without one."""
    for leaf in leaves(batch):
        shape = getattr(leaf, "shape", None)
        if shape is not None and len(shape) > 0:
            elements = 1
            for size in shape:
                elements *= int(size)
            return int(shape[0]), elements
    return None, None
