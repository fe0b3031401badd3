"""Peak device memory of one batch, in its two parts: forward and backward, then the optimizer."""

from __future__ import annotations

from typing import Any, Callable

from . import batches
from .details import Stage


class Peaks(Stage):
    """Looks at the first batch that ends in a step; batches before it only accumulate.

    The peaks that the measurement told were read before, so resetting them loses nothing.

    Args:
        torch: the torch module of the script.
        device: torch's device of the roots; None where the loop does not train on CUDA.
        parameters: returns the roots' parameters.
    """

    name = "peaks"

    def __init__(self, torch: Any, device: Any, parameters: Callable[[], list]) -> None:
        super().__init__()
        self._cuda = torch.cuda
        self._device = device
        self._parameters = parameters
        self._has_begun = False
        self._gradients_bytes = self._batch_bytes = 0
        self._forward_backward_bytes: int | None = None
        self._facts: dict | None = None

    def asked(self, source: Any) -> None:
        """End the batch that made a step, else begin with the next."""
        if self._device is None:
            self.is_over = True
            return
        if self._forward_backward_bytes is not None:
            self._facts = {
                "forward_backward_bytes": self._forward_backward_bytes,
                "optimizer_bytes": self._peak_bytes(),
                "gradients_at_start_bytes": self._gradients_bytes,
                "batch_bytes": self._batch_bytes,
            }
            self.is_over = True
            return
        self._has_begun = True
        self._gradients_bytes = self._gradients_here()
        self._cuda.reset_peak_memory_stats(self._device)

    def fetched(self, batch: Any) -> None:
        """Take the size of the batch."""
        self._batch_bytes = batches.size_bytes(batch)

    def step_began(self) -> None:
        """Forward and backward are over with the first step."""
        if self._has_begun and self._forward_backward_bytes is None:
            self._forward_backward_bytes = self._peak_bytes()
            self._cuda.reset_peak_memory_stats(self._device)

    def facts(self) -> dict | None:
        """Return the plain facts of a PeaksSeen record."""
        return self._facts

    def _peak_bytes(self) -> int:
        return int(self._cuda.max_memory_allocated(self._device))

    def _gradients_here(self) -> int:
        """Return the bytes of the gradients that are there now."""
        held = {id(parameter): parameter.grad for parameter in self._parameters()}
        return sum(grad.numel() * grad.element_size() for grad in held.values() if grad is not None)
