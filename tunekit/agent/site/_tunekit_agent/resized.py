"""A batch of another size, made of a real one."""

from __future__ import annotations

import sys
from typing import Any

from . import batches
from .details import Missing
from .replayed import Rebuilding
from .storages import dense, is_tensor


def resized(batch: Any, own_size: int, size: int) -> Any:
    """Return a batch of another size; the one that it is made of stays as it is.

    Resized is whatever has the batch's size as its first dimension: tensors, arrays, and lists and tuples of
    as many texts, numbers or other parts that have no dimension of their own. A larger batch repeats the
    samples in order. All else stays the very same.

    Args:
        batch: as a loader made it.
        own_size: samples in it.
        size: samples wanted.

    Raises:
        Missing: it holds what can't be resized, or nothing of its size.
    """
    resizing = _Resizing(own_size, size)
    made = Rebuilding(resizing.stands_for).of(batch)
    if not resizing.has_resized:
        raise Missing(f"nothing in the batch has its size, {own_size}, as first dimension")
    return made


class _Resizing:
    """Resizes one part after another."""

    def __init__(self, own_size: int, size: int) -> None:
        self._own_size, self._size = own_size, size
        self.has_resized = False

    def stands_for(self, part: Any) -> Any:
        """Return the part in the size that is wanted, itself if it is not as long as the batch."""
        if hasattr(type(part), "batch_sizes") and hasattr(type(part), "sorted_indices"):
            raise Missing("the batch holds a packed sequence, which has no dimension of the batch's size")
        if not self._is_of_batch(part):
            self._insist_on_no_samples(part)
            return part
        self.has_resized = True
        if is_tensor(part):
            return _resized_tensor(part, self._own_size, self._size)
        numbers = [i % self._own_size for i in range(self._size)]
        if type(part) in (list, tuple):
            return type(part)([part[i] for i in numbers])
        if isinstance(part, getattr(sys.modules.get("numpy"), "ndarray", ())):
            return part.take(numbers, axis=0)
        raise Missing(f"the batch holds a {type(part).__name__}, which can't be resized")

    def _is_of_batch(self, part: Any) -> bool:
        if type(part) in (list, tuple):
            return len(part) == self._own_size and not any(_is_whole(one) for one in part)
        shape = batches.shape_of(part)
        return bool(shape) and shape[0] == self._own_size

    def _insist_on_no_samples(self, part: Any) -> None:
        """Refuse a list of as many parts as the batch has samples, each with a size of its own.

        So do loaders of images with boxes hand out their targets; left as it is, it would no longer fit.
        """
        if type(part) not in (list, tuple) or len(part) != self._own_size:
            return
        for one in part:
            if _is_whole(one) and _length(one) != self._own_size:
                kind = type(one).__name__
                raise Missing(
                    f"the batch holds {self._own_size} parts of kind {kind}, perhaps one per sample"
                )


def _length(part: Any) -> Any:
    """Return the first dimension of a part, None for one without."""
    shape = batches.shape_of(part)
    if shape:
        return shape[0]
    return len(part) if type(part) in (list, tuple) else None


def _is_whole(part: Any) -> bool:
    """Return whether a part of a list holds others, or has dimensions: then it may be a batch itself."""
    return batches.parts_of(part) is not None or bool(batches.shape_of(part))


def _resized_tensor(tensor: Any, own_size: int, size: int) -> Any:
    if not any(held is tensor for held in dense(tensor)):
        raise Missing(f"the batch holds a {type(tensor).__name__} in a layout that can't be resized")
    torch = sys.modules["torch"]
    with torch.no_grad():
        wholes, rest = divmod(size, own_size)
        pieces = [tensor] * wholes + ([tensor[:rest]] if rest else [])
        made = torch.cat(pieces) if len(pieces) > 1 else pieces[0].clone()
    if tensor.device.type == "cpu" and tensor.is_pinned():
        made = made.pin_memory()  # else its way to the device would be another
    return made.requires_grad_(tensor.requires_grad)
