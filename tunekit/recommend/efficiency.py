"""Tokens per second, model FLOP/s and energy of a config's measured processes."""

from collections.abc import Sequence
from statistics import fmean

from tunekit.records.config import TrainConfig
from tunekit.records.profile import Profile
from tunekit.records.trials import Measured


def efficiency(
    config: TrainConfig,
    processes: Sequence[Measured],
    rate_samples_per_s: float,
    flops_per_sample: float | None,
    device: Profile | None,
) -> dict[str, float | None]:
    """Return those fields of ConfigFigures; None for each that is unknown.

    Args:
        config: the config, whose precision the peak belongs to.
        processes: its measured processes, at least one.
        rate_samples_per_s: their mean rate, of all ranks.
        flops_per_sample: as traced.
        device: the GPU that they ran on.
    """
    loop = processes[0].loop
    tokens = loop.batch.tokens_per_sample if loop.batch else None
    peak = getattr(device, f"{config.precision}_tflops") if device else None
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
    powers_w = [gpu.counted_power_w for gpu in telemetry.gpus if gpu.is_used]
    ranks_here = len(loop.ranks) or 1
    if not powers_w or None in powers_w or (loop.world_size > 1 and not loop.ranks):
        return None
    power_w = sum(one or 0.0 for one in powers_w)
    return power_w * loop.steady_time_s / (ranks_here * loop.steady_samples)
