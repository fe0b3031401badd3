"""Predicts the training speed of a GPU that is not here from a traced step.

By the roofline model (Williams, Waterman, Patterson 2009, CACM 52(4)) every kernel takes the longer of its
arithmetic and its memory traffic; a step takes the longer of all its kernels and the host's launch time.
speed_model.py has the shares of peak rate and bandwidth that each kind of op reaches.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from tunekit.predict.speed_model import (
    Arithmetic,
    SpeedModel,
    arithmetic_of,
    compute_kind,
    factor_of,
    peak_tflops,
    published,
    traffic_kind,
)
from tunekit.records.interval import Interval
from tunekit.records.prediction import OpCost
from tunekit.records.profile import Profile

_SHARPNESS = 8
"""Exponent of the smooth maximum of GPU and host time."""


class StepTime(NamedTuple):
    """Predicted times of one optimizer step."""

    gpu_s: float
    host_s: float
    largest: str
    """What takes most of the step: a Compute, "memory" or "host"."""

    @property
    def step_s(self) -> float:
        """The longer of both, and up to 9% more where they are equal."""
        longer, shorter = max(self.gpu_s, self.host_s), min(self.gpu_s, self.host_s)
        return longer * math.pow(1 + (shorter / longer) ** _SHARPNESS, 1 / _SHARPNESS)


def compute_rate(
    ops: Sequence[OpCost],
    samples: int,
    profile: Profile,
    uses_tf32: bool = False,
    model: SpeedModel | None = None,
) -> Interval | None:
    """Return the training rate of a GPU without its loader, in samples/s; None if a rate is unknown.

    Args:
        ops: the ops of one optimizer step.
        samples: the samples per step.
        profile: the GPU's profile.
        uses_tf32: whether float32 matmuls may run in TF32, as convolutions do by default.
        model: by default the one that ships with tunekit.
    """
    model = model or published()
    time = step_time(ops, profile, uses_tf32, model)
    if time is None or not ops:
        return None
    factor = model.ranges[time.largest]
    if profile.id not in model.gpu_factors:
        factor = max(factor, model.unknown_gpu_range)
    rate = samples / time.step_s
    return Interval(value=rate, low=rate / factor, high=rate * factor)


def step_time(ops: Sequence[OpCost], profile: Profile, uses_tf32: bool, model: SpeedModel) -> StepTime | None:
    """Return the time of all ops one after another; None if a rate that they need is unknown."""
    if profile.bandwidth_gb_per_s is None:
        return None
    by_kind: defaultdict[str, float] = defaultdict(float)
    flops: Counter[Arithmetic] = Counter()
    for op in ops:
        compute_s = 0.0
        if op.flops:
            arithmetic = arithmetic_of(op, profile, uses_tf32)
            peak = peak_tflops(profile, arithmetic)
            if peak is None:
                return None
            flops[arithmetic] += int(op.flops)
            share = model.compute_shares[compute_kind(op.name)][arithmetic]
            compute_s = op.flops / (share * peak * 1e12)
        share = model.bandwidth_shares[traffic_kind(op.name)]
        traffic_s = op.moved_bytes / (share * profile.bandwidth_gb_per_s * 1e9)
        kind = compute_kind(op.name) if compute_s > traffic_s else "memory"
        by_kind[kind] += max(compute_s, traffic_s) + model.kernel_s
    arithmetic = max(flops, key=lambda one: flops[one], default=Arithmetic.FP32)
    gpu_s = sum(by_kind.values()) / factor_of(model.gpu_factors, profile, arithmetic)
    host_s = len(ops) * model.host_op_s + model.host_step_s
    largest = "host" if host_s > gpu_s else max(by_kind, key=lambda one: by_kind[one], default="host")
    return StepTime(gpu_s, host_s, largest)
