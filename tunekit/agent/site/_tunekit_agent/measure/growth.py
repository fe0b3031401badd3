"""Memory that the training process takes more of with each batch, as where a script keeps its losses."""

from __future__ import annotations

import sys

from .device import cuda_devices
from .host import own_bytes

_EVERY_S = 0.05
_PARTS, _LEAST_LOOKS, _LEAST_BYTES = 4, 8, 2 << 20
"""Of the looks within one epoch: what grows does so from each part to the next, more than allocators do."""


class MemoryGrowth:
    """Looks at memory while the loop asks for batches; an epoch's end frees what was kept in it."""

    def __init__(self) -> None:
        self._looks: list = []  # (batches so far, bytes)
        self._longest: list = []
        self._next_at = 0.0
        self._devices: list | None = None

    def epoch_started(self) -> None:
        self._longest = max(self._longest, self._looks, key=len)
        self._looks = []

    def asked(self, now: float, batches: int) -> None:
        if now >= self._next_at:
            self._next_at = now + _EVERY_S
            if self._devices is None:
                self._devices = cuda_devices()
            self._looks.append((batches, _taken_bytes(self._devices)))

    def bytes_per_batch(self) -> float:
        """Return what each batch surely adds; 0 where memory is as low in any later part of an epoch."""
        looks = max(self._longest, self._looks, key=len)
        each = len(looks) // _PARTS
        if len(looks) < _LEAST_LOOKS:
            return 0.0
        lows = [min(taken for _, taken in looks[at : at + each]) for at in range(0, _PARTS * each, each)]
        least = min(lows[at] - lows[at - 1] for at in range(1, _PARTS))
        batches = (looks[(_PARTS - 1) * each][0] - looks[0][0]) / (_PARTS - 1)
        return least / max(1.0, batches) if least >= _LEAST_BYTES else 0.0


def _taken_bytes(devices: list) -> int:
    """Return what tensors take of CUDA devices; without any, the memory of this process alone."""
    if devices:
        return sum(sys.modules["torch"].cuda.memory_allocated(device) for device in devices)
    return own_bytes()
