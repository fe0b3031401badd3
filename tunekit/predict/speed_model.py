"""The figures behind predicted speeds, fitted to published training rates, by kinds of ops.

benchmarks/prediction_exam.py fits them, writes speed_model.json and judges it on rates that were not used.
"""

from enum import StrEnum
from functools import cache
from pathlib import Path

from pydantic import PositiveFloat

from tunekit.records.base import Record
from tunekit.records.codec import read_json
from tunekit.records.prediction import OpCost
from tunekit.records.profile import Profile


class Arithmetic(StrEnum):
    """Units of a GPU that have their own peak rate."""

    HALF = "16-bit"
    TF32 = "tf32"
    FP32 = "fp32"


class Compute(StrEnum):
    """Kinds of ops by the share of peak arithmetic that they reach."""

    CONVOLUTION = "convolution"
    GROUPED = "grouped convolution"
    DEPTHWISE = "depthwise convolution"
    MATMUL = "matmul"
    BATCHED_MATMUL = "batched matmul"
    RECURRENT = "recurrent"


class Traffic(StrEnum):
    """Kinds of ops by the share of peak bandwidth that they reach, each tensor counted once."""

    CONVOLUTION = "convolution"
    CHANNELS_LAST = "channels-last convolution"
    MATMUL = "matmul"
    NORM = "norm"
    SOFTMAX = "softmax"
    EMBEDDING = "embedding"
    OPTIMIZER = "optimizer"
    OTHER = "other"


class SpeedModel(Record):
    """Figures fitted to published training rates."""

    source: str
    compute_shares: dict[Compute, dict[Arithmetic, PositiveFloat]]
    bandwidth_shares: dict[Traffic, PositiveFloat]
    kernel_s: PositiveFloat
    """Time of a kernel in addition to its arithmetic or traffic."""
    host_op_s: PositiveFloat
    """Time of the host per op."""
    host_step_s: PositiveFloat
    """Time of the host per step in addition to its ops."""
    gpu_factors: dict[str, dict[Arithmetic, PositiveFloat]]
    """Speed relative to the shares, by profile or by compute capability, such as "8.6"."""
    ranges: dict[str, PositiveFloat]
    """Factor to either side of a predicted rate, by what takes most of the step: a Compute, "memory" or
    "host"."""
    unknown_gpu_range: PositiveFloat
    """Factor to either side if no rate of the GPU itself was published."""
    ratio_offsets: dict[Arithmetic, float]
    ratio_exponents: dict[Arithmetic, tuple[float, float]]
    ratio_factors: dict[str, dict[Arithmetic, PositiveFloat]]
    """A mix of models trains at exp(offset) * peak TFLOPS ** first * (GB/s) ** second * factor."""
    ratio_range: PositiveFloat
    """Factor to either side of a ratio of two GPUs' speeds."""
    unknown_gpu_ratio_range: PositiveFloat


def factor_of(factors: dict[str, dict[Arithmetic, float]], profile: Profile, arithmetic: Arithmetic) -> float:
    """Return a GPU's own factor, else that of its compute capability, else 1."""
    own = factors.get(profile.id) or factors.get(profile.compute_capability or "")
    return own[arithmetic] if own else 1.0


@cache
def published() -> SpeedModel:
    """Return the figures that ship with tunekit."""
    return read_json(Path(__file__).with_name("speed_model.json"), SpeedModel)


_TRAFFIC = {
    "_foreach": Traffic.OPTIMIZER,
    "_fused": Traffic.OPTIMIZER,
    "norm": Traffic.NORM,
    "softmax": Traffic.SOFTMAX,
    "embedding": Traffic.EMBEDDING,
    "mm": Traffic.MATMUL,
    "rnn": Traffic.MATMUL,
    "attention": Traffic.MATMUL,
}
"""The kinds by a part of an op's name; the first that occurs counts."""


def compute_kind(name: str) -> Compute:
    """Return the kind of an op with arithmetic."""
    if name.startswith("convolution"):
        if ".depthwise" in name:
            return Compute.DEPTHWISE
        return Compute.GROUPED if ".grouped" in name else Compute.CONVOLUTION
    if "rnn" in name:
        return Compute.RECURRENT
    is_batched = name in ("bmm", "baddbmm") or "attention" in name
    return Compute.BATCHED_MATMUL if is_batched else Compute.MATMUL


def traffic_kind(name: str) -> Traffic:
    """Return the kind of an op by its memory traffic."""
    if name.startswith("convolution"):
        return Traffic.CHANNELS_LAST if name.endswith("nhwc") else Traffic.CONVOLUTION
    return next((kind for part, kind in _TRAFFIC.items() if part in name), Traffic.OTHER)


def arithmetic_of(op: OpCost, profile: Profile, uses_tf32: bool) -> Arithmetic:
    """Return the units that an op runs on; fp8 is taken to be no faster than 16-bit."""
    if op.dtype.startswith(("bfloat16", "float16", "float8")):
        return Arithmetic.HALF
    has_tf32 = "tf32" in profile.native_precisions
    return Arithmetic.TF32 if has_tf32 and (uses_tf32 or "convolution" in op.name) else Arithmetic.FP32


def peak_tflops(profile: Profile, arithmetic: Arithmetic) -> float | None:
    """Return a GPU's dense peak; None if it is unknown."""
    if arithmetic is Arithmetic.HALF:
        return profile.bf16_tflops or profile.fp16_tflops
    return profile.tf32_tflops if arithmetic is Arithmetic.TF32 else profile.fp32_tflops
