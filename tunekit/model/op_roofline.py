"""How long a traced step takes on a GPU that is known by its figures alone. Pure.

Under the roofline model (Williams, Waterman, Patterson 2009, CACM 52(4)) an op takes the longer of its
arithmetic and its memory time, and never less than a launch:

    max(flops / (0.6 x peak), bytes / (0.8 x bandwidth), 4 us)

Against public figures of AMP training with channels_last: ResNet-50 on an RTX 3090 +19% (1,445 instead of
1,218 images/s), on an A100 -0.5% (2,587 instead of about 2,600). Memory layout, fusion and cuDNN's choices
are invisible to it, so that no figure of it is told without +-30%.
"""

from collections.abc import Sequence

from tunekit.records.interval import Interval
from tunekit.records.profile import Profile
from tunekit.records.step_trace import OpCost

PEAK_SHARE = 0.6
BANDWIDTH_SHARE = 0.8
LAUNCH_S = 4e-6
ERROR = 0.3
"""Of a rate, to either side."""

_CONVOLUTIONS = ("convolution", "cudnn_convolution", "mkldnn_convolution")


def compute_rate(
    ops: Sequence[OpCost], samples: int, profile: Profile, uses_tf32: bool = False
) -> Interval | None:
    """Return the samples/s that a GPU alone would train; None where one of its rates is unknown.

    Args:
        ops: of one optimizer step.
        samples: that the step trains on.
        profile: of the GPU.
        uses_tf32: whether float32 matmuls may run in TF32, as convolutions do by default.
    """
    seconds = step_time_s(ops, profile, uses_tf32)
    if seconds is None or seconds <= 0:
        return None
    rate = samples / seconds
    return Interval(value=rate, low=rate * (1 - ERROR), high=rate * (1 + ERROR))


def step_time_s(ops: Sequence[OpCost], profile: Profile, uses_tf32: bool = False) -> float | None:
    """Return the seconds of all ops one after another; None where a rate that they need is unknown."""
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
    """Return the dense peak of the op's kind of arithmetic."""
    if op.dtype in ("bfloat16", "float16"):
        return profile.bf16_tflops or profile.fp16_tflops
    has_tf32 = "tf32" in profile.native_precisions
    if has_tf32 and (uses_tf32 or op.name.removesuffix("_backward").lstrip("_") in _CONVOLUTIONS):
        return profile.tf32_tflops
    return profile.fp32_tflops
