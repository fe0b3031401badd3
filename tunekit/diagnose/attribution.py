"""Where a step's time goes, whether loader and training account for it, and which one limits it. Pure."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from tunekit.diagnose.policy import (
    ALL_CPUS_SHARE,
    BALANCED,
    CLEAR_IDLE_SHARE,
    CLEAR_STALL_SHARE,
    COMPUTES_SHARE,
    COPIES_SHARE,
    DRAINED_SHARE,
    EPOCHS_SHARE,
    FROM_STORAGE_BYTES_PER_S,
    LAUNCHING_SHARE,
    MAX_CPUS_SHARE,
    MIN_SLACK,
    MOSTLY,
    SMALL_STALL,
    UNSETTLED_FROM,
    WAITS_SHARE,
    WARMED_RATIO,
)
from tunekit.records.attribution import DeviceParts, LoaderWork, StepParts
from tunekit.records.details import KernelWindow
from tunekit.records.interval import Interval
from tunekit.records.measurement import LoopMeasurement, Measurement, Telemetry
from tunekit.records.recommendation import Bound
from tunekit.units import count_text

DEVICE_CLOCK = "CUDA events"
HOST_CLOCK = "host clock"


class Part(StrEnum):
    """A part of a step's time."""

    STALL = "data wait"
    """The loop, or the device, is idle until the batch arrives."""
    HOST_WAIT = "host wait"
    """The host waits for the loader; queued work may hide it from the device."""
    H2D = "copy to the device"
    COMPUTE = "compute"
    BATCH_AND_COMPUTE = "batch and compute"
    """Both together, in a loop without a DataLoader, where the end of making a batch can't be seen."""
    OPTIMIZER = "optimizer"
    OTHER = "other"
    DEVICE_IDLE = "device idle"
    """Nothing runs on the device: data or kernel launches come late, or the host waits for the device."""


@dataclass(frozen=True)
class Share:
    """How much of a step one part takes."""

    part: Part
    batch_ms: float
    """Milliseconds per loop batch."""
    share: float
    """Share of the step by the same clock, 0 to 1."""
    source: str
    """The source of the time: "CUDA events", "host clock" or "torch.profiler, 5 steps"."""
    is_of_sum: bool
    """Whether it is one of the parts that add up to the step; the others overlap with them."""


@dataclass(frozen=True)
class Attribution:
    """Where the time of a loop batch goes; all figures are measured."""

    source: str
    """The clock whose parts add up: "CUDA events" or "host clock"."""
    step_ms: float
    """Time of one loop batch, by that clock."""
    shares: tuple[Share, ...]

    def of(self, part: Part) -> Share | None:
        """Return the share of a part; None if it was not measured."""
        return next((share for share in self.shares if share.part is part), None)

    @property
    def stall(self) -> Share | None:
        """Exposed data stall, which both clocks measure; None for a loop without a DataLoader."""
        return self.of(Part.STALL)

    @property
    def stall_share(self) -> float:
        """Exposed data stall, as a share of the step; 0 for a loop without a DataLoader."""
        return self.stall.share if self.stall is not None else 0.0

    @property
    def trains_share(self) -> float:
        """Forward, backward and optimizer as a share of the step; includes batches without a DataLoader."""
        parts = (self.of(part) for part in (Part.COMPUTE, Part.BATCH_AND_COMPUTE, Part.OPTIMIZER))
        return sum(one.share for one in parts if one)


class Gap(StrEnum):
    """Why a loop's time does not match that of its halves, loader and training."""

    SLOWER = "loader and training slow each other down, or other programs do"
    CACHED = "the loader became faster: what was read is cached, and later epochs are faster"
    FASTER = "one of them alone was slower than the whole loop, so gains are underestimated"


@dataclass(frozen=True)
class Closure:
    """The loop's time per batch compared with each half's time alone: max(Tc, Tl) <= T <= Tc + Tl."""

    step_s: float
    """T: the whole loop."""
    compute_s: float
    """Tc: training on one batch over and over."""
    loader_s: float
    """Tl: the loader alone."""
    slack: float
    """How far T may be outside these bounds, as a share."""
    gap: Gap | None
    """Why T is outside the bounds; None if it is within."""

    @property
    def is_unexplained(self) -> bool:
        """Whether the loop is far slower than its halves: the unexplained time is longer than either half."""
        left_s = self.step_s - self.compute_s - self.loader_s
        return self.gap is not None and left_s > max(self.compute_s, self.loader_s)


