"""Memory that the training process takes more of with each batch, or with each epoch."""

from __future__ import annotations

import sys

from .device import cuda_devices
from .host import own_bytes

_EVERY_S = 0.05
_PARTS, _MIN_LOOKS, _MIN_BYTES = 4, 8, 2 << 20
"""Of the looks within one epoch: what grows does so from each part to the next, more than allocators do."""
_FEW = 4
"""What is reserved on top is no growth of epochs where tensors, or later steps, take such a part of it."""


class MemoryGrowth:
    """Looks at memory while the loop asks for batches; an epoch's end frees what was kept in it."""

    def __init__(self) -> None:
        self._looks: list = []  # (batches so far, bytes, peaks of bytes reserved and allocated)
        self._longest: list = []
        self._began: tuple | None = None  # those peaks at the epoch's start
        self._grown: list = []  # by epoch, what was reserved on top
        self._next_at = 0.0
        self._devices: list | None = None

    def epoch_started(self) -> None:
        self._end_epoch()
        if self._devices is not None:
            self._began = _taken(self._devices)[1]

    def _end_epoch(self) -> None:
        looks, self._looks = self._looks, []
        self._longest = max(self._longest, looks, key=len)
        if self._began is not None and looks:
            reserved, allocated = (now - before for now, before in zip(looks[-1][2], self._began))  # noqa: B905 - Python 3.9
            self._grown.append(max(0, reserved) if allocated < reserved / _FEW else 0)

    def asked(self, now: float, batches: int) -> None:
        if now >= self._next_at:
            self._next_at = now + _EVERY_S
            if self._devices is None:
                self._devices = cuda_devices()
            self._looks.append((batches, *_taken(self._devices)))

    def facts(self) -> dict:
        """Return what batches and epochs add, for the parent's record of the loop; the window is closed."""
        self._end_epoch()
        return {"growth_bytes_per_batch": self._per_batch(), "growth_bytes_per_epoch": self._per_epoch()}

    def _per_batch(self) -> float:
        """Return what each batch surely adds; 0 where memory is as low in any later part of an epoch."""
        looks, each = self._longest, len(self._longest) // _PARTS
        if len(looks) < _MIN_LOOKS:
            return 0.0
        lows = [min(taken for _, taken, _ in looks[at : at + each]) for at in range(0, _PARTS * each, each)]
        least = min(lows[at] - lows[at - 1] for at in range(1, _PARTS))
        batches = (looks[(_PARTS - 1) * each][0] - looks[0][0]) / (_PARTS - 1)
        return least / max(1.0, batches) if least >= _MIN_BYTES else 0.0

    def _per_epoch(self) -> int | None:
        """Return what each epoch surely reserves on top before its steps are steady; None if none was seen.

        What comes between epochs, such as a validation, is left out; so are epochs that the observer ends.
        """
        if not self._grown:
            return None
        (middle, _), (last, _) = (self._longest[at][2] for at in (len(self._longest) // 2, -1))
        least = min(self._grown)
        return least if last - middle <= least / _FEW else 0


def _taken(devices: list) -> tuple:
    """Return what tensors take of CUDA devices, and the peaks of what is reserved and what they took.

    Without devices it is the memory of this process alone.
    """
    if not devices:
        return own_bytes(), (0, 0)
    each = [sys.modules["torch"].cuda.memory_stats(device) for device in devices]
    names = ("allocated_bytes.all.current", "reserved_bytes.all.peak", "allocated_bytes.all.peak")
    current, *peaks = (sum(stats.get(name, 0) for stats in each) for name in names)
    return current, tuple(peaks)
