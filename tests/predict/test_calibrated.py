"""What a calibration changes in the speed model."""

import pytest
from build_calibrations import calibration
from build_records import profile

from tunekit.machine.profiles import load_profiles
from tunekit.predict.calibrated import calibrated_model
from tunekit.predict.speed_model import Arithmetic, published
from tunekit.records.prediction import Calibration, OpCost, OpTime

NEW = profile("new", device_names=("NVIDIA New",), bandwidth_gb_per_s=600, bf16_tflops=70, fp32_tflops=35)
USUAL = published().gpu_factors[NEW.compute_capability or ""]


def measured(matmul_share: float, bandwidth_share: float, device_name: str = "NVIDIA New") -> Calibration:
    """A GPU whose ops reach these shares of 70 and 35 TFLOPS and of 600 GB/s; small ones reach less."""
    ops = (
        OpTime(OpCost("mm", "bfloat16", 70e12, 0), 1 / matmul_share),
        OpTime(OpCost("mm", "bfloat16", 70e9, 0), 1 / matmul_share),
        OpTime(OpCost("mm", "float32", 35e12, 0), 1 / matmul_share),
        OpTime(OpCost("add", "float32", 0, 600e9), 1 / bandwidth_share),
        OpTime(OpCost("convolution", "float32", 1e9, 1e6), 1.0),
    )
    return calibration(device_name=device_name, op_times=ops, host_op_s=5e-6)


@pytest.mark.parametrize(
    ("matmul_share", "bandwidth_share", "factor"),
    [(0.85, 0.85, 1.0), (0.85 / 4, 0.85, 0.5), (0.85, 0.2125, 0.5)],
)
def test_a_gpu_is_as_much_slower_as_its_matmuls_and_its_memory(
    matmul_share: float, bandwidth_share: float, factor: float
):
    model = calibrated_model(NEW, [measured(matmul_share, bandwidth_share)])
    assert model.gpu_factors["new"] == pytest.approx({unit: factor * USUAL[unit] for unit in Arithmetic})
    assert model.host_op_s == 5e-6


def test_a_gpu_with_published_rates_keeps_its_factors_and_takes_the_host():
    model = calibrated_model(load_profiles()["h200"], [measured(0.2, 0.2, "NVIDIA H200")])
    assert model == published().changed(host_op_s=5e-6)


def test_another_gpu_or_a_calibration_without_speeds_changes_nothing():
    assert calibrated_model(profile(), [measured(0.5, 0.5)]) == published()
    assert calibrated_model(NEW, [calibration(device_name="NVIDIA New")]) == published()
    only_host = measured(0.5, 0.5).changed(op_times=())
    assert calibrated_model(NEW, [only_host]) == published().changed(host_op_s=5e-6)
