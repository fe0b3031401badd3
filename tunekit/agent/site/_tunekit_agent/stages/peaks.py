"""Peak device memory of one batch, in its two parts: forward and backward, then the optimizer."""

from __future__ import annotations

from typing import Any

from ..loader import batches
from ..loader.storages import data_bytes
from .runner import Missing, Stage


class DevicePeak:
    """Reads the process's peak device memory."""

    def __init__(self, cuda: Any, device: Any) -> None:
        self._cuda, self._device = cuda, device

    @classmethod
    def of(cls, loop: Any) -> DevicePeak | None:
        """Return the reader of a loop's device; None on a CPU."""
        return None if loop.device is None else cls(loop.torch.cuda, loop.device)

    def begin(self, gives_back: bool = False) -> None:
        """Reset the peaks; `gives_back` empties the cache, which would otherwise count as this batch's."""
        if gives_back:
            self._cuda.empty_cache()
        self._cuda.reset_peak_memory_stats(self._device)

    def allocated_bytes(self) -> int:
        """Return the peak of allocated memory since the reset."""
        return int(self._cuda.max_memory_allocated(self._device))

    def reserved_bytes(self) -> int:
        """Return the peak of reserved memory since the reset."""
        return int(self._cuda.max_memory_reserved(self._device))

    def read_bytes(self) -> int:
        """Return the peak of allocated memory since it was last read."""
        peak_bytes = self.allocated_bytes()
        self.begin()
        return peak_bytes


class Peaks(Stage):
    """Measures the first uninterrupted batch that ends in a step; earlier batches only accumulate.

    Where optimizers step in turn, as a GAN's do, the forward and backward passes between their steps are of
    the first part. What runs after the last step is of the second. The peaks of the measurement were read
    before, so resetting them loses nothing.
    """

    name = "peaks"

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._peak: Any = DevicePeak.of(self._loop)
        self._has_begun = False
        self._depth = 0  # of steps within steps
        self._gradients_bytes = self._batch_bytes = 0
        self._outside: list = []  # peaks before each step
        self._inside: list = []
        self._loss_before: Any = None

    def asked(self, source: Any) -> None:
        """End the batch that made a step, else begin with the next."""
        if self._peak is None:
            self.is_over = True
            return
        if self._turns.asked() and self._inside:
            self._facts = {
                "forward_backward_bytes": max(self._outside),
                "optimizer_bytes": max(*self._inside, self._peak.allocated_bytes()),
                "gradients_at_start_bytes": self._gradients_bytes,
                "batch_bytes": self._batch_bytes,
            }
            self.is_over = True
            return
        self._has_begun, self._depth = True, 0
        self._outside, self._inside = [], []
        self._gradients_bytes = self._gradients_here()
        self._peak.begin()

    def fetched(self, batch: Any) -> None:
        self._batch_bytes = batches.size_bytes(batch)

    def step_began(self) -> None:
        """A forward and backward pass are over."""
        self._depth += 1
        if self._has_begun and self._depth == 1:
            self._outside.append(self._peak.read_bytes())
            self._loss_before = self._loop.last_loss()

    def step_ended(self) -> None:
        """Forward and backward of another optimizer may follow."""
        self._depth = max(0, self._depth - 1)
        if self._depth or not self._outside:
            return
        loss_before, self._loss_before = self._loss_before, None
        if self._loop.last_loss() is not loss_before:
            raise Missing("the optimizer calls a closure: forward and backward are within its step")
        self._inside.append(self._peak.read_bytes())

    def _gradients_here(self) -> int:
        held = {id(parameter): parameter.grad for parameter in self._loop.parameters()}
        return sum(data_bytes(grad) for grad in held.values() if grad is not None)
