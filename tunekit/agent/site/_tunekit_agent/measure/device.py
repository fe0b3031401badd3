"""Devices of the training process: what they are, when they are idle, what torch took of their memory."""

from __future__ import annotations

import platform
import sys
from typing import Any, Iterable


def facts_of(device: Any) -> dict:
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


def of_tensors(tensors: Iterable) -> Any:
    """Return the torch device of the first tensor, of one that is not on the meta device if there is any."""
    first = min(tensors, key=lambda one: bool(one.device.type == "meta"), default=None)
    return None if first is None else first.device


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


def memory_facts() -> dict:
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
