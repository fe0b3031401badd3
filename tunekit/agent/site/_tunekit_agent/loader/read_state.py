"""State that a data set changes while it is read: each loader worker has its own copy of it."""

from __future__ import annotations

from collections import deque
from typing import Any

from .samples import bytes_of, prints_pinned, reached
from .storages import is_tensor

_CONTAINERS = (list, dict, set, deque)
_MAX_HELD, _MAX_BYTES = 100_000, 1 << 20
_CHANGE_BY_THEMSELVES = ("threading", "queue", "multiprocessing", "concurrent")


def sizes_of(dataset: Any) -> dict:
    """Return the length of each container (list, dict and the like) in a data set, by name."""
    return {name: len(one) for name, one in reached(dataset) if isinstance(one, _CONTAINERS)}


def changed_by_reading(dataset: Any, index: Any, first: dict) -> tuple:
    """Read a sample a few times, then restore the data set's state.

    Args:
        first: plain attributes before any sample was read, which is what workers start with.

    Returns:
        The names of the state that reading changes, and whether samples depend on it (not true of a cache).
    """
    if any(type(one).__module__.split(".")[0] in _CHANGE_BY_THEMSELVES for _, one in reached(dataset)):
        return set(), False
    before = _state_of(dataset)
    try:
        seen = prints_pinned(dataset, index)
        names = {name for one in before for name in _changed(*one)}
        if not names:
            return names, False
        others = [prints_pinned(dataset, index)]
        _put_back(before)
        again = prints_pinned(dataset, index)
        _put_back(before)
        if names <= first.keys():  # only numbers changed: no container has to match them, as a chunk does
            _set_numbers(before, {name: first[name] for name in names})
            others.append(prints_pinned(dataset, index))
    finally:
        _put_back(before)
    return names, seen == again and any(one != seen for one in others)


def _state_of(dataset: Any) -> list:
    """Return (name, object, copy) for everything mutable: attributes, containers and small arrays."""
    found = []
    for name, one in (("", dataset), *reached(dataset)):
        is_array = hasattr(one, "shape")
        if not is_array and isinstance(getattr(one, "__dict__", None), dict):
            found.append((f"{name}.", vars(one), dict(vars(one))))
        if _is_own(one) if is_array else isinstance(one, _CONTAINERS) and len(one) <= _MAX_HELD:
            found.append((name, one, one.clone() if is_tensor(one) else one.copy()))
    return found


def _is_own(array: Any) -> bool:
    """Return whether an array is small, writable and private to this process."""
    if getattr(array, "nbytes", _MAX_BYTES) >= _MAX_BYTES:
        return False
    is_plain = type(array).__name__ == "ndarray"  # not a memmap
    return not array.is_shared() if is_tensor(array) else is_plain and array.flags.writeable


def _changed(name: str, one: Any, kept: Any) -> list:
    """Return the names of what differs from the copy."""
    if name.endswith("."):
        return [f"{name}{key}".lstrip(".") for key in {**one, **kept} if one.get(key) is not kept.get(key)]
    if hasattr(one, "shape"):
        return [name] if bytes_of(one) != bytes_of(kept) else []
    if isinstance(one, dict):
        one, kept = [*one, *one.values()], [*kept, *kept.values()]
    is_same = one == kept if isinstance(one, set) else list(map(id, one)) == list(map(id, kept))
    return [] if is_same else [name]


def _put_back(state: list) -> None:
    for name, one, kept in state:
        if _changed(name, one, kept) and hasattr(one, "shape"):
            one[...] = kept
        elif _changed(name, one, kept):
            one.clear()
            (one.extend if isinstance(one, (list, deque)) else one.update)(kept)


def _set_numbers(state: list, values: dict) -> None:
    for name, one, _ in state:
        if name.endswith("."):
            own = {key: values.get(f"{name}{key}".lstrip(".")) for key in one}
            one.update({key: value for key, value in own.items() if isinstance(value, (int, float))})
