"""What the measured ops of a calibrated GPU change in the speed model."""

import pytest
from build_calibrations import calibration
from build_records import profile

from tunekit.machine.profiles import load_profiles
from tunekit.predict.calibrated import calibrated_model
from tunekit.predict.roofline import step_time
from tunekit.predict.speed_model import Arithmetic, published
from tunekit.records.prediction import Calibration, OpCost, OpTime

H200 = load_profiles()["h200"]
OPS = (
    OpCost("mm", "bfloat16", 1e12, 1e8),
    OpCost("mm", "float32", 1e11, 1e8),
    OpCost("convolution", "float32", 1e11, 1e8),
)


def calibrated(slowness: float) -> Calibration:
    """An H200 whose ops take so many times as long as they would with no factor."""
    plain = published().changed(gpu_factors={})
    times = [step_time([op], H200, False, plain) for op in OPS]
    measured = tuple(OpTime(op, slowness * time.gpu_s) for op, time in zip(OPS, times, strict=True) if time)
    return calibration(op_times=measured, host_op_s=5e-6)


def test_a_gpu_is_as_fast_as_its_ops_were_measured():
    model = calibrated_model(H200, [calibrated(2.0)])
    assert model.gpu_factors["h200"] == pytest.approx(dict.fromkeys(Arithmetic, 0.5))
    assert model.host_op_s == 5e-6
    assert model.gpu_factors["a10"] == published().gpu_factors["a10"]


def test_memory_bound_ops_count_for_every_precision():
    add = OpCost("add", "float32", 0, 1e9)
    time = step_time([add], H200, False, published().changed(gpu_factors={}))
    assert time is not None
    measured = calibrated(1.0)
    slow_memory = measured.changed(op_times=(*measured.op_times, OpTime(add, 4 * time.gpu_s)))
    model = calibrated_model(H200, [slow_memory])
    assert model.gpu_factors["h200"] == pytest.approx(dict.fromkeys(Arithmetic, 0.5))


def test_another_gpu_or_an_old_calibration_changes_nothing():
    assert calibrated_model(profile(), [calibrated(2.0)]) == published()
    assert calibrated_model(H200, [calibration()]) == published()
