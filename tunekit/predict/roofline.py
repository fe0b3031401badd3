"""Predicts a GPU's training speed from its bandwidth and rates, and a traced or measured step.

Under the roofline model (Williams, Waterman, Patterson 2009, CACM 52(4)) every kernel takes the longer of
its memory time and its arithmetic time. For any mix of kernels, the speed ratio of two GPUs is then between
the ratio of their bandwidths and the ratio of their rates. That is the core of the interval. It is widened by
what the model does not know:

- the share of its peak that a GPU reaches. Profiles have it for bf16 if it was published; otherwise it is
  assumed to be within PUBLISHED_FRACTIONS, or POWER_LIMITED_FRACTIONS for small cards;
- fp32: PyTorch computes fp32 convolutions in TF32 if available (torch.backends.cudnn.allow_tf32 is on) and
  matmuls in IEEE fp32, so both ratios are included;
- a fallback to fp32 on a GPU without the measured precision moves up to twice the bytes;
- everything else: MODEL_ERROR, the mean error of Habitat (Yu et al. 2021, USENIX ATC), which converts a
  measured step kernel by kernel and is the best published result of such a conversion.

A step that waits for its loader, or for the CPU to launch kernels, gains nothing from a faster GPU: the ratio
applies to steps that keep the GPU busy.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tunekit.records.config import Precision
from tunekit.records.interval import EXACTLY_ONE, Interval
from tunekit.records.prediction import OpCost
from tunekit.records.profile import Profile

MODEL_ERROR = 1.118
"""Factor by which the roofline's bounds are widened to either side."""

PUBLISHED_FRACTIONS = (0.78, 0.95)
"""Share of the peak that a GPU without a published figure is assumed to reach: the range of the profiles."""

POWER_LIMITED_FRACTIONS = (0.5, 0.95)
"""The same share, an assumption, for cards that their power limit slows down much earlier (T4, L4)."""

_POWER_LIMITED_W = 75.0
"""Power that a PCIe slot supplies; cards up to this limit count as small."""

_FALLBACK_BYTES = (1.0, 2.0)
"""Bytes moved in fp32 relative to a 16-bit autocast, which keeps some of its tensors in fp32."""

PEAK_SHARE, BANDWIDTH_SHARE = 0.6, 0.8
"""Shares of peak rate and peak bandwidth that the ops of a traced step are assumed to reach."""

LAUNCH_S = 4e-6
"""What every op takes at the least."""

ERROR = 0.3
"""Relative error of a rate predicted from a traced step, to either side."""

_CONVOLUTIONS = ("convolution", "cudnn_convolution", "mkldnn_convolution")

SOURCE = (
    "speed of another GPU: roofline (Williams et al. 2009, CACM 52(4)), each bound widened by 11.8%, the "
    "mean error of Habitat (Yu et al. 2021, USENIX ATC)"
)


class SpeedRatio(NamedTuple):
    """The speed of another GPU relative to the measured one."""

    ratio: Interval | None
    """None if the necessary figures are unknown."""
    precision: Precision
    """The precision that the other GPU would train in."""
    why: str


def speed_ratio(measured: Profile, other: Profile, precision: Precision) -> SpeedRatio:
    """Return the rate of one `other` GPU over that of one `measured` GPU.

    Args:
        measured: the GPU that the step was measured on.
        other: the GPU that it is predicted for.
        precision: the precision of the measurement; if the other GPU does not have it, fp32 replaces it.

    Returns:
        A ratio with its bounds, exactly 1 for the same GPU; None with the reason if a figure is unknown.
    """
    if measured.id == other.id:
        return SpeedRatio(EXACTLY_ONE, precision, f"measured on {other.id}")
    if not _is_native(measured, precision):
        return SpeedRatio(None, precision, f"{measured.id} has no native {precision} to compare with")
    used = precision if _is_native(other, precision) else Precision.FP32
    unknown = [*_unknown(measured, precision), *_unknown(other, used)]
    if unknown:
        return SpeedRatio(None, used, f"unknown: {', '.join(unknown)}")
    memory = (other.bandwidth_gb_per_s or 0) / (measured.bandwidth_gb_per_s or 1)
    moved = _FALLBACK_BYTES if used is not precision else (1.0,)
    bounds = [*(memory / times for times in moved), *_compute_ratios(measured, precision, other, used)]
    ratio = Interval.between(min(bounds) / MODEL_ERROR, max(bounds) * MODEL_ERROR)
    fallback = "" if used is precision else f" to {used}, since {other.id} has no {precision}"
    return SpeedRatio(ratio, used, f"roofline from {measured.id} in {precision}{fallback}")


