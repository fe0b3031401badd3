"""Puts the measured ops of a calibrated GPU into the speed model."""

import math
from collections.abc import Sequence
from statistics import fmean

from tunekit.machine.gpu.outside_torch import newest_of
from tunekit.predict.roofline import step_time
from tunekit.predict.speed_model import Arithmetic, SpeedModel, arithmetic_of, published
from tunekit.records.prediction import Calibration, OpTime
from tunekit.records.profile import Profile


def calibrated_model(profile: Profile, calibrations: Sequence[Calibration]) -> SpeedModel:
    """Return the speed model, with a GPU's own factors and its host's time per op if it was calibrated."""
    model, measured = published(), newest_of(profile, calibrations)
    factors = _factors(model, profile, measured.op_times) if measured else None
    if measured is None or factors is None:
        return model
    return model.changed(
        gpu_factors=model.gpu_factors | {profile.id: factors},
        host_op_s=measured.host_op_s or model.host_op_s,
    )


def _factors(model: SpeedModel, profile: Profile, times: Sequence[OpTime]) -> dict[Arithmetic, float] | None:
    """Return expected over measured times, as geometric means; None if nothing was measured."""
    plain = model.changed(gpu_factors={})
    logs: dict[Arithmetic, list[float]] = {one: [] for one in Arithmetic}
    for op, seconds in times:
        expected = step_time([op], profile, False, plain)
        if expected is None:
            return None
        units = [arithmetic_of(op, profile, False)] if op.flops else list(Arithmetic)
        for unit in units:
            logs[unit].append(math.log(expected.gpu_s / seconds))
    return {unit: math.exp(fmean(some)) for unit, some in logs.items()} if all(logs.values()) else None
