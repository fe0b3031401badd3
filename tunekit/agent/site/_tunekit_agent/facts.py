"""Plain facts for the parent: devices, epochs, loaders, the exception that ended the script."""

from __future__ import annotations

import math
import platform
import sys
import traceback
import types
from typing import Any

from .knobs import LOADER_KNOBS

_LOADER_FACTS = (
    "dataset",
    "dataset_samples",
    *LOADER_KNOBS,
    "drop_last",
    "iterable",
    "shards_itself",
    "batch_size_bound",
)
_SHARDING_CALL = "get_worker_info"
_MAX_DATASETS_WITHIN = 3
_MAX_MESSAGE = 4000
_WORKER_END_S = 0.2
"""A worker's connections close a moment before it is seen to have ended."""


def of_loader(info: Any) -> dict:
    """Return what the parent's record of a loader holds."""
    return {name: info.facts.get(name) for name in _LOADER_FACTS}


def is_there(info: Any) -> bool:
    """Return whether a loader is still there to begin another epoch: a script may keep no name for it."""
    return info is not None and info.loader() is not None


def epoch_of(info: Any) -> tuple:
    """Return (samples, batches) of one epoch as a training loader says, None where unknown.

    A loader that the script keeps no name for is gone once it is iterated: what it said last is told.
    """
    if info is None or info.facts.get("iterable"):
        return None, None
    loader = info.loader()
    if loader is not None:
        info.epoch = _epoch_of(info, loader)
    return info.epoch


def _epoch_of(info: Any, loader: Any) -> tuple:
    try:
        count = len(loader)
        sampler = getattr(loader.batch_sampler, "sampler", None)
    except Exception:
        return None, None
    batch_size = info.facts.get("batch_size")
    if batch_size is None or count <= 0:
        return None, (count or None)
    try:
        samples = len(sampler) if sampler is not None else count * batch_size
    except Exception:
        samples = count * batch_size
    return max(1, min(samples, count * batch_size)), count


def shards_itself(dataset: Any, depth: int = _MAX_DATASETS_WITHIN) -> bool:
    """Return whether an iterable data set asks which worker it is in, itself or one within it.

    Then each worker reads its own share; otherwise every worker would repeat every sample.
    """
    try:
        return _shards_itself(dataset, depth)
    except Exception:  # whatever a lazy module or a proxy does when it is looked at
        return False


def _shards_itself(dataset: Any, depth: int) -> bool:
    for kind in type(dataset).__mro__:
        for member in vars(kind).values():
            function = getattr(member, "__func__", member)
            if _mentions(getattr(function, "__code__", None), getattr(function, "__globals__", {})):
                return True
    if depth == 0:
        return False
    within = list(getattr(dataset, "__dict__", {}).values())
    return any(
        _shards_itself(one, depth - 1) for one in within if hasattr(type(one), "__iter__") and _is_own(one)
    )


def _mentions(code: Any, names: dict, depth: int = 2) -> bool:
    """Return whether code names the sharding call: in itself, a nested function or one of its module."""
    if code is None:
        return False
    if _SHARDING_CALL in code.co_names:
        return True
    if any(_mentions(nested, names, depth) for nested in code.co_consts if hasattr(nested, "co_names")):
        return True
    if depth == 0:
        return False
    called = (names.get(name) for name in code.co_names)
    return any(
        _mentions(one.__code__, one.__globals__, depth - 1)
        for one in called
        if hasattr(one, "__code__") and hasattr(one, "__globals__")
    )


def _is_own(thing: Any) -> bool:
    """Return whether a thing is an object of a class written in Python, such as a data set in another."""
    return isinstance(getattr(type(thing), "__dict__", {}).get("__iter__"), types.FunctionType)


def of_device(device: Any) -> dict:
    """Return type, name and memory in bytes of a torch device, and what the driver knows it by."""
    kind = getattr(device, "type", "cpu")
    if kind != "cuda":
        return {"type": kind, "name": platform.processor() or kind, "memory_bytes": None}
    properties = sys.modules["torch"].cuda.get_device_properties(device)
    uuid = getattr(properties, "uuid", None)
    return {
        "type": kind,
        "name": properties.name,
        "memory_bytes": int(properties.total_memory),
        "uuid": None if uuid is None else str(uuid),
        "pci_bus_id": _pci_bus_id(properties),
    }


def _pci_bus_id(properties: Any) -> str | None:
    """Return a device's address on the PCI bus as the driver writes it, None from a torch that tells none."""
    try:
        return f"{properties.pci_domain_id:08x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
    except AttributeError:
        return None


