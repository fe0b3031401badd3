"""Knobs that trials set, counted by what the simulated device then did: its kernels and its copies."""

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from gpu_environment import on_both_torches
from real_trials import RealTrials, zoo_target

from simgpu.machine import SimulatedGpu
from tunekit.records.config import Precision
from tunekit.records.trial import TrialRecord

BATCH = 16


class TrialsOnGpu:
    """Trials on a simulated device, each with what the device did in it."""

    def __init__(self, gpu: SimulatedGpu, folder: Path, *words: str) -> None:
        target = zoo_target("knobs_on_gpu.py", *words)
        command = (str(gpu.python), *target.command[1:])
        self._trials = RealTrials(target.model_copy(update={"command": command}), folder)
        self._gpu = gpu
        self.did: Counter[str] = Counter()

    def baseline(self) -> TrialRecord:
        """Run the script as it is."""
        return self._after(self._trials.run_baseline)

    def run(self, **knobs: object) -> TrialRecord:
        """Run it with knobs."""
        return self._after(lambda: self._trials.run(**knobs))

    def count(self, pattern: str) -> int:
        """Pieces of work of the last trial whose name begins so."""
        return sum(count for name, count in self.did.items() if re.match(pattern, name))

    def _after(self, trial: Callable[[], TrialRecord]) -> TrialRecord:
        before = Counter(work.name for work in self._gpu.trace())
        record = trial()
        self.did = Counter(work.name for work in self._gpu.trace()) - before
        return record


OnDevice = Callable[..., TrialsOnGpu]


@pytest.fixture
def on_device(simulated_gpu: SimulatedGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> OnDevice:
    """Trials of `knobs_on_gpu.py` on a device that is named."""

    def begin(devices: str, *words: str) -> TrialsOnGpu:
        for name, value in simulated_gpu.environment(devices).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no pool of processes for a few kernels
        return TrialsOnGpu(simulated_gpu, tmp_path / "trials", *words)

    return begin


@pytest.mark.slow
@on_both_torches
def test_an_ampere_device_runs_what_the_knobs_ask_for(on_device: OnDevice) -> None:
    trials = on_device("a10g")
    own = trials.baseline()
    assert own.config is not None
    assert own.discovery is not None
    assert own.config.precision is Precision.FP32
    assert (own.discovery.tf32_in_matmul, own.discovery.tf32_in_conv) == (False, True)
    assert trials.count(r"gemm fp32 ") > 0 == trials.count(r"gemm (?!fp32 )")
    assert trials.count(r"conv \w+ tf32 nchw ") > 0 == trials.count(r"conv \w+ (?!tf32 nchw )")
    assert trials.count(r"triton_|Memcpy HtoD \(Pinned") == 0

    tf32 = trials.run(precision=Precision.TF32, channels_last=True, batch_size=2 * BATCH)
    assert tf32.failure is None
    assert trials.count(r"gemm tf32 ") > 0 == trials.count(r"gemm (?!tf32 )")
    assert trials.count(rf"conv \w+ tf32 nhwc n{2 * BATCH} ") > 0
    assert trials.count(r"conv \w+ (?!tf32 nhwc )") == 0

    loaded = {"num_workers": 2, "prefetch_factor": 4, "persistent_workers": True, "pin_memory": True}
    all_of_it = trials.run(precision=Precision.BF16, channels_last=True, compile=True, **loaded)
    assert all_of_it.failure is None
    assert trials.count(r"gemm bf16 ") > 0 == trials.count(r"gemm (?!bf16 )")
    assert trials.count(r"conv \w+ bf16 nhwc ") > 0 == trials.count(r"conv \w+ (?!bf16 nhwc )")
    assert trials.count(r"triton_\w*gelu") > 0 == trials.count(r".*GeluCUDAKernel")
    batches = trials.count(r"conv fprop bf16 nhwc n16 c8 ")
    assert 0 < 2 * batches <= trials.count(r"Memcpy HtoD \(Pinned")  # images and labels


@pytest.mark.slow
def test_a_turing_device_computes_in_fp16_and_has_no_tf32(on_device: OnDevice) -> None:
    trials = on_device("t4")
    own = trials.baseline()
    assert own.config is not None
    assert own.discovery is not None
    assert own.config.precision is Precision.FP32
    assert (own.discovery.tf32_in_matmul, own.discovery.tf32_in_conv) == (False, False)
    assert own.discovery.bf16_native is False
    assert trials.count(r"(gemm|conv \w+) fp32 ") > 0 == trials.count(r"(gemm|conv \w+) (?!fp32 )")

    half = trials.run(precision=Precision.FP16, channels_last=True)
    assert half.failure is None
    assert trials.count(r"gemm fp16 ") > 0 == trials.count(r"gemm (?!fp16 )")
    assert trials.count(r"conv \w+ fp16 nhwc ") > 0 == trials.count(r"conv \w+ (?!fp16 nhwc )")


@pytest.mark.slow
def test_a_script_that_uses_fp32_precision_is_told_and_set(on_device: OnDevice) -> None:
    trials = on_device("a10g", "fp32_precision", "tf32")
    own = trials.baseline()
    assert own.config is not None
    assert own.config.precision is Precision.TF32
    assert own.measurement is not None
    assert own.measurement.loop.float32_matmul_precision == "high"
    assert trials.count(r"gemm tf32 ") > 0 == trials.count(r"gemm (?!tf32 )")

    exact = trials.run(precision=Precision.FP32)
    assert exact.failure is None
    assert exact.measurement is not None
    assert exact.measurement.loop.float32_matmul_precision == "highest"
    assert trials.count(r"gemm fp32 ") > 0 == trials.count(r"gemm (?!fp32 )")
