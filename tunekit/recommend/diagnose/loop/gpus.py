"""What the driver says of the GPUs while the loop ran, and what the allocator says of their memory."""

from tunekit.recommend.diagnose.device import POWER_CAP, SLOWDOWNS
from tunekit.recommend.diagnose.loop.attribution import Bound, ratio
from tunekit.recommend.diagnose.loop.facts import LoopFacts
from tunekit.recommend.diagnose.loop.gains import capped, compute_cap, data_gain, launch_gain
from tunekit.records.finding import Finding, Severity
from tunekit.records.telemetry import GpuTelemetry
from tunekit.units import bytes_text, count_text

_BUSY_PERCENT = 80.0
"""NVML counts a GPU as busy while any kernel runs: a loop that keeps it fed comes close to 100."""

FALL_OF_CLOCK = 0.02
"""Between a window's first and last third: clocks at rest move by a step of 15 MHz, 1%."""
_RISE_C = 3.0
"""Between the same: a sensor's step is 1 C."""

_CAUSES = {
    Bound.DATA: ("it waits for data", "see data-bound"),
    Bound.HOST: ("it waits for the host", "see host-bound"),
    Bound.COPIES: ("it waits for copies", "see copy-bound"),
    Bound.BALANCED: ("loader and training take turns to wait", "see compute-bound"),
}


def gpu_findings(facts: LoopFacts) -> list[Finding]:
    """Return what holds the GPUs of a trial back, or endangers it."""
    found = [_underused(facts)]
    for gpu in facts.gpus:
        found += [_throttled(facts, gpu), _power_capped(facts, gpu)]
    found.append(_retries(facts))
    return [finding for finding in found if finding is not None]


def _underused(facts: LoopFacts) -> Finding | None:
    seen = [(gpu.utilization_percent, gpu) for gpu in facts.gpus if gpu.utilization_percent is not None]
    if not seen:
        return None
    busy_percent, gpu = min(seen, key=lambda one: one[0])
    if busy_percent >= _BUSY_PERCENT:
        return None
    cause, remedy = _CAUSES.get(
        facts.bound,
        ("the step's own figures do not say why", "`tunekit profile --trace-kernels` looks closer"),
    )
    sm = gpu.sm_activity_percent
    beside = f"; {sm:.0f}% of its multiprocessors had work (NVML GPM)" if sm is not None else ""
    gain = None
    if facts.bound is Bound.DATA:
        gain = data_gain(facts.measurement)
    elif facts.bound is Bound.HOST:
        gain = launch_gain(facts.measurement)
    return Finding(
        code="gpu-underused",
        severity=Severity.WARNING,
        message=f"GPU {gpu.index} is idle for a good part of the time: {cause}",
        evidence=f"a kernel ran in {busy_percent:.0f}% of the time (NVML){beside}",
        remedy=remedy,
        value=busy_percent,
        gain=gain,
    )


def _throttled(facts: LoopFacts, gpu: GpuTelemetry) -> Finding | None:
    reasons = [reason for reason in gpu.throttle_reasons if reason in SLOWDOWNS]
    if not reasons:
        return None
    best_mhz = _max_clock_mhz(facts, gpu.index)
    parts = [", ".join(reasons), *_clock_and_heat(gpu, best_mhz)]
    slower = ratio(best_mhz, gpu.sm_clock_mhz) if best_mhz and gpu.sm_clock_mhz else None
    return Finding(
        code="gpu-throttled-in-trial",
        severity=Severity.WARNING,
        message=f"GPU {gpu.index} was slowed down by heat or by its power supply while the loop ran",
        evidence=f"{'; '.join(parts)} (NVML)",
        remedy="look after its cooling and power, or take another machine: a long run will be slower still",
        value=gpu.max_temperature_c if gpu.max_temperature_c and gpu.max_temperature_c > 0 else None,
        gain=capped(max(1.0, slower), compute_cap(facts.measurement)) if slower is not None else None,
    )


