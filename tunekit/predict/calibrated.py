"""Puts what `tunekit doctor --calibrate` measured into the speed model."""

import math
from collections.abc import Sequence

from tunekit.machine.gpu.outside_torch import newest_of
from tunekit.predict.speed_model import (
    Arithmetic,
    SpeedModel,
    arithmetic_of,
    factor_of,
    peak_tflops,
    published,
)
from tunekit.records.prediction import Calibration, OpTime
from tunekit.records.profile import Profile

_USUAL_SHARE = 0.85
"""Share of peak rate or bandwidth that a large matmul or addition reaches by itself on most GPUs. Matmuls
reach 0.73 to 0.87 on NVIDIA's (stas00/ml-engineering @744d01e, MAMF), and 0.95 on an A10G."""


def calibrated_model(profile: Profile, calibrations: Sequence[Calibration]) -> SpeedModel:
    """Return the speed model, with a calibrated GPU's own factors and its host's time per op.

    A GPU with published training rates keeps its factors: whole trainings are better evidence.
    """
    model, measured = published(), newest_of(profile, calibrations)
    if measured is None or measured.host_op_s is None:
        return model
    model = model.changed(host_op_s=measured.host_op_s)
    found = {} if profile.id in model.gpu_factors else _factors(model, profile, measured.op_times)
    return model.changed(gpu_factors=model.gpu_factors | {profile.id: found}) if found else model


def _factors(model: SpeedModel, profile: Profile, times: Sequence[OpTime]) -> dict[Arithmetic, float]:
    """Scale the usual factors of such a GPU by its matmul and bandwidth shares over the usual ones."""
    matmul: dict[Arithmetic, float] = {}
    bandwidth = 0.0
    for op, seconds in times:
        if op.name == "mm":
            unit = arithmetic_of(op, profile, False)
            peak = peak_tflops(profile, unit)
            share = op.flops / seconds / (peak * 1e12) if peak else 0.0
            matmul[unit] = max(share, matmul.get(unit, 0.0))
        elif op.name == "add" and profile.bandwidth_gb_per_s:
            bandwidth = max(bandwidth, op.moved_bytes / seconds / (profile.bandwidth_gb_per_s * 1e9))
    matmul[Arithmetic.TF32] = matmul.get(Arithmetic.HALF, 0.0)  # on the same units
    if not bandwidth or not all(matmul.get(unit) for unit in Arithmetic):
        return {}
    return {
        unit: factor_of(model.gpu_factors, profile, unit) * math.sqrt(matmul[unit] * bandwidth) / _USUAL_SHARE
        for unit in Arithmetic
    }
