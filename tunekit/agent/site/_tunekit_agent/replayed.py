"""One batch that the script gets again and again."""

from __future__ import annotations

import copy
from typing import Any, Callable

from . import batches
from .details import Missing

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
        return Rebuilding().of(self._batch)

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


class Rebuilding:
    """Makes a batch anew in containers of its own; what it holds twice, and in circles, stays so.

    Args:
        stands_for: returns what takes a part's place, or the part itself where it stays; containers that hold
            nothing new then stay too, and objects are looked into. Without it every list, dict and tuple is
            made anew, while a container of another kind is copied with what it holds.
    """

    def __init__(self, stands_for: Callable[[Any], Any] | None = None) -> None:
        self._stands_for = stands_for
        self._made: dict = {}  # by id: the part, which keeps its id, and what was made of it

    def of(self, item: Any, depth: int = 0) -> Any:
        """Return what an item becomes.

        Raises:
            Missing: a container takes no other parts.
        """
        known = self._made.get(id(item))
        if known is not None:
            return known[1]
        self._made[id(item)] = (item, item)
        made = item if self._stands_for is None else self._stands_for(item)
        if made is item and depth < _MAX_DEPTH:
            made = self._container(item, depth + 1)
        self._made[id(item)] = (item, made)
        return made

    def _container(self, item: Any, depth: int) -> Any:
        parts = batches.parts_of(item)
        if parts is None:
            return item
        kind, held = type(item), parts[1]
        is_plain = kind in (list, dict, tuple) or (isinstance(item, tuple) and hasattr(kind, "_make"))
        if self._stands_for is None and not is_plain:
            return _copied(item)
        made = [(key, part, self.of(part, depth)) for key, part in held]
        changed = [change for change in made if change[2] is not change[1]]
        if self._stands_for is not None and not changed:
            return item
        if not is_plain:
            return _with_parts(item, parts[0].startswith("["), changed)
        if kind is dict:
            return {key: new for key, _, new in made}
        values = [new for _, _, new in made]
        return values if kind is list else kind._make(values) if hasattr(kind, "_make") else tuple(values)


def _copied(item: Any) -> Any:
    """Return a copy of a container that knows how to copy itself, as a BatchEncoding does."""
    if isinstance(item, (list, dict)) or hasattr(item, "__dict__"):
        try:
            return copy.copy(item)
        except Exception:
            return item
    return item


def _with_parts(item: Any, has_keys: bool, changed: list) -> Any:
    """Return a copy of a container of another kind, with (key, old, new) parts changed."""
    try:
        own = copy.copy(item)
        for key, old, new in changed:
            if not has_keys:
                object.__setattr__(own, key, new)  # a data class may be frozen
                is_shared = getattr(item, key) is new
            else:
                own[key] = new
                is_shared = item[key] is new
                if is_shared:
                    item[key] = old
            if is_shared:
                raise TypeError("its copy shares what it holds")
    except Exception as error:
        raise Missing(f"a {type(item).__name__} of the batch takes no other parts: {error}") from error
    return own
