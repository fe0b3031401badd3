"""Tokens per second, model FLOP/s and energy of a config's measured processes."""

from collections.abc import Sequence
from statistics import fmean

from tunekit.records.config import Precision, TrainConfig
from tunekit.records.profile import Profile
from tunekit.records.trials import Measured


def efficiency(
    config: TrainConfig,
    processes: Sequence[Measured],
    rate_samples_per_s: float,
    flops_per_sample: float | None,
    device: Profile | None,
) -> dict[str, float | None]:
    """Return the efficiency fields of ConfigFigures; None for each that is unknown.

    Args:
        config: the config, whose precision the peak rate of the MFU belongs to.
        processes: its measured processes, at least one.
        rate_samples_per_s: their mean rate, of all ranks.
        flops_per_sample: as traced.
        device: the GPU that they ran on.
    """
    loop = processes[0].loop
    tokens = loop.batch.tokens_per_sample if loop.batch else None
    # Convolutions of fp32 run in TF32 where the GPU has it.
    names = ("tf32", "fp32") if config.precision is Precision.FP32 else (config.precision,)
    peaks = [getattr(device, f"{name}_tflops") for name in names] if device else []
    peak = next((one for one in peaks if one), None)
    flops_per_s = flops_per_sample and flops_per_sample * rate_samples_per_s / loop.world_size
    joules = [one for process in processes if (one := _joules_per_sample(process))]
    return {
        "tokens_per_s": tokens and tokens * rate_samples_per_s,
        "joules_per_sample": fmean(joules) if joules else None,
        "flops_per_s": flops_per_s,
        "mfu": flops_per_s / (peak * 1e12) if flops_per_s and peak else None,
    }


def _joules_per_sample(process: Measured) -> float | None:
    telemetry, loop = process.record.telemetry, process.loop
    if telemetry is None or not telemetry.is_of_steady_window or process.record.neighbours:
        return None
    used = [gpu for gpu in telemetry.gpus if gpu.is_used]
    powers_w = [gpu.counted_power_w for gpu in used if gpu.counted_power_w is not None]
    ranks_here = len(loop.ranks) or 1
    if not used or len(powers_w) < len(used) or (loop.world_size > 1 and not loop.ranks):
        return None
    return sum(powers_w) * loop.steady_time_s / (ranks_here * loop.steady_samples)
