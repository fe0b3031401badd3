"""What the machine did while a trial ran, as the parent saw it from outside the training process."""

from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt

from tunekit.records.base import Record
from tunekit.units import MIB


class GpuTelemetry(Record):
    """One GPU over the measured window. None is a counter that the device or driver does not have."""

    index: NonNegativeInt
    """Its place in the driver's order."""
    is_used: bool
    """Whether the trial computed on it, by its processes' memory there, or by memory that came with it."""
    utilization_percent: NonNegativeFloat | None = None
    """Mean share of time in which any kernel ran: busy, not how busy."""
    sm_activity_percent: NonNegativeFloat | None = None
    """Mean share of multiprocessors with work (GPM, Hopper and newer)."""
    tensor_activity_percent: NonNegativeFloat | None = None
    dram_activity_percent: NonNegativeFloat | None = None
    peak_used_bytes: NonNegativeInt | None = None
    """Of all processes."""
    peak_tree_bytes: NonNegativeInt | None = None
    """Of the trial's processes, their CUDA contexts included; None where the driver does not tell."""
    power_w: NonNegativeFloat | None = None
    """Mean of the driver's samples, which cover a part of the time only (arXiv 2312.02741)."""
    max_temperature_c: float | None = None
    sm_clock_mhz: NonNegativeFloat | None = None
    """Mean; the next four are of the window's first and last third, None in one of fewer than six samples."""
    first_sm_clock_mhz: NonNegativeFloat | None = None
    last_sm_clock_mhz: NonNegativeFloat | None = None
    first_temperature_c: float | None = None
    last_temperature_c: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    """Every reason seen in the window, by NVML's names."""
    pcie_tx_mb_per_s: NonNegativeFloat | None = None
    pcie_rx_mb_per_s: NonNegativeFloat | None = None


class HostTelemetry(Record):
    """The trial's process tree over the measured window."""

    cpu_cores: NonNegativeFloat | None = None
    """CPU seconds of the whole tree per second."""
    read_bytes_per_s: NonNegativeFloat | None = None
    """Fetched from storage."""
    rchar_bytes_per_s: NonNegativeFloat | None = None
    """Asked for by read calls, wherever they were served from; mapped files are not in it."""

    @property
    def unfetched_share(self) -> float | None:
        """Share of what was read that no disk and no NFS server was asked for.

        That is the page cache's, mostly; pipes, and file systems in user space, which the kernel does not
        count, are in it too. None when less than 1 MiB/s was read.
        """
        if self.rchar_bytes_per_s is None or self.rchar_bytes_per_s < MIB or self.read_bytes_per_s is None:
            return None
        return max(0.0, 1.0 - self.read_bytes_per_s / self.rchar_bytes_per_s)


class Telemetry(Record):
    """One trial's time series in a few figures; the series are in telemetry.zarr."""

    window_s: NonNegativeFloat
    """Time between the first and the last sample that the figures are of."""
    samples: PositiveInt
    is_of_steady_window: bool
    """Whether they are of the steady window; else of the whole trial, which was too short for two samples."""
    cost_cpu_s: NonNegativeFloat
    """CPU time that sampling took in tunekit's own process."""
    host: HostTelemetry
    gpus: tuple[GpuTelemetry, ...] = ()
