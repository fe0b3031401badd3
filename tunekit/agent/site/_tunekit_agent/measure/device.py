"""Devices of the training process: what they are, when they are idle, what torch took of their memory."""

from __future__ import annotations

import contextlib
import platform
import sys
from typing import Any, Iterable

_ROCM_WITH_BF16 = ("gfx908", "gfx90a", "gfx94", "gfx95", "gfx11", "gfx12")
"""Prefixes of AMD architectures with bf16 matrix units: CDNA, and RDNA from the third on."""


def facts_of(device: Any) -> dict:
    """Return type, name, memory in bytes and driver ids of a torch device.

    `free_bytes` is torch's reserved memory plus the free memory; None where torch has reserved nothing.
    """
    kind = getattr(device, "type", "cpu")
    if kind != "cuda":
        return {"type": kind, "name": platform.processor() or kind, "memory_bytes": None}
    cuda = sys.modules["torch"].cuda
    properties = cuda.get_device_properties(device)
    uuid = getattr(properties, "uuid", None)
    return {
        "type": kind,
        "name": properties.name,
        "memory_bytes": int(properties.total_memory),
        "free_bytes": None if getattr(properties, "is_integrated", 0) else _free_bytes(cuda, device),
        "uuid": None if uuid is None else str(uuid),
        "pci_bus_id": _pci_bus_id(properties),
    }


def of_tensors(tensors: Iterable) -> Any:
    """Return the torch device of the first tensor, of one that is not on the meta device if there is any."""
    first = min(tensors, key=lambda one: bool(one.device.type == "meta"), default=None)
    return None if first is None else first.device


def _pci_bus_id(properties: Any) -> str | None:
    """Return a device's PCI bus address as the driver writes it; None if torch does not report it."""
    try:
        return f"{properties.pci_domain_id:08x}:{properties.pci_bus_id:02x}:{properties.pci_device_id:02x}.0"
    except AttributeError:
        return None


def _free_bytes(cuda: Any, device: Any) -> int | None:
    reserved_bytes = 0
    with contextlib.suppress(RuntimeError):  # another allocator
        reserved_bytes = int(cuda.memory_reserved(device))
    return int(cuda.mem_get_info(device)[0]) + reserved_bytes if reserved_bytes else None


def cuda_devices() -> list[int]:
    """Return the CUDA devices on which this process has a context, by torch's numbers.

    The current device need not be among them: after `model.to("cuda:1")` it is device 0, where any query
    would create a context.
    """
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_initialized():
        return []
    return [each for each in range(torch.cuda.device_count()) if torch._C._cuda_hasPrimaryContext(each)]


def is_capturing() -> bool:
    """Return whether a CUDA graph is being captured, which forbids waits and reading values."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()


def synchronize() -> None:
    """Return when no CUDA device of this process has work left; at once while a CUDA graph is captured."""
    if is_capturing():
        return
    for device in cuda_devices():
        sys.modules["torch"].cuda.synchronize(device)


def forget_cudnn_tries() -> None:
    """Reset torch's peaks after cuDNN has benchmarked kernels, whose trial workspaces inflate them.

    cuDNN needs less memory afterwards; the peaks of training recur in each batch.
    """
    for device in cuda_devices():
        torch = sys.modules["torch"]
        if torch.backends.cudnn.benchmark:
            torch.cuda.reset_peak_memory_stats(device)
            torch.cuda.reset_accumulated_memory_stats(device)


def memory_facts() -> dict:
    """Return torch's peaks on this process's fullest CUDA device.

    None without CUDA, and where torch keeps no figures: with another allocator or without its cache.
    """
    known: dict = {"peak_allocated_bytes": None, "peak_reserved_bytes": None, "allocation_retries": None}
    for device in cuda_devices():
        cuda = sys.modules["torch"].cuda
        with contextlib.suppress(RuntimeError):  # another allocator
            retries = int(cuda.memory_stats(device).get("num_alloc_retries", 0))
            peaks = (cuda.max_memory_allocated(device), cuda.max_memory_reserved(device), retries)
            if peaks[1]:
                known = {name: max(known[name] or 0, peak) for name, peak in zip(known, peaks)}  # noqa: B905
    return known


def bf16_native(torch: Any, device: Any) -> bool | None:
    """Return whether a device of CUDA or ROCm computes bfloat16 without emulation; None of any other."""
    if getattr(device, "type", "cpu") != "cuda":
        return None
    if torch.version.hip is not None:  # its numbers look like a capability of CUDA and are none
        return torch.cuda.get_device_properties(device).gcnArchName.startswith(_ROCM_WITH_BF16)
    return torch.cuda.get_device_capability(device) >= (8, 0)
