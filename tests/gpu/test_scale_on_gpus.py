"""A training measured on one, two and four simulated GPUs, over NCCL."""

import pytest
from gpu_commands import script, tunekit

from simgpu.machine import SimulatedGpu
from tunekit.records.data_parallel import DataParallelKind
from tunekit.records.run import RunStatus
from tunekit.records.scaling import ScalingMode

FOUR = ",".join(["a10g:slower=16"] * 4)
SHORT = ["--window", "0.5", "--rounds", "1"]


@pytest.mark.slow
def test_one_two_and_four_gpus_are_measured_predicted_and_fitted(simulated_gpu: SimulatedGpu) -> None:
    ended = tunekit(simulated_gpu, "scale", SHORT, script("ddp_nccl.py"), FOUR)
    assert ended.process.returncode == 0, ended.process.stderr
    run = ended.scaling
    assert (run.status, run.mode, run.measured_on) == (RunStatus.FINISHED, ScalingMode.WEAK, "a10g")
    assert [(one.processes, one.batch_size) for one in run.measured] == [(1, 64), (2, 64), (4, 64)]
    assert [one.epoch_samples for one in run.measured] == [12_800, 6_400, 3_200]
    four = run.measured[2]
    assert four.predicted is not None and "PCIe" in four.predicted.link
    assert four.step is not None and four.step.exposed_s is not None
    assert run.fit is not None
    for record in run.trials:
        assert record.measurement is not None and record.telemetry is not None
        seen = record.measurement.loop.data_parallel
        assert seen is not None and (seen.kind, seen.backend) == (DataParallelKind.DDP, "nccl")
        assert sum(gpu.is_used for gpu in record.telemetry.gpus) == record.processes


@pytest.mark.slow
def test_four_gpus_share_the_batch_of_one(simulated_gpu: SimulatedGpu) -> None:
    words = [*SHORT, "--strong", "--processes", "1,4"]
    ended = tunekit(simulated_gpu, "scale", words, script("ddp_nccl.py"), FOUR)
    assert ended.process.returncode == 0, ended.process.stderr
    run = ended.scaling
    assert run.mode is ScalingMode.STRONG
    assert [(one.batch_size, one.global_batch) for one in run.measured] == [(64, 64), (16, 64)]
