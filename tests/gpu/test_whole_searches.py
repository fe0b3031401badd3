"""Whole searches on a simulated device: every config that was tried is the one that the device worked in."""

import re
from collections import Counter
from collections.abc import Hashable, Iterable

import pytest
from gpu_commands import has_torchs_peaks, measured, of_trials, script, tunekit

from simgpu.machine import SimulatedGpu
from simgpu.trace import Work
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord

FEW = ["--trials", "2", "--confirm", "1", "--window", "1", "--budget", "10m"]
MIN_TRIALS = 4
TYPES = {"fp32": {"fp32", "tf32"}, "tf32": {"fp32", "tf32"}, "bf16": {"bf16"}, "fp16": {"fp16"}}
PRODUCTS = ("gemm ", "conv fprop ", "conv dgrad ", "conv wgrad ")


def _is_of_its_config(trial: TrialRecord, work: list[Work]) -> bool:
    """Whether most of what the device did is a trial's config; the rest is the closer look afterwards."""
    config = measured(trial).config
    assert config is not None
    products = [one.name for one in work if one.name.startswith(PRODUCTS)]
    kinds = (name.split()[2 if name.startswith("conv") else 1] for name in products)
    if _most(kinds) not in TYPES[config.precision]:
        return False
    pictures = [name for name in products if name.startswith("conv fprop")]
    return not pictures or (
        _most(re.findall(r" n(\d+) ", "\n".join(pictures))) == str(config.batch_size)
        and _most(" nhwc " in name for name in pictures) is config.channels_last
    )


def _most(seen: Iterable[Hashable]) -> Hashable:
    return Counter(seen).most_common(1)[0][0]


def _of_another_config(run: Run, work: list[Work]) -> list[int]:
    """The numbers of the trials for which the device did something else."""
    by_trial = zip(run.trials, of_trials(work), strict=True)
    return [trial.number for trial, own in by_trial if not _is_of_its_config(trial, own)]


def _devices(run: Run) -> set[str | None]:
    """The names of the machine's devices, and of those that trials were measured on."""
    loops = [trial.measurement.loop for trial in run.trials if trial.measurement]
    return {one.name for one in run.host.accelerators} | {loop.device.name for loop in loops}


@pytest.mark.slow
def test_a_plain_script_is_searched_and_its_config_then_runs_as_it_says(simulated_gpu: SimulatedGpu) -> None:
    ended = tunekit(simulated_gpu, "search", FEW, script("plain.py", "--samples", "1280"))
    assert ended.process.returncode == 0, ended.process.stderr
    assert (ended.run.measured_on, _devices(ended.run)) == ("a10g", {"NVIDIA A10G"})
    assert len(ended.run.trials) >= MIN_TRIALS
    assert _of_another_config(ended.run, simulated_gpu.trace()) == []
    assert all(has_torchs_peaks(ended, trial) for trial in ended.run.trials)
    own = ended.run.baseline_figures
    assert own and own.flops_per_s and own.mfu and own.joules_per_sample and own.mfu < 1
    before = len(of_trials(simulated_gpu.trace()))
    command = script("plain.py", "--samples", "1280", "--epochs", "1")
    options = [str(ended.folder / "balanced.yaml"), "--keep-lr"]
    ran = tunekit(simulated_gpu, "run", options, command)
    assert ran.process.returncode == 0, ran.process.stderr
    best = next(one for one in ended.run.recommendations if one.tier == "balanced")
    trained = of_trials(simulated_gpu.trace())[before:]
    assert len(trained) == 1
    like = next(trial for trial in ended.run.trials if trial.config == best.config)
    assert _is_of_its_config(like, trained[0])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hf_trainer.py", "lightning_fit.py"])
def test_a_frameworks_loop_is_searched(simulated_gpu: SimulatedGpu, name: str) -> None:
    command = script(name, "--output", str(simulated_gpu.own / "output"))
    ended = tunekit(simulated_gpu, "search", FEW, command)
    assert ended.process.returncode == 0, ended.process.stderr
    assert (ended.run.measured_on, _devices(ended.run)) == ("a10g", {"NVIDIA A10G"})
    assert len(ended.run.trials) >= MIN_TRIALS
    assert _of_another_config(ended.run, simulated_gpu.trace()) == []