def assumptions(used: Iterable[tuple[Profile, Precision]]) -> tuple[str, ...]:
    """Return the assumptions behind ratios between these GPUs, one sentence each.

    Args:
        used: the measured GPU and the predicted ones, with the precision that each trains in.
    """
    pairs = list(used)
    shares = {_fraction(*pair) for pair in pairs}
    lines = []
    if PUBLISHED_FRACTIONS in shares or POWER_LIMITED_FRACTIONS in shares:
        (low, high), (low_small, high_small) = PUBLISHED_FRACTIONS, POWER_LIMITED_FRACTIONS
        lines.append(
            f"a GPU reaches {low:.0%} to {high:.0%} of its peak rate without a published share "
            f"({low_small:.0%} to {high_small:.0%} on cards of up to {_POWER_LIMITED_W:.0f} W)"
        )
    if any(precision is Precision.FP32 and _is_native(gpu, Precision.TF32) for gpu, precision in pairs):
        lines.append("in fp32, convolutions run in TF32 where the GPU has it, as torch does by default")
    return tuple(lines)


def _is_native(profile: Profile, precision: Precision) -> bool:
    return precision is Precision.FP32 or str(precision) in profile.native_precisions


def _compute_ratios(
    measured: Profile, precision: Precision, other: Profile, used: Precision
) -> tuple[float, ...]:
    """Return the ratios of the rates that two GPUs can reach, for all kinds of arithmetic and fractions."""
    low_before, high_before = _fraction(measured, precision)
    low_after, high_after = _fraction(other, used)
    pairs = zip(_rates(measured, precision), _rates(other, used), strict=True)
    peaks = [after / before for before, after in pairs]
    reached = (low_after / high_before, high_after / low_before)
    return tuple(peak * share for peak in peaks for share in reached)


def _rates(profile: Profile, precision: Precision) -> tuple[float, ...]:
    """Return the dense peak TFLOPS of a precision's matmuls and convolutions; empty if one is unknown."""
    matmul = convolution = getattr(profile, f"{precision}_tflops")
    if precision is Precision.FP32 and _is_native(profile, Precision.TF32):
        convolution = profile.tf32_tflops
    return () if matmul is None or convolution is None else (matmul, convolution)


def _fraction(profile: Profile, precision: Precision) -> tuple[float, float]:
    """Return the bounds on the share of its peak that the GPU may reach."""
    known = profile.achievable_bf16_fraction
    if known is not None and precision in (Precision.BF16, Precision.FP16):
        return known, known  # both run on the same tensor cores
    is_power_limited = profile.tdp_w is not None and profile.tdp_w <= _POWER_LIMITED_W
    return POWER_LIMITED_FRACTIONS if is_power_limited else PUBLISHED_FRACTIONS


def _unknown(profile: Profile, precision: Precision) -> list[str]:
    missing = [] if profile.bandwidth_gb_per_s is not None else [f"memory bandwidth of {profile.id}"]
    if not _rates(profile, precision):
        missing.append(f"{precision} rate of {profile.id}")
    return missing


def compute_rate(
    ops: Sequence[OpCost], samples: int, profile: Profile, uses_tf32: bool = False
) -> Interval | None:
    """Return the training rate of a GPU without its loader, in samples/s; None if a rate is unknown.

    Args:
        ops: the ops of one optimizer step.
        samples: the samples per step.
        profile: the GPU's profile.
        uses_tf32: whether float32 matmuls may run in TF32, as convolutions do by default.
    """
    seconds = step_time_s(ops, profile, uses_tf32)
    if seconds is None or seconds <= 0:
        return None
    rate = samples / seconds
    return Interval(value=rate, low=rate * (1 - ERROR), high=rate * (1 + ERROR))


def step_time_s(ops: Sequence[OpCost], profile: Profile, uses_tf32: bool = False) -> float | None:
    """Return the total time of all ops in sequence; None if a rate that they need is unknown."""
    if profile.bandwidth_gb_per_s is None:
        return None
    bandwidth = BANDWIDTH_SHARE * profile.bandwidth_gb_per_s * 1e9
    total_s = 0.0
    for op in ops:
        arithmetic_s = 0.0
        if op.flops:
            peak = _peak_tflops(op, profile, uses_tf32)
            if peak is None:
                return None
            arithmetic_s = op.flops / (PEAK_SHARE * peak * 1e12)
        total_s += max(arithmetic_s, op.moved_bytes / bandwidth, LAUNCH_S)
    return total_s


def _peak_tflops(op: OpCost, profile: Profile, uses_tf32: bool) -> float | None:
    """Return the GPU's dense peak for the op's kind of arithmetic."""
    if op.dtype in ("bfloat16", "float16"):
        return profile.bf16_tflops or profile.fp16_tflops
    has_tf32 = "tf32" in profile.native_precisions
    if has_tf32 and (uses_tf32 or op.name.removesuffix("_backward").lstrip("_") in _CONVOLUTIONS):
        return profile.tf32_tflops
    return profile.fp32_tflops
