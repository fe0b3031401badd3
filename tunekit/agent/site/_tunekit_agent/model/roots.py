"""Finds the roots: the outermost modules that own the parameters which the optimizers step.

`nn.Module.__call__` is replaced only while no module is running: the outermost call restores it,
so inner modules run untouched and torch.compile traces pristine classes. Once the roots are known
it is restored for good; a hook left in place would stop torch.compile.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
import threading
from typing import Any, Callable

from ..faults import kept_from_script
from ..loader import batches
from ..measure import device as devices
from . import knobs


class SeenModule:
    """One outermost module, by first forward under grad."""

    def __init__(self, torch: Any, module: Any, ordinal_of: dict) -> None:
        self.module = module
        parameters = list(module.parameters())
        self.parameter_ids = {id(parameter) for parameter in parameters}
        self.numel = sum(_numel(parameter) for parameter in parameters)
        kind = type(getattr(module, "_orig_mod", module))  # what torch.compile wraps
        self.class_name = kind.__module__ + "." + kind.__qualname__
        key = (self.class_name, self.numel)
        self.ordinal = ordinal_of[key] = ordinal_of.get(key, -1) + 1
        self.device = devices.of_tensors(parameters)
        self.inputs: list = []
        self._step: int | None = None
        self._elements = 0
        self.forwards = 0
        weights = [one for one in parameters if _numel(one) > 1 and knobs.has_channels(one)]
        self.has_4d_weights = bool(weights)
        self.channels_last = any(_is_channels_last(torch, weight) for weight in weights)
        self.compiled = knobs.is_compiled(module)
        self.autocast_dtype = _half_precision(torch, self.device, parameters)

    def called_with(self, arguments: tuple, keywords: dict, step: int) -> None:
        """Keep the sizes of its largest inputs since the first step: others come before the loop.

        The latest step's may be an epoch's last batch.
        """
        inputs = batches.sizes_in(arguments, keywords)
        elements = sum(math.prod(one["sizes"]) for one in inputs)
        self.forwards += 1
        if (step != self._step and not self._step) or elements >= self._elements:
            self._step, self.inputs, self._elements = step, inputs, elements

    def facts(self) -> dict:
        return {
            "class_name": self.class_name,
            "parameters": self.numel,
            "ordinal": self.ordinal,
            "has_4d_weights": self.has_4d_weights,
            "compiled": self.compiled,
            "channels_last": self.channels_last,
            "autocast_dtype": self.autocast_dtype,
            "inputs": self.inputs,
        }


class RootFinder:
    """Watches outermost forwards until the roots are known.

    Args:
        wanted: addresses of the roots that the baseline learnt; they are handed to `apply` before
            their first forward.
        apply: called with the torch module and each wanted root's `SeenModule`.
        is_fetching: whether a loader is fetching now; forwards inside it are transforms.
        failed: called with an exception of our own, which must not reach the script.
        ran: called with the torch module after each outermost forward.
        device_memory_bytes: what torch may reserve on a CUDA device, None for all of it.
        begins: called like `apply`, with each module's `SeenModule`, before its first forward under grad.
    """

    def __init__(
        self,
        wanted: list,
        apply: Callable,
        is_fetching: Callable,
        failed: Callable,
        ran: Callable,
        device_memory_bytes: int | None = None,
        begins: Callable = lambda torch, seen: None,
    ) -> None:
        self._wanted = [(root["class_name"], root["parameters"], root["ordinal"]) for root in wanted]
        self._apply = apply
        self._is_fetching = is_fetching
        self.failed = failed
        self._ran, self._begins = ran, begins
        self._cap = MemoryCap(device_memory_bytes)
        self._thread = threading.get_ident()
        self._seen: dict = {}
        self._unshaped: dict = {}  # modules that had lazy parameters at their first forward
        self._ordinals: dict = {}
        self._stepped: set = set()
        self._steps = 0
        self._class: Any = None
        self.applied: list = []

    def install(self, module: Any) -> None:
        self._class = module.Module
        self._original = original = module.Module.__call__
        finder = self

        def __call__(module, *args, **kwargs):  # noqa: N807
            # Others (torch.fx) may have kept this function, or put one of their own in its place.
            in_place = finder._class is not None and finder._class.__call__ is __call__
            if not in_place or threading.get_ident() != finder._thread or finder._is_fetching():
                return original(module, *args, **kwargs)
            finder._class.__call__ = original
            try:
                finder._watch(module, args, kwargs)
                result = original(module, *args, **kwargs)
                finder._has_run()
                return result
            finally:
                if finder._class is not None:
                    finder._class.__call__ = __call__

        module.Module.__call__ = __call__

    def stop(self) -> None:
        """Restore `nn.Module.__call__` for good."""
        if self._class is not None:
            self._class.__call__ = self._original
            self._class = None

    def forget(self) -> None:
        """Hold no module any longer: the script may be done with it."""
        self._seen, self._unshaped, self.applied = {}, {}, []

    def stepped(self, optimizer: Any) -> None:
        """Remember the parameters that this optimizer steps."""
        self._steps += 1
        for group in optimizer.param_groups:
            self._stepped.update(id(parameter) for parameter in group["params"] if parameter.grad is not None)

    def device(self) -> Any:
        """Return torch's device of the roots, None where there is no root."""
        return next((seen.device for seen in self.roots()), None)

    def device_facts(self) -> dict:
        """Return type, name and memory of the roots' device, with the memory that it is held to."""
        device = self.device()
        return self._cap.with_cap(devices.facts_of(device), device)

    def roots(self) -> list:
        """Return the seen modules that own stepped parameters and lie in no other such module."""
        owners = [seen for seen in self._seen.values() if seen.parameter_ids & self._stepped]
        return [
            seen
            for seen in owners
            if not any(other is not seen and seen.parameter_ids < other.parameter_ids for other in owners)
        ]

    def cover_step(self) -> bool:
        """Return whether the roots own every parameter that was stepped."""
        owned: set = set().union(*(root.parameter_ids for root in self.roots()))
        return bool(self._stepped) and self._stepped <= owned

    @kept_from_script
    def _has_run(self) -> None:
        self._ran(sys.modules["torch"])

    def _watch(self, module: Any, args: tuple, kwargs: dict) -> None:
        try:
            torch = sys.modules["torch"]
            self._cap.entering(torch, module)  # without grad too: a validation may come first
            # A tracer would put what we look at into its graph.
            if torch.is_grad_enabled() and not torch.jit.is_tracing():
                self._saw(torch, module, args, kwargs)
        except Exception as error:
            if "OutOfMemory" in type(error).__name__:
                raise  # the knob does not fit: the script's outcome, not a fault of ours
            self.failed(error)

    def _saw(self, torch: Any, module: Any, args: tuple, kwargs: dict) -> None:
        seen = self._seen.get(id(module))
        if seen is None:
            if id(module) not in self._unshaped and _has_unshaped(torch, module):
                self._unshaped[id(module)] = module  # this forward gives its parameters their shapes
                return
            seen = self._seen[id(module)] = SeenModule(torch, module, self._ordinals)
            if (seen.class_name, seen.numel, seen.ordinal) in self._wanted:
                self.applied.append(seen)
                self._apply(torch, seen)
            self._begins(torch, seen)
        seen.called_with(args, kwargs, self._steps)


