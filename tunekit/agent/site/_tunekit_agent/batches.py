"""Bytes and samples of a real batch, whatever it is nested in."""

from __future__ import annotations

import dataclasses
import sys

_MAX_DEPTH = 12
_MAX_ITEMS = 100_000


def leaves(batch: object, depth: int = 0):
    """Yield the tensors, arrays, strings and scalars of a batch, outermost first."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(batch, (str, bytes, bytearray, int, float, complex, bool, type(None))):
        yield batch
    elif hasattr(batch, "element_size") and hasattr(batch, "numel"):
        yield batch
    elif hasattr(batch, "nbytes") and hasattr(batch, "shape"):
        yield batch
    elif hasattr(batch, "items") and callable(batch.items):
        for _, value in batch.items():
            yield from leaves(value, depth + 1)
    elif isinstance(batch, (list, tuple, set, frozenset)):
        for value in list(batch)[:_MAX_ITEMS]:
            yield from leaves(value, depth + 1)
    elif dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        for field in dataclasses.fields(batch):
            yield from leaves(getattr(batch, field.name), depth + 1)
    elif hasattr(batch, "__dict__"):
        for value in vars(batch).values():
            yield from leaves(value, depth + 1)
    else:
        yield batch


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
    """Return the first dimension of the batch's first tensor, None when it has no tensor."""
    for leaf in leaves(batch):
        shape = getattr(leaf, "shape", None)
        if shape is not None and len(shape) > 0:
            return int(shape[0])
    return None