def cuda_devices() -> list[int]:
    """Return the CUDA devices on which this process has taken memory, by torch's numbers.

    The current device need not be among them: `model.to("cuda:1")` leaves it at the first, where asking for
    anything would make a context. Where torch keeps no figures, as another allocator does not, it is the one.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return []
    try:
        taken = [torch.cuda.max_memory_reserved(device) for device in range(torch.cuda.device_count())]
    except RuntimeError:
        return [torch.cuda.current_device()]
    return [device for device, taken_bytes in enumerate(taken) if taken_bytes]


def is_capturing() -> bool:
    """Return whether a CUDA graph is being captured: the device may not be waited for, nor a value read."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def synchronize() -> None:
    """Return when no CUDA device of this process has work left; at once while a CUDA graph is captured."""
    if is_capturing():
        return
    for device in cuda_devices():
        sys.modules["torch"].cuda.synchronize(device)


def forget_cudnn_tries() -> None:
    """Have torch's peaks begin anew where cuDNN has tried out kernels: in workspaces as large as would fit.

    It makes do with less memory, and gives back what it tried. What training takes comes again in each batch.
    """
    for device in cuda_devices():
        torch = sys.modules["torch"]
        if torch.backends.cudnn.benchmark:
            torch.cuda.reset_peak_memory_stats(device)
            torch.cuda.reset_accumulated_memory_stats(device)


def of_device_memory() -> dict:
    """Return torch's peaks on the CUDA device of this process that is the fullest, None without CUDA."""
    devices = cuda_devices()
    if not devices:
        return {"peak_allocated_bytes": None, "peak_reserved_bytes": None, "allocation_retries": None}
    cuda = sys.modules["torch"].cuda
    retries = (int(cuda.memory_stats(device).get("num_alloc_retries", 0)) for device in devices)
    return {
        "peak_allocated_bytes": max(cuda.max_memory_allocated(device) for device in devices),
        "peak_reserved_bytes": max(cuda.max_memory_reserved(device) for device in devices),
        "allocation_retries": max(retries),
    }


def bf16_native(torch: Any, device: Any) -> bool | None:
    """Return whether a CUDA device computes bfloat16 without emulation; the parent knows of CPUs."""
    if getattr(device, "type", "cpu") != "cuda":
        return None
    return torch.cuda.get_device_capability(device) >= (8, 0)


def of_error(error: Any) -> dict | None:
    """Return an exception's types along its resolution order, its message and where it came from."""
    if error is None:
        return None
    try:
        return _told(error)
    except RuntimeError:  # torch's handler of a worker's end raises, once, wherever the main thread is
        return _told(error)


def _told(error: Any) -> dict:
    lines = "".join(traceback.format_exception(type(error), error, error.__traceback__)).splitlines()
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return {
        "types": [kind.__module__ + "." + kind.__qualname__ for kind in type(error).__mro__][:16],
        "message": _ends_of(_text_of(error)),
        "traceback": [line[:500] for line in lines[-40:]],
        "raised_in": _place(frames[-1]) if frames else "",
        "worker_exit_codes": _worker_exit_codes(frames),
        "device_free_share": _device_free_share(),
    }


def _device_free_share() -> float | None:
    """Return the free share of the fullest device's memory; None without CUDA, or where that broke."""
    try:
        memory = [sys.modules["torch"].cuda.mem_get_info(device) for device in cuda_devices()]
        return min((free / total for free, total in memory if total), default=None)
    except Exception:
        return None


def _text_of(error: Any) -> str:
    """Return what an exception says; in Python's own words where it can't be made to."""
    try:
        return str(error)
    except Exception:
        return f"<{type(error).__name__} whose str() failed>"


def _ends_of(text: str) -> str:
    """Return a text whose middle may be left out: a loader puts its own words before a worker's traceback."""
    if len(text) <= _MAX_MESSAGE:
        return text
    head = _MAX_MESSAGE // 4
    return text[:head] + "\n...\n" + text[head - _MAX_MESSAGE :]


def _place(frame: Any) -> str:
    return f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_name}"


def _worker_exit_codes(frames: list) -> list:
    """Return how the workers ended of the loader that was asked for a batch, as far as they failed.

    A batch is handed over by the worker that made it: when that one dies, the loop may see nothing but a
    connection that was reset.
    """
    codes: set = set()
    for frame in frames:
        if frame.f_globals.get("__name__") != "torch.utils.data.dataloader":
            continue
        for worker in getattr(frame.f_locals.get("self"), "_workers", None) or ():
            worker.join(_WORKER_END_S if not codes else 0)
            codes.add(worker.exitcode)
    return sorted(code for code in codes if code)


def finite(loss: float | None) -> float | None:
    """Return the loss, None for NaN and infinities, which JSON can't hold."""
    return loss if loss is None or math.isfinite(loss) else None
