"""Precision, compile and channels_last applied to a root in place, and the precision that the script sets."""

from __future__ import annotations

import contextlib
import functools
import gc
import sys
import threading
import types
from typing import Any, Iterator

from .data_parallel import is_ddp

LOADER_KNOBS = ("batch_size", "num_workers", "prefetch_factor", "pin_memory", "persistent_workers")


class NotApplied(Exception):  # noqa: N818 - says what is the case
    """Knobs could not be set.

    Args:
        causes: why, by the name of each; in a traceback stands the first.

    Attributes:
        knobs: their names.
    """

    def __init__(self, causes: dict) -> None:
        super().__init__(*causes)
        self.causes = causes
        self.knobs = tuple(causes)
        self.__cause__ = next(iter(causes.values()))


def split(knobs: dict) -> tuple:
    """Return the knobs of the loader and those of the roots."""
    loader = {name: value for name, value in knobs.items() if name in LOADER_KNOBS}
    return loader, {name: value for name, value in knobs.items() if name not in LOADER_KNOBS}


def apply(torch: Any, module: Any, knobs: dict, device_type: str) -> None:
    """Apply the model knobs to a root that is about to run for the first time, whichever of them fail.

    Args:
        knobs: `channels_last`, `precision` and `compile`; absent ones are left alone.
        device_type: "cuda" or "cpu", for autocast.

    Raises:
        NotApplied: some could not be set; the others are.
    """
    settings: list = []
    precision = knobs.get("precision")
    if precision:
        settings.append(("precision", lambda: set_matmul_precision(torch, precision, device_type)))
    if knobs.get("channels_last"):
        settings.append(("channels_last", functools.partial(_set_channels_last, torch, module)))
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(precision)
    if dtype is not None:
        settings.append(("precision", functools.partial(_autocast, torch, module, device_type, dtype)))
    if knobs.get("compile"):
        settings.append(("compile", functools.partial(_compile, torch, module)))
    causes: dict = {}
    for knob, set_it in settings:
        try:
            with applying(knob):
                set_it()
        except NotApplied as error:
            causes.update(error.causes)
    if causes:
        raise NotApplied(causes)


def has_channels(tensor: Any) -> bool:
    """Return whether a tensor has the four dimensions that channels_last is an order of.

    One that is sharded over ranks has not: what shards it keeps flat views of its parts.
    """
    try:
        is_sharded = hasattr(tensor, "_local_tensor")
        return int(tensor.dim()) == 4 and str(tensor.layout) == "torch.strided" and not is_sharded
    except Exception:  # none, of a lazy module that never ran, or a kind of tensor that does not tell
        return False


def _set_channels_last(torch: Any, module: Any) -> None:
    """Put the tensors that have channels in that order; `module.to` would ask others, which may refuse it.

    So are those of optimizers that hold state already: fused steps assume that both have the same order.
    """
    if any(map(is_ddp, module.modules())):  # it would hand back gradients in the wrong order
        raise RuntimeError("DistributedDataParallel keeps the memory format that its module had when wrapped")
    weights = list(module.parameters())
    optimizers = [one for one in gc.get_objects() if issubclass(type(one), torch.optim.Optimizer)]
    states = [getattr(one, "state", {}).get(weight, {}) for one in optimizers for weight in weights]
    own = [*weights, *(one.grad for one in weights), *module.buffers()]
    for tensor in [*own, *(moment for state in states for moment in state.values())]:
        if has_channels(tensor):
            tensor.data = tensor.data.to(memory_format=torch.channels_last)


@contextlib.contextmanager
def applying(*knobs: str) -> Iterator[None]:
    """Say of a fault which knobs it keeps from being set; what has no memory for them is the script's end."""
    try:
        yield
    except Exception as error:
        if "OutOfMemory" in type(error).__name__:
            raise
        raise NotApplied(dict.fromkeys(knobs, error)) from error


def set_matmul_precision(torch: Any, precision: str, device_type: str) -> None:
    """Set TF32 or IEEE matmuls where the precision knob asks for one of them.

    torch's older call sets what both its interfaces tell, so that whoever asks either is answered.
    """
    wanted = {"fp32": "highest", "tf32": "high"}.get(precision)
    if wanted is not None and matmul_precision(torch, device_type) != wanted:
        torch.set_float32_matmul_precision(wanted)


def matmul_precision(torch: Any, device_type: str) -> str | None:
    """Return the float32 matmul precision that holds on a device, None where torch tells none.

    The older getter raises, or tells what holds no more, where a script used torch 2.9's `fp32_precision`.
    """
    try:
        older = torch.get_float32_matmul_precision()
    except Exception:
        older = None
    newer = _fp32_precision(torch.backends.cuda.matmul) if device_type == "cuda" else None
    if newer is None or (older is not None and (newer == "tf32") == (older != "highest")):
        return older
    return "high" if newer == "tf32" else "highest"