def _has_unshaped(torch: Any, module: Any) -> bool:
    """Return whether a lazy module lies within: its first forward gives its tensors their shapes."""
    tensors = itertools.chain(module.parameters(), module.buffers())
    return any(torch.nn.parameter.is_lazy(one) for one in tensors)


def _numel(parameter: Any) -> int:
    try:
        return int(parameter.numel())
    except Exception:  # of a lazy module that never ran, or a kind of tensor that does not tell
        return 0


def _is_channels_last(torch: Any, weight: Any) -> bool:
    try:
        return weight.is_contiguous(memory_format=torch.channels_last) and not weight.is_contiguous()
    except Exception:  # a kind of tensor that has no such order
        return False


def _half_precision(torch: Any, device: Any, parameters: list) -> str | None:
    """Return autocast's precision, else that of the parameters if it is a half one."""
    kind = getattr(device, "type", "cpu")
    dtype = parameters[0].dtype if parameters else None
    with contextlib.suppress(Exception):
        if kind == "cuda" and torch.is_autocast_enabled():
            dtype = torch.get_autocast_gpu_dtype()
        elif kind == "cpu" and torch.is_autocast_cpu_enabled():
            dtype = torch.get_autocast_cpu_dtype()
    return str(dtype).replace("torch.", "") if dtype in (torch.bfloat16, torch.float16) else None


class MemoryCap:
    """Caps what torch reserves on each CUDA device that a module lies on, once.

    CUDA is never started here: a module whose parameters lie on a device has started it. Where torch can't
    cap (another allocator is plugged in), the process goes on without, and `with_cap` says so.

    Args:
        limit_bytes: what torch may reserve on a device; None leaves the process alone.
    """

    def __init__(self, limit_bytes: int | None) -> None:
        self._limit_bytes = limit_bytes
        self._is_capped: dict = {}  # by device that was looked at

    def entering(self, torch: Any, module: Any) -> None:
        """Cap the devices of a module that is about to run."""
        if self._limit_bytes is None:
            return
        for device in {parameter.device for parameter in module.parameters()}:
            if device.type == "cuda" and device not in self._is_capped and torch.cuda.is_initialized():
                self._is_capped[device] = _capped(torch, device, self._limit_bytes)

    def with_cap(self, facts: dict, device: Any) -> dict:
        """Return the facts of a device with the memory that the process may use of it."""
        return {**facts, "memory_bytes": self._limit_bytes} if self._is_capped.get(device) else facts


def _capped(torch: Any, device: Any, limit_bytes: int) -> bool:
    """Cap a device that has more, and return whether it is."""
    try:
        whole_bytes = int(torch.cuda.get_device_properties(device).total_memory)
        if whole_bytes > limit_bytes:
            torch.cuda.set_per_process_memory_fraction(limit_bytes / whole_bytes, device)
    except Exception:
        return False
    return whole_bytes > limit_bytes