class Making(StrEnum):
    """What the processes that make a batch mostly do, by their clocks."""

    COMPUTING = "computing"
    WAITING_FOR_CPU = "waiting for a CPU"
    """Ready to run, while other processes occupy the CPUs."""
    WAITING_FOR_STORAGE = "waiting for storage"
    WAITING = "waiting"
    """Waiting for something else: a lock, the network or a sleep."""


def ratio(dividend: float, divisor: float) -> float | None:
    """Return the quotient of two times; None if it is not finite."""
    if divisor <= 0:
        return None
    quotient = dividend / divisor
    return quotient if math.isfinite(quotient) else None


def attribution(measurement: Measurement) -> Attribution:
    """Return where a loop batch's time goes, by the device's clock if available, else by the host's."""
    loop, details, device = measurement.loop, measurement.details, measurement.loop.device_parts
    has_events = device is not None and device.time_s > 0
    parts: StepParts | DeviceParts
    if device is not None and has_events:
        parts, wait_s, source = device, device.stall_s, DEVICE_CLOCK
        batches, step_s = device.batches, device.time_s / device.batches
    else:
        parts, wait_s, source = loop.parts, loop.parts.data_wait_s, HOST_CLOCK
        batches, step_s = loop.steady_batches, loop.step_time_s
    if loop.has_loader:
        seconds = {Part.STALL: wait_s, Part.COMPUTE: parts.compute_s}
    else:
        seconds = {Part.BATCH_AND_COMPUTE: wait_s + parts.compute_s}
    seconds |= {Part.OPTIMIZER: parts.optimizer_s, Part.OTHER: parts.other_s}
    whole_s = sum(seconds.values())
    shares = [
        Share(part, 1000 * part_s / batches, ratio(part_s, whole_s) or 0.0, source, is_of_sum=True)
        for part, part_s in seconds.items()
    ]
    if has_events and loop.has_loader:
        wait_ms = 1000 * loop.parts.data_wait_s / loop.steady_batches
        shares.insert(1, Share(Part.HOST_WAIT, wait_ms, loop.data_wait_share or 0.0, HOST_CLOCK, False))
    if details is not None and details.kernels is not None:
        shares += _of_kernels(details.kernels, 1000 * step_s)
    return Attribution(source=source, step_ms=1000 * step_s, shares=tuple(shares))


def _of_kernels(kernels: KernelWindow, step_ms: float) -> Iterator[Share]:
    """Yield the shares that only a trace shows: copies, which tracing doesn't lengthen, and idle gaps."""
    source = f"torch.profiler, {count_text(kernels.batches, 'batch', 'batches')}"
    if kernels.h2d_s is not None:
        copy_ms = 1000 * kernels.h2d_s / kernels.batches
        yield Share(Part.H2D, copy_ms, min(1.0, ratio(copy_ms, step_ms) or 0.0), source, is_of_sum=False)
    if kernels.device_busy_s is not None:
        idle_ms = max(0.0, step_ms - 1000 * kernels.device_busy_s / kernels.batches)
        yield Share(Part.DEVICE_IDLE, idle_ms, ratio(idle_ms, step_ms) or 0.0, source, is_of_sum=False)


def closure(measurement: Measurement) -> Closure | None:
    """Return whether the loop's halves account for its time; None unless both were measured separately."""
    loop, isolated = measurement.loop, measurement.isolated
    if isolated.compute_step_s is None or isolated.loader_step_s is None:
        return None
    slack = max(MIN_SLACK, loop.rate_interval_relative or 0.0)
    step_s, compute_s, loader_s = loop.step_time_s, isolated.compute_step_s, isolated.loader_step_s
    gap = None
    if step_s > (compute_s + loader_s) * (1 + slack):
        gap = Gap.SLOWER
        own_wait_s = (loop.parts.data_wait_s - (loop.parts.run_queue_s or 0.0)) / loop.steady_batches
        if loop.num_workers == 0 and own_wait_s > WARMED_RATIO * loader_s:
            gap = Gap.CACHED
    elif step_s < max(compute_s, loader_s) * (1 - slack):
        gap = Gap.FASTER
    return Closure(step_s, compute_s, loader_s, slack, gap)


