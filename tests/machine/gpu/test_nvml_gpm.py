"""The counters of Hopper and newer GPUs, through the real package's structures."""

import math
import sys

import pytest
from machine.scripted_pynvml import (
    COUNTED,
    GPU_IS_LOST,
    NOT_SUPPORTED,
    ScriptedPynvml,
    real,
)

from tunekit.machine.gpu.nvml import GpuReading, Nvml

SEEN = GpuReading(
    graphics_activity_percent=99,
    sm_activity_percent=97.5,
    tensor_activity_percent=81.25,
    dram_activity_percent=33,
    pcie_tx_mb_per_s=pytest.approx(104.8576),
    pcie_rx_mb_per_s=pytest.approx(1048.576),
)


def opened(monkeypatch: pytest.MonkeyPatch, pynvml: ScriptedPynvml) -> Nvml:
    monkeypatch.setitem(sys.modules, "pynvml", pynvml)
    return Nvml()


def activity(nvml: Nvml) -> GpuReading | None:
    first, second = nvml.gpm_sample(0), nvml.gpm_sample(0)
    assert first is not None
    assert second is not None
    return nvml.gpm_between(first, second)


def test_two_samples_tell_what_happened_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(monkeypatch, ScriptedPynvml()) as nvml:
        assert activity(nvml) == SEEN


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_a_figure_that_is_no_figure_is_none(monkeypatch: pytest.MonkeyPatch, value: float) -> None:
    counted = {**COUNTED, "NVML_GPM_METRIC_SM_UTIL": value}
    with opened(monkeypatch, ScriptedPynvml(counted=counted)) as nvml:
        seen = activity(nvml)
    assert seen is not None
    assert seen.sm_activity_percent is None
    assert seen.tensor_activity_percent == 81.25


@pytest.mark.parametrize("failure", [NOT_SUPPORTED, AttributeError()])
@pytest.mark.parametrize("question", ["nvmlGpmQueryDeviceSupport", "nvmlGpmSampleAlloc", "nvmlGpmSampleGet"])
def test_a_gpu_that_refuses_has_no_sample_and_keeps_no_memory(
    monkeypatch: pytest.MonkeyPatch, question: str, failure: Exception
) -> None:
    pynvml = ScriptedPynvml({question: failure})
    with opened(monkeypatch, pynvml) as nvml:
        assert nvml.gpm_sample(0) is None
        assert pynvml.allocated == []


def test_a_gpu_before_hopper_has_no_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    pynvml = ScriptedPynvml()
    pynvml.nvmlGpmQueryDeviceSupport = lambda handle: real.c_nvmlGpmSupport_t(isSupportedDevice=0)
    with opened(monkeypatch, pynvml) as nvml:
        assert nvml.gpm_sample(0) is None
    assert "nvmlGpmSampleAlloc" not in pynvml.calls


@pytest.mark.parametrize("question", ["nvmlGpmSampleGet", "nvmlDeviceGetHandleByIndex"])
def test_a_gpu_that_was_lost_for_a_moment_is_sampled_again(
    monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    pynvml = ScriptedPynvml()
    with opened(monkeypatch, pynvml) as nvml:
        assert nvml.gpm_sample(0) is not None
        pynvml.failing[question] = GPU_IS_LOST
        assert nvml.gpm_sample(0) is None
        assert len(pynvml.allocated) == 1
        pynvml.failing.clear()
        assert activity(nvml) == SEEN