def _power_capped(facts: LoopFacts, gpu: GpuTelemetry) -> Finding | None:
    """Find a clock that the power limit holds down: a warning where it had not come to rest yet.

    A GPU that computes at its limit draws more the warmer it is, and its clock falls for minutes.
    """
    if POWER_CAP not in gpu.throttle_reasons:
        return None
    fall = _fall_of_clock(gpu)
    first_c, last_c = gpu.first_temperature_c, gpu.last_temperature_c
    rise_c = last_c - first_c if first_c is not None and last_c is not None else None
    is_moving = (fall is not None and fall >= FALL_OF_CLOCK) or (rise_c is not None and rise_c >= _RISE_C)
    moved = []
    if gpu.first_sm_clock_mhz is not None and gpu.last_sm_clock_mhz is not None:
        moved.append(f"{gpu.first_sm_clock_mhz:.0f} to {gpu.last_sm_clock_mhz:.0f} MHz")
    if first_c is not None and last_c is not None:
        moved.append(f"{first_c:.0f} to {last_c:.0f} C")
    window = f" within {facts.loop.steady_time_s:.0f} s"
    if is_moving:
        return Finding(
            code="gpu-unsoaked",
            severity=Severity.WARNING,
            message=f"GPU {gpu.index} was still getting warm at its power limit: a long run will be slower",
            evidence=f"{POWER_CAP}; {' and '.join(moved)}{window} (NVML)",
            remedy="measure for longer, as with --window 120, until clock and temperature stand still",
            value=fall,
        )
    at_rest = [f"{' and '.join(moved)}{window}"] if moved else []
    parts = [POWER_CAP, *_clock_and_heat(gpu, _max_clock_mhz(facts, gpu.index)), *at_rest]
    return Finding(
        code="gpu-power-capped",
        severity=Severity.INFO,
        message=f"GPU {gpu.index}'s power limit held its clock down, as is usual under full load",
        evidence=f"{'; '.join(parts)} (NVML)",
        remedy="fewer bits for each number do more at the same power; `nvidia-smi -q -d POWER` has its limit",
    )


def _fall_of_clock(gpu: GpuTelemetry) -> float | None:
    """Return the share of its clock that a GPU lost within the window, None if unknown."""
    if not gpu.first_sm_clock_mhz or gpu.last_sm_clock_mhz is None:
        return None
    return max(0.0, 1 - gpu.last_sm_clock_mhz / gpu.first_sm_clock_mhz)


def _clock_and_heat(gpu: GpuTelemetry, best_mhz: float | None) -> list[str]:
    parts = []
    if gpu.sm_clock_mhz is not None:
        parts.append(f"{gpu.sm_clock_mhz:.0f} MHz" + (f" of {best_mhz:.0f}" if best_mhz else ""))
    if gpu.max_temperature_c is not None:
        parts.append(f"up to {gpu.max_temperature_c:.0f} C")
    return parts


def _max_clock_mhz(facts: LoopFacts, index: int) -> float | None:
    gpus = (gpu for gpu in facts.host.accelerators if gpu.index == index and gpu.state is not None)
    return next((gpu.state.max_sm_clock_mhz for gpu in gpus if gpu.state), None)


def _retries(facts: LoopFacts) -> Finding | None:
    loop = facts.loop
    if not loop.allocation_retries:
        return None
    smaller = facts.set_knob("batch_size", max(1, loop.batch_size // 2)) if loop.batch_size else None
    ways = [way for way in (smaller, "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True") if way]
    return Finding(
        code="allocation-retries",
        severity=Severity.WARNING,
        message="the GPU's memory ran out for a moment: the allocator had to free its cache and try again",
        evidence=(
            f"{count_text(loop.allocation_retries, 'time')} (torch's allocator); at most "
            f"{bytes_text(loop.peak_reserved_bytes)} of {bytes_text(loop.device.memory_bytes)} reserved"
        ),
        remedy=f"{' or '.join(ways)}: each retry stops the GPU, and the next batch may not fit",
        value=loop.allocation_retries,
    )
