"""Sizes of all kinds of tensors (dense, sparse, nested, sharded), with shared storages counted once."""

from __future__ import annotations

import mmap
from typing import Any

_COMPRESSED_ROWS = ("crow_indices", "col_indices", "values")
_COMPRESSED_COLUMNS = ("ccol_indices", "row_indices", "values")
_MEMBERS = {
    "torch.sparse_coo": ("_indices", "_values"),
    "torch.sparse_csr": _COMPRESSED_ROWS,
    "torch.sparse_bsr": _COMPRESSED_ROWS,
    "torch.sparse_csc": _COMPRESSED_COLUMNS,
    "torch.sparse_bsc": _COMPRESSED_COLUMNS,
}
_NESTED = ("values", "_nested_tensor_size", "_nested_tensor_strides", "_nested_tensor_storage_offsets")


def is_tensor(item: object) -> bool:
    return hasattr(type(item), "element_size") and hasattr(type(item), "untyped_storage")


def dense(tensor: Any) -> list:
    """Return the dense tensors in this process that hold a tensor's data: the tensor itself or its parts.

    A sharded tensor (DTensor) yields its local part; an unknown kind of tensor yields nothing.
    """
    try:
        local = getattr(tensor, "_local_tensor", None)
        if local is not None:
            return dense(local)
        if hasattr(tensor, "__tensor_flatten__"):
            names = tensor.__tensor_flatten__()[0]
            return [part for name in names for part in dense(getattr(tensor, name))]
        members = _NESTED if tensor.is_nested else _MEMBERS.get(str(tensor.layout))
        if members is not None:
            return [getattr(tensor.detach(), member)() for member in members]
        tensor.untyped_storage()
        return [tensor]
    except Exception:  # a subclass that stores its data differently
        return []


def data_bytes(tensor: Any) -> int:
    """Return the bytes of a tensor's elements; for a sharded tensor, of this process's part."""
    try:
        return sum(part.numel() * part.element_size() for part in dense(tensor))
    except Exception:  # a subclass that doesn't report its size
        return 0


class Storages:
    """The storages behind some tensors, each counted once and whole, even for a slice or an expanded tensor.

    Args:
        device: a torch device or "cpu" to count only storages there; None to count all.
    """

    def __init__(self, device: Any = None) -> None:
        self._device = device
        self._sizes: dict = {}

    def add(self, tensor: Any) -> None:
        for part in dense(tensor):
            if self._device is None or self._device in (part.device, part.device.type):
                storage = part.untyped_storage()
                self._sizes[(part.device, storage._cdata)] = int(storage.nbytes())

    @property
    def bytes(self) -> int:
        return sum(self._sizes.values())

    @property
    def shared_bytes(self) -> int:
        """Bytes in /dev/shm if the storages are sent to another process: one file each, in whole pages."""
        return sum(-(-size // mmap.PAGESIZE) for size in self._sizes.values()) * mmap.PAGESIZE
