"""Optimizer steps, learning rates and losses, seen through torch's own step hooks."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
import weakref
from typing import Any, Iterator

from ..faults import kept_from_script
from ..measure import device
from ..options import after
from ..originals import time
from ..process import Owner

_LOSSES = 256
_LR_STEPS = 16
"""Steps over which a learning rate is looked at: a hand-made warm-up moves it at each."""
_MAX_NODES = 50_000
"""Of a graph that are walked: a loop that accumulates has it walked once, any other never."""
_LEAVES, _ELEMENTS = 32, 16
"""Parameters that are looked at, evenly spread, and elements of each."""
_CERTAIN_CHANGES = 3
"""Backward passes after which the parameters had changed: one may be a script that sets its model up."""
_INNER_CHANGES, _INNER_S = 64, 10.0
"""The same where there is an optimizer: a script may take a few steps of its own for each of its."""
_PASSES, _PASSES_S = 64, 20.0
"""Gradients without any optimizer in the process, where no parameter can be seen to change."""


def keep_from_dynamo(hook: Any) -> Any:
    """Have torch.compile call a hook as it is where it compiles an optimizer's step; returns the hook.

    What it can't look into it warns of, and a script may have warnings raised. This is the mark that
    `torch.compiler.disable` leaves, which would import the compiler.
    """
    hook._torchdynamo_disable = True
    return hook


class StepWatch:
    """Sees optimizer steps and keeps the detached losses.

    Args:
        observer: receives step_began(now) and stepped(optimizer, now).
        manual_updates: is asked about gradients until an optimizer steps.

    Attributes:
        optimizers: what is known of each optimizer that stepped, by its id, in order.
        steps: how often each stepped; a step that a gradient scaler skipped counts.
        backwards: backward passes outside of steps (a closure's belong to its step).
        scales_gradients: whether the script uses a gradient scaler.
        losses: of the first backward passes, detached and, on a device, unread.
    """

    def __init__(self, observer: Any, owner: Owner, manual_updates: ManualUpdates) -> None:
        self.observer = observer
        self.has_failed = False
        self.manual_updates = manual_updates
        self.optimizers: dict = {}
        self._living: dict = {}  # weak references to them
        self.steps: dict = {}
        self.backwards = 0
        self.scales_gradients = False
        self.losses: list = []
        self.last_loss: Any = None
        self._inside: set = set()  # optimizers that are within a step
        self._recorded: list = []  # weak references to those that stepped while a CUDA graph is captured
        self._scaled: tuple = (lambda: None, None)  # the scaler's last result, and the loss that it scaled
        self._kept: KeptHooks | None = None
        self._owner = owner

    def install_optimizer(self, module: Any) -> None:
        module.register_optimizer_step_pre_hook(self._before)
        module.register_optimizer_step_post_hook(self._after)

    def install_graphs(self, module: Any) -> None:
        """Wrap `torch.cuda.CUDAGraph`: each replay makes the steps that were captured."""
        after(module.CUDAGraph, "capture_begin", lambda *_, **__: self._recorded.clear())
        after(module.CUDAGraph, "capture_end", self._captured)
        after(module.CUDAGraph, "replay", self._replayed)

    def _captured(self, _: None, graph: Any) -> None:
        graph._tunekit_steps, self._recorded = self._recorded, []

    def _replayed(self, _: None, graph: Any) -> None:
        for reference in getattr(graph, "_tunekit_steps", ()):
            optimizer = reference()
            if optimizer is not None:
                self._saw_step(optimizer)

    def remember_hooks(self, torch: Any) -> None:
        """Remember which classes are hooked, before anything compiled runs."""
        self._kept = KeptHooks(torch, self._before, self._after)

    def keep_hooks(self, torch: Any) -> None:
        if self._kept is not None:
            self._kept.restore()

    def install_autograd(self, module: Any) -> None:
        """Wrap `torch.autograd.backward`, which `Tensor.backward` calls, to keep the losses unread.

        `torch.autograd.grad`, which torch.func calls, is wrapped until an optimizer steps.
        """
        original, original_grad = module.backward, module.grad

        @functools.wraps(original)
        def backward(tensors, *args, **kwargs):
            self._saw_backward(tensors)
            return original(tensors, *args, **kwargs)

        @functools.wraps(original_grad)
        def grad(*args, **kwargs):
            if self.steps:
                module.grad = original_grad
            elif self._owner.is_here:
                self._saw_gradients(())
            return original_grad(*args, **kwargs)

        module.backward, module.grad = backward, grad

    def install_scaler(self, module: Any) -> None:
        """Wrap a `GradScaler`: a step that it skips is a step, and its scaled loss is not the loss."""
        scaler_class = module.GradScaler
        if "step" not in vars(scaler_class) or "scale" not in vars(scaler_class):
            return  # it inherits both from one that is wrapped
        original_step = scaler_class.step

        @functools.wraps(original_step)
        def step(scaler, optimizer, *args, **kwargs):
            before = self.steps.get(id(optimizer), 0)
            result = original_step(scaler, optimizer, *args, **kwargs)
            if scaler.is_enabled() and self.steps.get(id(optimizer), 0) == before:
                self._saw_step(optimizer)
            return result

        scaler_class.step = step
        after(scaler_class, "scale", self._saw_scaled)

    def failed(self, error: Exception) -> None:
        self.observer.failed(error)

    @kept_from_script
    def _saw_scaled(self, scaled: Any, scaler: Any, outputs: Any) -> None:
        if scaler.is_enabled() and hasattr(outputs, "detach"):
            self.scales_gradients = True
            self._scaled = (weakref.ref(scaled), outputs.detach())

    @kept_from_script
    def _saw_gradients(self, losses: tuple) -> None:
        self.manual_updates.saw_gradients(losses)

    def _read_learning_rate(self, key: int, optimizer: Any) -> None:
        """Keep the base learning rate; one that moves without a scheduler's base has none that is known."""
        with contextlib.suppress(TypeError):
            self._living[key] = weakref.ref(optimizer)
        rate = base_learning_rate(optimizer)
        known = self.optimizers.get(key)
        if known is None:
            self.optimizers[key] = (type(optimizer).__name__, rate)
        elif known[1] is not None and rate != known[1]:
            self.optimizers[key] = (known[0], None)

    def loss_values(self) -> list:
        """Return the first losses, in order, with six digits: there are many; None for NaN and infinities."""
        values = map(_value, self.losses)
        return [float(f"{value:.6g}") if math.isfinite(value) else None for value in values]

    def last_loss_value(self) -> float | None:
        """Return the last loss as a float, None where there was none."""
        try:
            return float(self.last_loss)
        except Exception:  # none, or a CUDA graph has overwritten it; torch says so
            return None

    def seen(self) -> list:
        """Return every optimizer that stepped, in order, as plain facts."""
        return [{"class_name": name, "base_lr": rate} for name, rate in self.optimizers.values()]

    def living(self) -> list:
        """Return the optimizers that stepped and are still there."""
        return [one for one in (reference() for reference in self._living.values()) if one is not None]

    def is_first(self, optimizer: Any) -> bool:
        """Return whether this optimizer was the first to step."""
        return id(optimizer) == next(iter(self.optimizers), None)

    @kept_from_script
    def _saw_backward(self, tensors: Any) -> None:
        if not self._inside:
            self.backwards += 1
        losses = tuple(tensors) if isinstance(tensors, (tuple, list)) else (tensors,)
        if not self.steps and not self._inside and self._owner.is_here:
            self.manual_updates.saw_gradients(losses)
        try:
            if not losses or any(loss.numel() != 1 for loss in losses):
                return
            scaled, unscaled = self._scaled
            kept = unscaled if scaled() is losses[0] else losses[0].detach()
            for loss in losses[1:]:
                kept = kept + loss.detach()
            if len(self.losses) < _LOSSES and not device.is_capturing():
                # A copy: the script may change its loss, and a CUDA graph's next replay overwrites it. Among
                # the script's own tensors in the heap it would be in the way of the next batch.
                self.losses.append(_value(kept) if kept.device.type == "cpu" else kept.clone())
        except Exception:
            return  # nothing that torch would go back from, or a tensor of another kind: torch will say
        self.last_loss = kept

    @keep_from_dynamo
    @kept_from_script
    def _before(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if id(optimizer) in self._inside or not self._owner.is_here:
            return
        self._inside.add(id(optimizer))
        if device.is_capturing():  # nothing is computed yet, and the device may not be asked for anything
            self._recorded.append(weakref.ref(optimizer))
        else:
            self.observer.step_began(time.perf_counter())

    @keep_from_dynamo
    @kept_from_script
    def _after(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        if id(optimizer) not in self._inside:
            return  # the outer end of a step inside a step, as a subclass calling super().step() makes
        self._inside.discard(id(optimizer))
        if not device.is_capturing():
            self._count(optimizer)

    def _count(self, optimizer: Any) -> None:
        if not self._owner.is_here:
            return
        key = id(optimizer)
        count = self.steps[key] = self.steps.get(key, 0) + 1
        if count <= _LR_STEPS:
            self._read_learning_rate(key, optimizer)
        self.observer.stepped(optimizer, time.perf_counter())

    _saw_step = kept_from_script(_count)


class KeptHooks:
    """Hooks steps again that torch took the hooks from: before 2.3 it does so when compiled code first runs.

    Args:
        before: called with (optimizer, args, kwargs) before a step.
        after: the same after it.
    """

    def __init__(self, torch: Any, before: Any, after: Any) -> None:
        self._before, self._after = before, after
        own_steps = {kind: vars(kind).get("step") for kind in _optimizer_classes(torch)}
        self._steps = {kind: step for kind, step in own_steps.items() if getattr(step, "hooked", False)}

    def restore(self) -> None:
        for kind, hooked in self._steps.items():
            if kind.step is getattr(hooked, "__wrapped__", None):
                kind.step = self._steps[kind] = _hooked(kind.step, self._before, self._after)


def _hooked(step: Any, before: Any, after: Any) -> Any:
    @functools.wraps(step)
    def hooked_step(optimizer, *args, **kwargs):
        before(optimizer, args, kwargs)
        result = step(optimizer, *args, **kwargs)
        after(optimizer, args, kwargs)
        return result

    hooked_step.hooked = True
    return hooked_step


def _value(loss: Any) -> float:
    """Return a loss as a float; what can't be read is no number."""
    try:
        return float(loss)
    except Exception:
        return math.nan


def base_learning_rate(optimizer: Any) -> float | None:
    """Return the first group's learning rate after warm-up: max_lr, else initial_lr, else lr.

    A scheduler's warm-up shows a tiny or zero `lr` at the first step; it stores the rate that it
    warms up to in the group.
    """
    rates = (group.get(name) for group in optimizer.param_groups for name in ("max_lr", "initial_lr", "lr"))
    try:
        return float(next(rate for rate in rates if rate is not None))
    except Exception:  # none, a rate on the meta device, one for each of several, a schedule
        return None


class ManualUpdates:
    """Watches the gradients before the first optimizer step; after that step it is not asked any more.

    The proof is a parameter that another value stands in at the next backward pass: `p._version` would not
    show what is written through `p.data`. A loop that accumulates gradients changes none.

    Attributes:
        passes: gradients that were asked for.
    """

    def __init__(self, log: Any) -> None:
        self._log = log
        self._is_over = False
        self.passes = self._changes = 0
        self._first_at = 0.0
        self._leaves: list | None = None  # weak references
        self._values: Any = None

    def saw_gradients(self, losses: tuple) -> None:
        """Gradients are asked for.

        Args:
            losses: of a backward pass; empty for torch.autograd.grad, which leaves them to its caller.
        """
        if self._is_over:
            return
        now = time.perf_counter()
        self._first_at = self._first_at or now
        self.passes += 1
        if losses and self.passes > 1:
            try:
                self._compare(losses)
            except Exception:  # a tensor of another kind: what is not seen is not reported
                self._leaves, self._values = [], None
        self._judge(now - self._first_at)

    def _compare(self, losses: tuple) -> None:
        torch = sys.modules["torch"]
        # Parameters that are spread over ranks come and go by themselves.
        is_sharded = torch.distributed.is_available() and torch.distributed.is_initialized()
        if is_sharded or device.is_capturing():
            return
        if self._leaves is None:
            self._leaves = [weakref.ref(leaf) for leaf in _parameters_of(torch, losses)]
        values = [_first_elements(reference()) for reference in self._leaves]
        self._changes += self._values is not None and values != self._values
        self._values = values

    def _judge(self, seconds: float) -> None:
        if _has_optimizer(sys.modules["torch"]):
            is_certain = self._changes >= _INNER_CHANGES and seconds > _INNER_S
        else:
            is_certain = self._changes >= _CERTAIN_CHANGES or (self.passes >= _PASSES and seconds > _PASSES_S)
        if is_certain:
            self._is_over = True
            self._log.emit("by_hand", passes=self.passes, changes=self._changes, seconds=seconds)


def _parameters_of(torch: Any, losses: tuple) -> list:
    """Return parameters that the losses hang on; where there is no nn.Parameter, leaves of any kind.

    What an attack changes is a leaf beside them: the images, or what is added to these.
    """
    seen: set = set()
    leaves: list = []
    waiting = [loss.grad_fn for loss in losses if loss.grad_fn is not None]
    while waiting and len(seen) < _MAX_NODES:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        if leaf is not None:
            leaves.append(leaf)
        waiting += [following for following, _ in node.next_functions if following is not None]
    parameters = [leaf for leaf in leaves if isinstance(leaf, torch.nn.Parameter)] or leaves
    return parameters[:: max(1, len(parameters) // _LEAVES)][:_LEAVES]


def _first_elements(leaf: Any) -> Any:
    if leaf is None or not leaf.numel() or not leaf.untyped_storage().nbytes():
        return None
    return leaf.detach().reshape(-1)[:_ELEMENTS].tolist()


def _has_optimizer(torch: Any) -> bool:
    """Return whether an optimizer of torch was made: its class is hooked then."""
    return any(getattr(kind.step, "hooked", False) for kind in _optimizer_classes(torch))


def _optimizer_classes(torch: Any) -> Iterator[Any]:
    waiting = [torch.optim.Optimizer]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        yield kind
