"""What torch's allocator has beside the tensors of the steps: workspaces, tensors that they don't take."""

from __future__ import annotations

import contextlib
from typing import Any

_MIN_BYTES = 1 << 20
"""Smaller blocks come and go with losses and counters that a script gathers, and are no matter."""
_MOST = 1000
"""Blocks, the largest: as many as the record holds."""


class KeptBlocks:
    """Blocks of the allocator that are there before some steps and after them, and are nobody's.

    Attributes:
        sizes: bytes that were asked for, the largest first; None where torch does not tell.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._before: dict | None = None
        self.sizes: list | None = None

    def begin(self) -> None:
        self._before = self._blocks()

    def end(self, known: set) -> None:
        """The steps are through."""
        before, after = self._before, self._blocks()
        if before is not None and after is not None:
            stayed = [
                size
                for address, size in after.items()
                if before.get(address) == size and address not in known
            ]
            self.sizes = sorted(stayed, reverse=True)[:_MOST]

    def _blocks(self) -> dict | None:
        """Return the larger blocks in use, bytes by address; None where this torch does not tell them so."""
        try:
            segments = self._torch._C._cuda_memorySnapshot(None)["segments"]
            found = {}
            for segment in segments:
                address = segment["address"]
                for block in segment["blocks"]:
                    size = block.get("requested_size", block["size"])
                    if block["state"] == "active_allocated" and size >= _MIN_BYTES:
                        found[address] = size
                    address += block["size"]
            return found
        except Exception:  # a function of torch's own, which may go or answer otherwise in any version
            return None


class TemporaryBytes:
    """What an op allocates on the current device and frees again before it is through.

    It resets torch's peaks, which the agent does elsewhere too.
    """

    def __init__(self, torch: Any) -> None:
        self._c, self._cuda = torch._C, torch.cuda
        self._device: int | None = None  # None too where this torch does not tell

    def begin(self) -> None:
        self._device = None
        with contextlib.suppress(Exception):
            device = self._cuda.current_device()
            self._c._cuda_resetPeakMemoryStats(device)
            self._device = device

    def end(self) -> int:
        """Return the bytes beyond what stayed, at most; 0 where torch does not tell."""
        with contextlib.suppress(Exception):
            counts = self._c._cuda_memoryStats(self._device)["allocated_bytes"]["all"]
            return max(0, int(counts["peak"]) - int(counts["current"])) if self._device is not None else 0
        return 0
