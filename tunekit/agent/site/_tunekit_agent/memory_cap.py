"""Holds the training process to the memory of a smaller GPU than the one that is here."""

from __future__ import annotations

from typing import Any


class MemoryCap:
    """Caps what torch reserves on each CUDA device that a module lies on, once.

    CUDA is never started here: a module whose parameters lie on a device has started it. Where torch can't
    cap (another allocator is plugged in), the process goes on without, and `told` says so.

    Args:
        limit_bytes: what torch may reserve on a device; None leaves the process alone.
    """

    def __init__(self, limit_bytes: int | None) -> None:
        self._limit_bytes = limit_bytes
        self._whole_bytes: dict = {}  # by device that was looked at; None where it has no cap

    def entering(self, torch: Any, module: Any) -> None:
        """Cap the devices of a module that is about to run."""
        if self._limit_bytes is None:
            return
        for device in {parameter.device for parameter in module.parameters()}:
            if device.type == "cuda" and device not in self._whole_bytes and torch.cuda.is_initialized():
                self._whole_bytes[device] = _capped(torch, device, self._limit_bytes)

    def told(self, facts: dict, device: Any) -> dict:
        """Return the facts of a device with the memory that the process may use of it."""
        whole_bytes = self._whole_bytes.get(device)
        if whole_bytes is None:
            return facts
        return {**facts, "memory_bytes": self._limit_bytes, "whole_bytes": whole_bytes}


def _capped(torch: Any, device: Any, limit_bytes: int) -> int | None:
    """Cap a device that has more, and return its whole memory in bytes; None where there is no cap."""
    try:
        whole_bytes = int(torch.cuda.get_device_properties(device).total_memory)
        if whole_bytes <= limit_bytes:
            return None
        torch.cuda.set_per_process_memory_fraction(limit_bytes / whole_bytes, device)
    except Exception:
        return None
    return whole_bytes
