"""Optimizer steps, learning rates and losses, seen through torch's own step hooks."""

from __future__ import annotations

import functools
import os
import time
from typing import Any


class StepWatch:
    """Sees optimizer steps and keeps the detached losses.

    Args:
        observer: receives stepped(optimizer, now).
    """

    def __init__(self, observer: Any) -> None:
        self.observer = observer
        self.optimizers: dict = {}
        self.steps: dict = {}
        self.first_loss: Any = None
        self.last_loss: Any = None
        self._inside: set = set()  # optimizers that are within a step
        self._pid = os.getpid()

    def install_optimizer(self, module: Any) -> None:
        """Register step hooks in `torch.optim.optimizer`."""
        module.register_optimizer_step_pre_hook(self._before)
        module.register_optimizer_step_post_hook(self._after)

    def install_tensor(self, module: Any) -> None:
        """Wrap `Tensor.backward` in `torch._tensor`, to keep the losses without reading them."""
        tensor_class = module.Tensor
        original = tensor_class.backward

        @functools.wraps(original)
        def backward(tensor, *args, **kwargs):
            if tensor.numel() == 1:
                self._keep(tensor.detach())
            return original(tensor, *args, **kwargs)

        tensor_class.backward = backward

    def loss_values(self) -> tuple:
        """Return the first and the last loss as floats, None where there was none."""
        kept = (self.first_loss, self.last_loss)
        return tuple(None if loss is None else float(loss) for loss in kept)

    def seen(self) -> list:
        """Return every optimizer that stepped, in order, as plain facts."""
        return [
            {"class_name": name, "base_lr": learning_rate, "parameter_groups": groups}
            for name, learning_rate, groups in self.optimizers.values()
        ]

    def _keep(self, loss: Any) -> None:
        if self.first_loss is None:
            self.first_loss = loss
        self.last_loss = loss

    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._inside.add(id(optimizer))

    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        key = id(optimizer)
        if key not in self._inside or os.getpid() != self._pid:
            return  # the outer end of a step inside a step, as a subclass calling super().step() makes
        self._inside.discard(key)
        if key not in self.optimizers:
            self.optimizers[key] = (
                type(optimizer).__name__,
                base_learning_rate(optimizer),
                len(optimizer.param_groups),
            )
        self.steps[key] = self.steps.get(key, 0) + 1
        self.observer.stepped(optimizer, time.perf_counter())


def base_learning_rate(optimizer: Any) -> float | None:
    """Return the first group's learning rate after warm-up: max_lr, else initial_lr, else lr.

    A scheduler's warm-up shows a tiny or zero `lr` at the first step; it stores the rate that it
    warms up to in the group.
    """
    for group in optimizer.param_groups:
        for name in ("max_lr", "initial_lr", "lr"):
            if group.get(name) is not None:
                return float(group[name])
    return None