def tf32_in_use(torch: Any, device: Any) -> dict:
    """Return whether a device computes float32 matmuls and convolutions in TF32, each None if unknown.

    What is allowed holds only where there are units for it: from compute capability 8.0 on.
    """
    if getattr(device, "type", "cpu") != "cuda" or getattr(torch.version, "hip", None):
        return {"tf32_in_matmul": None, "tf32_in_conv": None}
    if torch.cuda.get_device_capability(device) < (8, 0):
        return {"tf32_in_matmul": False, "tf32_in_conv": False}
    matmul = matmul_precision(torch, "cuda")
    conv = _fp32_precision(getattr(torch.backends.cudnn, "conv", None))
    return {
        "tf32_in_matmul": None if matmul is None else matmul != "highest",
        "tf32_in_conv": bool(torch.backends.cudnn.allow_tf32) if conv is None else conv == "tf32",
    }


def _fp32_precision(operation: Any) -> str | None:
    """Return torch 2.9's setting of an operation: "ieee", "tf32" or "none"; None where torch has none."""
    try:
        return operation.fp32_precision
    except Exception:
        return None


def graphs_captured() -> int:
    """Return the graphs that torch.compile captured in this process so far."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", None)
    return int(counters["stats"]["unique_graphs"]) if counters is not None else 0


def _compile(torch: Any, module: Any) -> None:
    """Compile the root's call in place.

    `module.compile()` captures nothing on nn.Sequential and its like, whose frames torch skips; a
    frame of our own around the call is captured and the call inlined into it. Inside the wrapper of
    distributed data parallel it is the wrapped module: torch leaves the wrapper's own call for its hooks,
    and still splits the graphs at its gradient buckets.
    """
    if type(module).__name__ == "DistributedDataParallel":
        module = module.module

    def call_root(*args, **kwargs):
        return module._call_impl(*args, **kwargs)

    if hasattr(torch.nn.Module, "_compiled_call_impl"):
        compiled = torch.compile(call_root)

        def call(*args, **kwargs):  # torch.jit.trace, by which a script may export its model, takes none
            return (module._call_impl if torch.jit.is_tracing() else compiled)(*args, **kwargs)

        module._compiled_call_impl = call
    else:  # torch 2.1
        module.__dict__["forward"] = torch.compile(module.forward)


def is_compiled(module: Any) -> bool:
    """Return whether a module is to be compiled; without arithmetic torch.compile captures nothing."""
    is_wrapped = type(module).__name__ == "OptimizedModule"
    return is_wrapped or getattr(module, "_compiled_call_impl", None) is not None


def _autocast(torch: Any, module: Any, device_type: str, dtype: Any) -> None:
    """Run the root's forward under autocast and give its floating outputs back as float32.

    Bound as a method, so that a deep copy of the module (an EMA) gets a forward of its own.
    """
    has_own = "forward" in module.__dict__
    if has_own:
        module.__dict__["_tunekit_forward"] = module.__dict__["forward"]

    def forward(self, *args, **kwargs):
        with torch.autocast(device_type, dtype=dtype):
            if has_own:
                outputs = self.__dict__["_tunekit_forward"](*args, **kwargs)
            else:
                outputs = type(self).forward(self, *args, **kwargs)
        return _as_float32(torch, outputs)

    forward.__wrapped__ = type(module).forward
    module.__dict__["forward"] = types.MethodType(forward, module)


def _as_float32(torch: Any, outputs: Any) -> Any:
    if isinstance(outputs, torch.Tensor):
        return outputs.float() if outputs.dtype in (torch.bfloat16, torch.float16) else outputs
    if type(outputs) in (list, tuple):
        return type(outputs)(_as_float32(torch, value) for value in outputs)
    if isinstance(outputs, tuple):
        return _rebuilt_as_float32(torch, outputs)
    if isinstance(outputs, (dict, list)):  # of the script's own kind, which it may make in its own way
        for key, value in list(outputs.items() if isinstance(outputs, dict) else enumerate(outputs)):
            converted = _as_float32(torch, value)
            if converted is not value:
                outputs[key] = converted
    return outputs


def _rebuilt_as_float32(torch: Any, outputs: Any) -> Any:
    """Return a tuple of the script's own kind with its parts as float32; itself where none can be made."""
    parts = [_as_float32(torch, value) for value in outputs]
    try:
        return type(outputs)(*parts) if hasattr(outputs, "_fields") else type(outputs)(parts)
    except Exception:
        return outputs


class AutocastWatch:
    """Sees the autocasts that the script enters while its loop is learnt.

    Attributes:
        dtype: of the last one that was enabled, such as "bfloat16"; None when there was none.
    """

    def __init__(self) -> None:
        self.dtype: str | None = None
        self._class: Any = None
        self._thread = threading.get_ident()

    def install(self, module: Any) -> None:
        """Wrap `autocast.__enter__` in `torch.amp.autocast_mode` until `stop`."""
        self._class = module.autocast
        self._original = original = module.autocast.__enter__

        @functools.wraps(original)
        def __enter__(context):  # noqa: N807
            if getattr(context, "_enabled", False) and threading.get_ident() == self._thread:
                self.dtype = str(getattr(context, "fast_dtype", None)).replace("torch.", "")
            return original(context)

        module.autocast.__enter__ = __enter__

    def stop(self) -> None:
        if self._class is not None:
            self._class.__enter__ = self._original
            self._class = None
