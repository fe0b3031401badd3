"""What stages share that give the script a batch of their own, over and over."""

from __future__ import annotations

from typing import Any

from . import batches
from .details import Missing, Stage
from .floors import NO_LOADER
from .loaders import Replay

_MOST_TAKEN = 3
"""Batches until one is full: an epoch's last may not be."""


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
        return None if self.is_over or self._at_work is None else self._answer()

    def interrupted(self) -> None:
        """A validation runs, or an epoch begins: that is no part of a batch."""
        if self._at_work is not None:
            self._at_work.interrupted()

    def _answer(self) -> Any:
        """Return what the loop goes on with."""
        return Replay(self._at_work.batch())

    def _turn(self, source: Any) -> None:
        """The loop is through with what it was given, or begins.

        Raises:
            Missing: nothing more can be seen.
        """

    def _taken(self, source: Any) -> tuple:
        """Return a full batch that the script does not get, and the samples in it.

        Raises:
            Missing: there is none.
        """
        if source is None:
            raise Missing(NO_LOADER)
        declared = source.info.facts.get("batch_size")
        for _ in range(_MOST_TAKEN):
            try:
                batch = source.take()
            except StopIteration:
                raise Missing("the loader has no further epoch") from None
            self.moved(self.name)
            size = batches.leading_size(batch)
            if size and declared in (None, size):
                return batch, size
        wanted = "" if declared is None else f", not its loader's batch size, {declared}"
        raise Missing(f"the first dimension of the batch's first tensor is {size or 'n/a'}{wanted}")


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
