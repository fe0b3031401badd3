"""Writes down what a step allocates and frees, in order."""

import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tunekit.memory.vram.trace import AllocationTrace, Purpose


class AllocationTracer(TorchDispatchMode):
    """While it is entered, every storage on a device is written down as it comes, and as it goes.

    Args:
        device_type: whose storages are allocated.
    """

    def __init__(self, device_type: str = "cuda") -> None:
        super().__init__()
        self._device_type = device_type
        self._blocks: list[int] = []
        self._sizes: list[int] = []
        self._purposes: list[Purpose] = []
        self._alive: dict[int, int] = {}  # by a storage's address: its block

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(made):
            self._saw(leaf)
        return made

    def is_for(self, purpose: Purpose, tensors: Iterable[torch.Tensor]) -> None:
        """Say what the blocks of some tensors are for, from their allocation on."""
        for tensor in tensors:
            block = self._alive.get(tensor.untyped_storage()._cdata)
            if block is not None:
                self._purposes[block] = purpose

    def trace(self, batch_size: int) -> AllocationTrace:
        """Return what was written down so far."""
        return AllocationTrace(
            batch_size=batch_size,
            blocks=np.array(self._blocks, dtype=np.int64),
            sizes_bytes=np.array(self._sizes, dtype=np.int64),
            purposes=tuple(self._purposes),
        )

    def _saw(self, leaf: Any) -> None:
        if not isinstance(leaf, torch.Tensor) or leaf.device.type != self._device_type:
            return
        storage = leaf.untyped_storage()
        address, size = storage._cdata, storage.nbytes()
        if address in self._alive or size == 0:
            return
        block = self._alive[address] = len(self._purposes)
        self._blocks.append(block)
        self._sizes.append(size)
        self._purposes.append(Purpose.ACTIVATIONS)
        weakref.finalize(storage, self._gone, address, block)

    def _gone(self, address: int, block: int) -> None:
        self._blocks.append(block)
        self._sizes.append(-1)
        if self._alive.get(address) == block:
            del self._alive[address]
