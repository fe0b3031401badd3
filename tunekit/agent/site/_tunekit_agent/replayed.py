"""One batch that the script gets again and again."""

from __future__ import annotations

import copy
from typing import Any

from . import batches

_MAX_DEPTH = 8


class ReplayedBatch:
    """A batch, handed out in fresh containers: scripts pop keys and append to lists.

    Args:
        batch: as its loader made it.
    """

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self._versions = [(leaf, _version(leaf)) for _, leaf in batches.walk(batch)]

    def copy(self) -> Any:
        """Return the batch with its own containers around the same tensors."""
        return _with_own_containers(self._batch)

    @property
    def was_changed(self) -> bool:
        """Whether a tensor of it was written to since."""
        return any(_version(leaf) != version for leaf, version in self._versions)


def _version(leaf: Any) -> int | None:
    """Return how often a tensor was changed in place; None of what does not count that."""
    try:
        return getattr(leaf, "_version", None)
    except RuntimeError:  # tensors made in inference mode don't
        return None


def _with_own_containers(item: Any, depth: int = 0) -> Any:
    if depth >= _MAX_DEPTH or hasattr(item, "shape"):
        return item
    kind = type(item)
    if kind is list:
        return [_with_own_containers(part, depth + 1) for part in item]
    if kind is dict:
        return {key: _with_own_containers(part, depth + 1) for key, part in item.items()}
    if kind is tuple:
        return tuple([_with_own_containers(part, depth + 1) for part in item])
    if isinstance(item, tuple):
        if not hasattr(kind, "_make"):
            return item
        return kind._make([_with_own_containers(part, depth + 1) for part in item])
    if isinstance(item, (list, dict)) or hasattr(item, "__dict__"):
        try:
            return copy.copy(item)  # a BatchEncoding and the like know how
        except Exception:
            return item
    return item
