"""Predicted device memory beside torch's own allocator, on a simulated GPU.

The part `prediction` of benchmarks/gpu_check.py has more models.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from simgpu.machine import SimulatedGpu
from tunekit.machine.gpu.outside_torch import outside_torch
from tunekit.machine.profiles import load_profiles
from tunekit.predict.fits import Fits
from tunekit.records.details import Detail
from tunekit.records.trial import TrialRole
from tunekit.trial.executor import ProcessExecutor, TrialSpec
from tunekit.trial.target import resolve_target
from tunekit.trial.watch import Limits
from tunekit.units import GIB

pytestmark = pytest.mark.real

SCRIPT = Path(__file__).parents[3] / "benchmarks" / "peaks_script.py"
DEVICE = "a10g:memory_bytes=100GiB:bytes_per_s=1e14:fp32_flops_per_s=1e16:bf16_flops_per_s=1e16"
TRAINING = ("resnet50", "--precision", "bf16", "--optimizer", "sgd", "--small")
BATCH = 96
CHECKPOINTED = (
    ("gpt2", "--precision", "fp32", "--optimizer", "sgd", "--small"),
    ("vit_s", "--precision", "bf16", "--optimizer", "adamw"),
)
WITHIN = 0.04
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}


def predicted(gpu: SimulatedGpu, folder: Path, training: Sequence[str] = TRAINING) -> Fits:
    """Trace the training as it is, in its own loop, at a small batch size."""
    target = resolve_target((str(gpu.python), str(SCRIPT), *training, "--batch", "4"), SCRIPT.parent)
    limits = Limits(trial_s=120.0, no_progress_s=100.0, ram_bytes=8 * GIB)
    spec = TrialSpec(0, TrialRole.BASELINE, None, details=(Detail.TRACE,))
    record = ProcessExecutor(target, folder, limits, 0.1).run(spec, None, lambda progress: None)
    assert record.measurement is not None, record.failure
    return Fits([record], folder, cpus=2)


def truth_of(gpu: SimulatedGpu, training: Sequence[str], more: Mapping[str, str]) -> dict[str, int]:
    """Train at the large batch size; return torch's own peaks."""
    done = gpu.run([SCRIPT, *training, "--batch", str(BATCH), "--steps", "8"], DEVICE, more=more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "more",
    [
        pytest.param({}, id="segments"),
        pytest.param(EXPANDABLE, id="expandable segments", marks=pytest.mark.slow),
    ],
)
def test_a_large_batch_takes_what_small_ones_said(
    simulated_gpu: SimulatedGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, str]
) -> None:
    truth = truth_of(simulated_gpu, TRAINING, more)
    for name, value in {**simulated_gpu.environment(DEVICE), **more}.items():
        monkeypatch.setenv(name, value)
    fits = predicted(simulated_gpu, tmp_path / "trials")
    peak = fits.unlimited_peak(fits.precisions[0], BATCH, outside_torch(load_profiles()["a10g"]))
    assert peak is not None
    assert peak.allocated_bytes == pytest.approx(truth["allocated_bytes"], rel=WITHIN)
    assert peak.reserved_bytes == pytest.approx(truth["reserved_bytes"], rel=WITHIN)


@pytest.mark.slow
@pytest.mark.parametrize("training", CHECKPOINTED, ids=lambda words: f"{words[0]} {words[2]}")
def test_gradient_checkpointing_takes_what_steps_traced_with_it_said(
    simulated_gpu: SimulatedGpu, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, training: Sequence[str]
) -> None:
    truths = [truth_of(simulated_gpu, [*training, *flags], {}) for flags in ([], ["--checkpoint"])]
    for name, value in simulated_gpu.environment(DEVICE).items():
        monkeypatch.setenv(name, value)
    fits = predicted(simulated_gpu, tmp_path / "trials", training)
    beside = outside_torch(load_profiles()["a10g"])
    for truth, with_it in zip(truths, (False, True), strict=True):
        peak = fits.unlimited_peak(fits.precisions[0], BATCH, beside, is_checkpointed=with_it)
        assert peak is not None
        assert peak.allocated_bytes == pytest.approx(truth["allocated_bytes"], rel=WITHIN)
        assert peak.reserved_bytes == pytest.approx(truth["reserved_bytes"], rel=1.25 * WITHIN)
    assert truths[1]["allocated_bytes"] < truths[0]["allocated_bytes"]
