"""Predicts the speed of another GPU from a rate that was measured on one, without a trace."""

import math
from typing import NamedTuple

from tunekit.predict.speed_model import Arithmetic, SpeedModel, factor_of, peak_tflops, published
from tunekit.records.config import Precision
from tunekit.records.interval import EXACTLY_ONE, Interval
from tunekit.records.profile import Profile

SOURCE = "speed of another GPU: published training rates (benchmarks/published/README.md)"
ASSUMPTION = "speedups between GPUs are those of a mix of published models; the range covers 90% of models"


class SpeedRatio(NamedTuple):
    """The speed of another GPU relative to the measured one."""

    ratio: Interval | None
    """None if the necessary figures are unknown."""
    precision: Precision
    """The precision that the other GPU would train in."""
    why: str


def speed_ratio(
    measured: Profile, other: Profile, precision: Precision, model: SpeedModel | None = None
) -> SpeedRatio:
    """Return the rate of one `other` GPU over that of one `measured` GPU, for a mix of models.

    Args:
        measured: the GPU that the step was measured on.
        other: the GPU that it is predicted for.
        precision: the precision of the measurement; if the other GPU does not have it, the other 16-bit one
            replaces it, or fp32 without either.
        model: by default the one that ships with tunekit.

    Returns:
        A ratio with its bounds, exactly 1 for the same GPU; None with the reason if a figure is unknown.
    """
    if measured.id == other.id:
        return SpeedRatio(EXACTLY_ONE, precision, f"measured on {other.id}")
    if not _is_native(measured, precision):
        return SpeedRatio(None, precision, f"{measured.id} has no native {precision} to compare with")
    model = model or published()
    used = other.precision_for(precision) or Precision.FP32
    before, after = _speeds(measured, precision, model), _speeds(other, used, model)
    unknown = [gpu.id for gpu, speeds in ((measured, before), (other, after)) if not speeds]
    if unknown:
        why = f"memory bandwidth or {used} rate of {' and '.join(unknown)} unknown"
        return SpeedRatio(None, used, why)
    has_rates = measured.id in model.gpu_factors and other.id in model.gpu_factors
    factor = model.ratio_range if has_rates else model.unknown_gpu_ratio_range
    ratios = [speed / start for start, speed in zip(before, after, strict=True)]
    ratio = Interval.between(min(ratios) / factor, max(ratios) * factor)
    fallback = "" if used is precision else f" to {used}, since {other.id} has no {precision}"
    return SpeedRatio(ratio, used, f"predicted from {measured.id} in {precision}{fallback}")


def _is_native(profile: Profile, precision: Precision) -> bool:
    return precision is Precision.FP32 or str(precision) in profile.native_precisions


def _speeds(profile: Profile, precision: Precision, model: SpeedModel) -> tuple[float, ...]:
    """Return a GPU's speed, first for matmuls, then for convolutions; empty if a figure is unknown.

    In fp32, PyTorch computes convolutions in TF32 where the GPU has it, and matmuls in IEEE fp32.
    """
    matmul = convolution = Arithmetic.HALF
    if precision in (Precision.FP32, Precision.TF32):
        convolution = Arithmetic.TF32 if _is_native(profile, Precision.TF32) else Arithmetic.FP32
        matmul = Arithmetic.FP32 if precision is Precision.FP32 else convolution
    peaks = [(one, peak_tflops(profile, one)) for one in (matmul, convolution)]
    bandwidth = profile.bandwidth_gb_per_s
    if bandwidth is None or None in dict(peaks).values():
        return ()
    return tuple(
        math.exp(model.ratio_offsets[one])
        * peak ** model.ratio_exponents[one][0]
        * bandwidth ** model.ratio_exponents[one][1]
        * factor_of(model.ratio_factors, profile, one)
        for one, peak in peaks
        if peak is not None
    )