def is_own_clock(measurement: Measurement) -> bool:
    """Return whether the attribution uses the clock of the device that trains."""
    return measurement.loop.device.type == "cpu" or attribution(measurement).source == DEVICE_CLOCK


def bound(
    measurement: Measurement, telemetry: Telemetry | None = None, rate: Interval | None = None
) -> Bound:
    """Return what limits the loop's speed.

    Args:
        measurement: the loop's measurement.
        telemetry: the same trial's telemetry; without a trace, NVML shows whether the device idled.
        rate: the config's rate over all its processes, in samples/s; None ignores its uncertainty.
    """
    held = _bound_by_parts(measurement, telemetry)
    is_settled = held is Bound.UNEXPLAINED or rate is None or not leaves_bound_open(rate)
    return held if is_settled else Bound.UNSETTLED


def leaves_bound_open(rate: Interval) -> bool:
    """Return whether a rate is too uncertain for a verdict on what limits its loop."""
    return rate.high >= UNSETTLED_FROM * rate.low


def _bound_by_parts(measurement: Measurement, telemetry: Telemetry | None) -> Bound:
    stall_share, copies_share = attribution(measurement).stall_share, copies_alone_share(measurement)
    idle_share = idle_for_host(measurement, telemetry)
    host_share = idle_share or 0.0
    boundary = boundary_share(measurement.loop)
    if boundary > max(EPOCHS_SHARE, (1 - boundary) * max(stall_share, host_share)):
        return Bound.EPOCHS
    seen = closure(measurement)
    if seen is not None and seen.is_unexplained:
        return Bound.UNEXPLAINED
    if host_share > max(CLEAR_IDLE_SHARE, stall_share, copies_share):
        return Bound.HOST
    if copies_share > max(COPIES_SHARE, stall_share):
        return Bound.COPIES
    if stall_share > CLEAR_STALL_SHARE:
        return _bound_of_stalled(measurement, stall_share)
    if idle_share is None and _launches_all_the_time(measurement.loop):
        return Bound.HOST
    if not measurement.loop.has_loader:
        return Bound.NO_LOADER
    return Bound.BALANCED if _bound_by_isolated_rates(measurement) is Bound.BALANCED else Bound.COMPUTE


def _bound_of_stalled(measurement: Measurement, stall_share: float) -> Bound:
    """Return what limits a loop that clearly waits for data: the wait, unless compute takes longer."""
    is_small, longer = is_small_stall(stall_share), _bound_by_isolated_rates(measurement)
    # Without workers the stall is the loader's whole time.
    trains_longer = longer is Bound.COMPUTE or (longer is None and not measurement.loop.num_workers)
    if not is_own_clock(measurement):
        held = longer or Bound.UNCLEAR
    elif is_small:
        held = longer or Bound.COMPUTE
    else:
        held = Bound.TURNS if trains_longer and stall_share < MOSTLY else Bound.DATA
    # With so small a stall, the loader is hardly slower than the training.
    return Bound.BALANCED if is_small and held is Bound.DATA else held


def is_small_stall(stall_share: float) -> bool:
    """Return whether a stall, as a share of the step, is small compared with the rest of the step."""
    return stall_share < SMALL_STALL * (1 - stall_share)


def making(work: LoaderWork, telemetry: Telemetry | None, taken_share: float | None) -> Making | None:
    """Return what making a batch mostly consists of; None if nothing stands out.

    Args:
        work: the work of the loader's processes.
        telemetry: the same trial's telemetry, for its reads from storage.
        taken_share: the share of its CPUs that the trial uses; if it is high, processes that wait for a CPU
            wait for the trial's own. None if unknown.
    """
    cpu_share, queue_share = work.cpu_share, queued_share(work)
    if cpu_share is None:
        return None
    if cpu_share >= COMPUTES_SHARE:
        return Making.COMPUTING
    off_cpu_share = 1 - cpu_share
    if queue_share is None and (taken_share or 0.0) >= ALL_CPUS_SHARE:
        return Making.COMPUTING
    if queue_share is not None and queue_share >= MOSTLY * off_cpu_share:
        return Making.COMPUTING if (taken_share or 0.0) >= MAX_CPUS_SHARE else Making.WAITING_FOR_CPU
    if cpu_share >= WAITS_SHARE:
        return None
    blocked_share = ratio(work.block_io_s or 0.0, work.time_s) or 0.0
    read_bytes_per_s = (telemetry.host.read_bytes_per_s if telemetry is not None else None) or 0.0
    reads = blocked_share >= MOSTLY * off_cpu_share or read_bytes_per_s >= FROM_STORAGE_BYTES_PER_S
    return Making.WAITING_FOR_STORAGE if reads else Making.WAITING


