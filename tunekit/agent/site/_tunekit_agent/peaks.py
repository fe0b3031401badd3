"""Peak device memory of one batch, in its two parts: forward and backward, then the optimizer."""

from __future__ import annotations

from typing import Any, Callable

from . import batches
from .details import Missing, Stage, Turns


class Peaks(Stage):
    """Looks at the first whole batch that ends in a step; batches before it only accumulate.

    Where optimizers step in turn, as a GAN's do, the forward and backward passes between their steps are of
    the first part. What runs after the last step is of the second. The peaks that the measurement told were
    read before, so resetting them loses nothing.

    Args:
        torch: the torch module of the script.
        device: torch's device of the roots; None where the loop does not train on CUDA.
        parameters: returns the roots' parameters.
        last_loss: returns the loss of the latest backward pass, another object after each.
    """

    name = "peaks"

    def __init__(
        self,
        torch: Any,
        device: Any,
        parameters: Callable[[], list],
        last_loss: Callable[[], Any] = lambda: None,
    ) -> None:
        super().__init__()
        self._cuda = torch.cuda
        self._device = device
        self._parameters = parameters
        self._last_loss = last_loss
        self._turns = Turns()
        self._has_begun = False
        self._depth = 0  # of steps within steps
        self._gradients_bytes = self._batch_bytes = 0
        self._outside: list = []  # peaks before each step
        self._inside: list = []
        self._loss_before: Any = None
        self._facts: dict | None = None

    def asked(self, source: Any) -> None:
        """End the batch that made a step, else begin with the next.

        Raises:
            Missing: no turn of the loop is a batch by itself.
        """
        if self._device is None:
            self.is_over = True
            return
        if self._turns.asked() and self._inside:
            self._facts = {
                "forward_backward_bytes": max(self._outside),
                "optimizer_bytes": max(*self._inside, self._peak_bytes()),
                "gradients_at_start_bytes": self._gradients_bytes,
                "batch_bytes": self._batch_bytes,
            }
            self.is_over = True
            return
        self._has_begun, self._depth = True, 0
        self._outside, self._inside = [], []
        self._gradients_bytes = self._gradients_here()
        self._cuda.reset_peak_memory_stats(self._device)

    def fetched(self, batch: Any) -> None:
        """Take the size of the batch."""
        self._batch_bytes = batches.size_bytes(batch)

    def interrupted(self) -> None:
        """The batch at work is not looked at: something else takes memory too."""
        self._turns.interrupted()

    def step_began(self) -> None:
        """A forward and backward pass are over."""
        self._depth += 1
        if self._has_begun and self._depth == 1:
            self._outside.append(self._read())
            self._loss_before = self._last_loss()

    def step_ended(self) -> None:
        """Forward and backward of another optimizer may follow.

        Raises:
            Missing: the step made a backward pass of its own.
        """
        self._depth = max(0, self._depth - 1)
        if not self._has_begun or self._depth or not self._outside:
            return
        loss_before, self._loss_before = self._loss_before, None
        if self._last_loss() is not loss_before:
            raise Missing("the optimizer calls a closure: forward and backward are within its step")
        self._inside.append(self._read())

    def facts(self) -> dict | None:
        """Return the plain facts of a PeaksSeen record."""
        return self._facts

    def _read(self) -> int:
        """Return the peak since it was last read."""
        peak_bytes = self._peak_bytes()
        self._cuda.reset_peak_memory_stats(self._device)
        return peak_bytes

    def _peak_bytes(self) -> int:
        return int(self._cuda.max_memory_allocated(self._device))

    def _gradients_here(self) -> int:
        """Return the bytes of the gradients that are there now."""
        held = {id(parameter): parameter.grad for parameter in self._parameters()}
        return sum(grad.numel() * grad.element_size() for grad in held.values() if grad is not None)
