"""A driver that answers from a script."""

from collections.abc import Sequence
from typing import Any

from tunekit.hardware.nvml import NvmlDevice
from tunekit.units import GIB

T4 = NvmlDevice(0, "GPU-11111111-aaaa", "Tesla T4", 15 * GIB, "7.5")
L4 = NvmlDevice(1, "GPU-11112222-bbbb", "NVIDIA L4", 22 * GIB, "8.9")
H200 = NvmlDevice(2, "GPU-33333333-cccc", "NVIDIA H200", 140 * GIB, "9.0")
UNKNOWN = NvmlDevice(0, "GPU-44444444-dddd", "NVIDIA L40", 45 * GIB, "8.9")

SLICES = tuple(
    NvmlDevice(0, f"MIG-{name}", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864 << 20, "8.0")
    for name in ("one", "two")
)
SLICED = NvmlDevice(0, "GPU-55555555-eeee", "NVIDIA A100-SXM4-40GB", 40 * GIB, "8.0", SLICES)


class ScriptedNvml:
    """Shows these devices, in this order; None is a GPU that does not answer.

    Args:
        devices: what the driver shows.
        driver: its version.
        used: for each device the used bytes that it answers one after another, the last one for ever.
    """

    def __init__(
        self,
        devices: Sequence[NvmlDevice | None],
        driver: str | None = "550.54.15",
        used: Sequence[list[int | None]] = (),
    ) -> None:
        self.devices = devices
        self.used = used
        self.driver = driver
        self.is_open = False

    def __enter__(self) -> "ScriptedNvml":
        self.is_open = True
        return self

    def __exit__(self, *error: Any) -> None:
        self.is_open = False

    def driver_version(self) -> str | None:
        assert self.is_open
        return self.driver

    def device_count(self) -> int:
        assert self.is_open
        return len(self.devices)

    def used_bytes(self, index: int) -> int | None:
        assert self.is_open
        return self.used[index].pop(0) if self.used[index][1:] else self.used[index][0]

    def device(self, index: int) -> NvmlDevice | None:
        assert self.is_open
        return self.devices[index]
