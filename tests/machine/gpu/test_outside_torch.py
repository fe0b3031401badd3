import pytest
from build_calibrations import calibration
from build_records import profile
from machine.shipped import PROFILES

from tunekit.machine.gpu.outside_torch import outside_torch
from tunekit.records.prediction import BytesRange
from tunekit.units import MIB


@pytest.mark.parametrize(("gpu", "bytes_of_both"), [("a10g", 2 * 8_519_680), ("h200", 64 * MIB)])
def test_torch_asks_for_a_workspace_per_thread(gpu: str, bytes_of_both: int) -> None:
    assert outside_torch(PROFILES[gpu]).blas_workspace_bytes == bytes_of_both


def test_a_gpu_of_unknown_capability_is_taken_for_one_with_the_large_workspace() -> None:
    assert outside_torch(profile(compute_capability=None)).blas_workspace_bytes == 64 * MIB


@pytest.mark.parametrize(
    ("multiprocessors", "low_mib", "high_mib"), [(28, 100, 412), (80, 160, 620), (None, 100, 1100)]
)
def test_an_assumed_context_grows_with_the_multiprocessors(
    multiprocessors: int | None, low_mib: int, high_mib: int
) -> None:
    beside = outside_torch(profile(multiprocessors=multiprocessors))
    assert (beside.context.low, beside.context.high) == (low_mib * MIB, high_mib * MIB)
    assert beside.context.source.startswith("assumed")
    assert "tunekit doctor --calibrate" in beside.context.source


@pytest.mark.parametrize("name", ["cpu", "mps-m1", "mps-m2"])
def test_what_is_no_cuda_gpu_has_nothing_of_the_kind(name: str) -> None:
    beside = outside_torch(PROFILES[name], [calibration()])
    assert beside.blas_workspace_bytes == 0
    assert (beside.context.low, beside.context.high) == (0, 0)
    assert ("CPU" if name == "cpu" else "Apple") in beside.context.source


def test_a_calibration_of_the_device_narrows_the_bounds() -> None:
    beside = outside_torch(PROFILES["h200"], [calibration(blas_backward_bytes=16 * MIB)])
    source = "measured on NVIDIA H200, 2026-05-01, driver 550.54.15, torch 2.13.0+cu130, and 5% either way"
    assert beside.context == BytesRange(low=475 * MIB, high=525 * MIB, source=source)
    assert beside.blas_workspace_bytes == 48 * MIB


def test_workspaces_that_are_given_back_are_not_there_at_once() -> None:
    measured = calibration(blas_is_kept=False, blas_forward_bytes=32 * MIB, blas_backward_bytes=16 * MIB)
    assert outside_torch(PROFILES["h200"], [measured]).blas_workspace_bytes == 32 * MIB


def test_a_calibration_of_another_device_says_nothing() -> None:
    assert outside_torch(PROFILES["a10g"], [calibration()]) == outside_torch(PROFILES["a10g"])
    slice_of_it = calibration(device_name="NVIDIA H200 MIG 1g.18gb")
    assert outside_torch(PROFILES["h200"], [slice_of_it]) == outside_torch(PROFILES["h200"])


def test_the_newest_calibration_counts() -> None:
    old = calibration(created_at="2026-01-01T00:00:00+00:00", context_bytes=900 * MIB)
    assert outside_torch(PROFILES["h200"], [old, calibration(), old]).context.high == 525 * MIB
