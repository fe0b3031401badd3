"""What tunekit asks of a GPU's driver, as a small protocol, so that a scripted double can stand in for it."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from tunekit.records.host import GpuState, PcieLink

_THROTTLE_REASONS = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clock_setting",
    "board_limit",
    "reliability",
)
"""By bit, the lowest first."""


@dataclass(frozen=True)
class NvmlDevice:
    """One GPU, or one MIG partition of a GPU, as the driver reports it."""

    index: int
    """The GPU's place in the driver's order; a partition has its GPU's."""
    uuid: str
    name: str
    memory_bytes: int | None
    """None where the driver fails to tell, and for a GPU that has none of its own."""
    compute_capability: str | None = None
    partitions: tuple["NvmlDevice", ...] | None = None
    """The MIG partitions made so far; None when MIG is off."""
    has_own_memory: bool = True
    """False for an integrated GPU, which uses the machine's memory."""
    instances: tuple[int, int] | None = None
    """Of a partition its GPU instance and its compute instance, by which older drivers name it."""


@dataclass(frozen=True)
class GpuReading:
    """What can be asked of a GPU every second while it trains. None is a question without an answer."""

    utilization_percent: float | None = None
    """Share of the last sampling period (1/6 to 1 s) in which any kernel ran."""
    memory_utilization_percent: float | None = None
    """Share of the last sampling period in which device memory was read or written."""
    used_bytes: float | None = None
    """Memory taken by anyone; of the whole GPU, under MIG too."""
    process_bytes: Mapping[int, int | None] | None = None
    """Memory by process; a process whose memory the driver does not tell has None."""
    power_w: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    memory_clock_mhz: float | None = None
    throttle_mask: int | None = None
    """The driver's bits; `throttle_reasons` names them."""
    pcie_tx_mb_per_s: float | None = None
    """From the GPU, in decimal MB, over the last 20 ms."""
    pcie_rx_mb_per_s: float | None = None


@dataclass(frozen=True)
class GpmActivity:
    """What the hardware's own counters saw between two samples (Hopper and newer); decimal MB."""

    graphics_activity_percent: float | None = None
    """Share of the time in which anything ran: what "utilisation" says, but over the whole interval."""
    sm_activity_percent: float | None = None
    """Multiprocessors that had work, on average over the interval."""
    sm_occupancy_percent: float | None = None
    """Warps in flight, of the most that fit."""
    tensor_activity_percent: float | None = None
    """Share of the time in which the tensor cores computed."""
    dram_activity_percent: float | None = None
    """Memory bandwidth in use, of the most that the device has."""
    pcie_tx_mb_per_s: float | None = None
    pcie_rx_mb_per_s: float | None = None
    nvlink_tx_mb_per_s: float | None = None
    """Over all links together."""
    nvlink_rx_mb_per_s: float | None = None


class Nvml(Protocol):
    """What tunekit asks of the driver. No question raises: no answer is None, no driver is no devices.

    It may be opened while it is open; it closes with the last one that opened it. A GPU that failed to answer
    is asked anew the next time.
    """

    def __enter__(self) -> Self:
        """Open the library."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the library."""
        ...

    def driver_version(self) -> str | None:
        """Return the driver's version, such as "550.54.15"."""
        ...

    def device_count(self) -> int:
        """Return how many GPUs the driver shows, 0 without a driver."""
        ...

    def device(self, index: int) -> NvmlDevice | None:
        """Return the GPU at this place of the driver's order, None if it does not answer."""
        ...

    def used_bytes(self, index: int) -> int | None:
        """Return the memory that is taken on that GPU, by anyone; None if it does not answer."""
        ...

    def link(self, index: int) -> PcieLink | None:
        """Return that GPU's link to the CPU, None if the driver says nothing about it."""
        ...

    def pci_bus_id(self, index: int) -> str | None:
        """Return where that GPU sits, such as "00000000:65:00.0"."""
        ...

    def state(self, index: int) -> GpuState | None:
        """Return what that GPU says of itself now, None if it does not answer; under MIG of the whole GPU."""
        ...

    def reading(self, index: int, pcie: bool = True) -> GpuReading | None:
        """Return the figures that change while it trains, None if the GPU does not answer.

        Args:
            index: the GPU's place in the driver's order.
            pcie: whether to ask for the traffic on the link, which takes the driver about 40 ms.
        """
        ...

    def gpm_sample(self, index: int) -> object | None:
        """Return where that GPU's own counters stand, None where they can't be read.

        That is so before Hopper, under MIG and without permission. A sample takes memory until it is freed or
        the library closes.
        """
        ...

    def gpm_between(self, index: int, first: object, second: object) -> GpmActivity | None:
        """Return what happened between two samples of that GPU, at least 100 ms apart."""
        ...

    def gpm_free(self, sample: object) -> None:
        """Give a sample's memory back; a sample that was freed already is left alone."""
        ...


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """Return the names of the driver's throttle bits, "bit_<n>" for one without a name."""
    return tuple(
        _THROTTLE_REASONS[bit] if bit < len(_THROTTLE_REASONS) else f"bit_{bit}"
        for bit in range(mask.bit_length())
        if mask >> bit & 1
    )
