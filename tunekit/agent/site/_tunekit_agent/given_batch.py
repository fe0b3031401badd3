"""What stages share that give the script a batch of their own, over and over."""

from __future__ import annotations

from typing import Any

from .details import Missing, Stage
from .loaders import Replay


class GivesBatch(Stage):
    """A stage whose batches take the place of the loader's, from its first turn to its last."""

    def __init__(self) -> None:
        super().__init__()
        self._at_work: Any = None  # what the script trains on: it has batch(), asked() and interrupted()
        self._why_ended: str | None = None

    def asked(self, source: Any) -> Any:
        """The loop asks for a batch; returns the one that it is given instead."""
        try:
            self._turn(source)
        except Missing as reason:
            self._why_ended, self.is_over = str(reason), True
        return None if self.is_over or self._at_work is None else Replay(self._at_work.batch())

    def interrupted(self) -> None:
        """A validation runs, or an epoch begins: that is no part of a batch."""
        if self._at_work is not None:
            self._at_work.interrupted()

    def _turn(self, source: Any) -> None:
        """The loop is through with what it was given, or begins.

        Raises:
            Missing: nothing more can be seen.
        """


class DevicePeak:
    """Reads the device memory that the process takes at most.

    Args:
        cuda: torch.cuda.
        device: torch's device of the roots.
    """

    def __init__(self, cuda: Any, device: Any) -> None:
        self._cuda, self._device = cuda, device

    def begin(self, gives_back: bool = False) -> None:
        """Forget the peaks so far.

        Args:
            gives_back: what torch keeps of other batches too, which would be taken for this one's.
        """
        if gives_back:
            self._cuda.empty_cache()
        self._cuda.reset_peak_memory_stats(self._device)

    def allocated_bytes(self) -> int:
        """Return the peak of what tensors take, since."""
        return int(self._cuda.max_memory_allocated(self._device))

    def reserved_bytes(self) -> int:
        """Return the peak of what the process reserves, since."""
        return int(self._cuda.max_memory_reserved(self._device))