def queued_share(work: LoaderWork) -> float | None:
    """Return the share of batch-making time in which the thread waited for a CPU; None if unknown."""
    return None if work.run_queue_s is None else ratio(work.run_queue_s, work.time_s)


def boundary_share(loop: LoopMeasurement) -> float:
    """Return the share of an epoch that is spent at its boundary; 0 if unknown."""
    if loop.epoch_time_s is None or loop.boundary_s is None:
        return 0.0
    return max(0.0, ratio(loop.boundary_s, loop.epoch_time_s) or 0.0)


def drained_share(loop: LoopMeasurement) -> float:
    """Return the share of batches at whose end the device had no work left; 0 on a CPU."""
    parts = loop.device_parts
    if parts is None or loop.device.type != "cuda":
        return 0.0
    return min(1.0, parts.drained_batches / parts.batches)


def idle_for_host(measurement: Measurement, telemetry: Telemetry | None = None) -> float | None:
    """Return the share of the step in which a GPU was idle although its data was available.

    A trace shows this. NVML's utilization shows idle time but not its cause, so the GPU must also have run
    out of work in most batches; a script that reads its loss in each step causes that too.

    Returns:
        The share; None without a trace and without NVML.
    """
    loop, shares = measurement.loop, attribution(measurement)
    if loop.device.type != "cuda":
        return 0.0
    traced, busy_share = shares.of(Part.DEVICE_IDLE), nvml_busy_share(loop, telemetry)
    if traced is not None:
        return max(0.0, traced.share - shares.stall_share)
    if busy_share is None:
        return None
    return 0.0 if drained_share(loop) < DRAINED_SHARE else max(0.0, 1 - busy_share - shares.stall_share)


def _launches_all_the_time(loop: LoopMeasurement) -> bool:
    """Return whether the device ran out of work in most batches while the host was busy, not waiting."""
    launching = ratio(loop.parts.compute_s + loop.parts.optimizer_s, loop.steady_time_s) or 0.0
    return drained_share(loop) >= DRAINED_SHARE and launching >= LAUNCHING_SHARE


def nvml_busy_share(loop: LoopMeasurement, telemetry: Telemetry | None) -> float | None:
    """Return an upper bound on the share of step time with a kernel on the busiest GPU; None if unknown.

    NVML also counts kernels between the steps, such as at epoch boundaries; they are attributed to the steps.
    """
    if telemetry is None or not telemetry.is_of_steady_window:
        return None
    windows = max(1.0, telemetry.window_s / loop.steady_time_s)
    readings = (gpu.utilization_percent for gpu in telemetry.gpus if gpu.is_used)
    return max((min(1.0, windows * one / 100) for one in readings if one is not None), default=None)


def copies_alone_share(measurement: Measurement) -> float:
    """Return the share of the step in which a GPU only copied from and to the host; 0 if unknown."""
    kernels = measurement.details.kernels if measurement.details else None
    if kernels is None or kernels.copies_alone_s is None:
        return 0.0
    return min(1.0, ratio(kernels.copies_alone_s / kernels.batches, measurement.loop.step_time_s) or 0.0)


def _bound_by_isolated_rates(measurement: Measurement) -> Bound | None:
    """Return which half takes longer when each runs alone; None if unknown."""
    seen = closure(measurement)
    if seen is None:
        return None
    longer_s = max(seen.compute_s, seen.loader_s)
    is_hidden = longer_s >= (1 - BALANCED) * seen.step_s
    if is_hidden and min(seen.compute_s, seen.loader_s) >= (1 - BALANCED) * longer_s:
        return Bound.BALANCED
    return Bound.DATA if seen.loader_s > seen.compute_s else Bound.COMPUTE
