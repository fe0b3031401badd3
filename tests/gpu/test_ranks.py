"""Trials on two and four simulated devices: which of them train, and when their gradients are summed."""

from collections import Counter
from pathlib import Path

import pytest
from gpu_commands import SCRIPTS, measured
from gpu_environment import on_both_torches

from simgpu.machine import SimulatedGpu
from tunekit.records.data_parallel import DataParallelKind, DataParallelSeen
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.trial import TrialRecord

pytestmark = pytest.mark.slow

TRIAL = Path(__file__).with_name("trial_of_ranks.py")
FOUR = ",".join(["a10g:slower=16"] * 4)
SUM, LOSS = "ncclDevKernel_AllReduce_Sum", "nll_loss_forward"
GRADIENT_BYTES = 4 * ((512 + 1) * 2048 + (2048 + 1) * 2048 + (2048 + 1) * 8)
PLAIN = (str(SCRIPTS / "ddp_nccl.py"),)
FRAMEWORKS = {
    "accelerate launch": (
        *("-m", "accelerate.commands.launch", "--num_processes", "4", "--mixed_precision", "no"),
        str(SCRIPTS / "accelerate_loop.py"),
    ),
    "Trainer": (str(SCRIPTS / "hf_trainer.py"), "--output", "out"),
    "Lightning": (str(SCRIPTS / "lightning_fit.py"), "--output", "out"),
}


def trained(
    gpu: SimulatedGpu, processes: int, command: tuple[str, ...] = PLAIN, gradients: str = "sum"
) -> LoopMeasurement:
    """Return the loop of a trial on so many of four devices; each process must have told its pace."""
    words = [TRIAL, gpu.own / "trials", str(processes), gradients, *command]
    done = gpu.run(words, FOUR, timeout_s=400)
    assert done.returncode == 0, done.stderr
    record = measured(TrialRecord.model_validate_json(done.stdout))
    assert record.measurement is not None
    loop = record.measurement.loop
    assert (loop.world_size, [one.rank for one in loop.ranks]) == (processes, list(range(processes)))
    return loop


def parallel(loop: LoopMeasurement) -> DataParallelSeen:
    assert loop.data_parallel is not None
    return loop.data_parallel


def counted(gpu: SimulatedGpu, name: str) -> Counter[int]:
    """How often a kernel ran on each device."""
    return Counter(one.device for one in gpu.trace() if name in one.name)


@pytest.mark.parametrize("processes", [2, 4])
def test_as_many_devices_as_processes_sum_their_gradients_in_each_step(
    simulated_gpu: SimulatedGpu, processes: int
) -> None:
    loop = trained(simulated_gpu, processes)
    seen = parallel(loop)
    assert (seen.kind, seen.backend, seen.gradient_bytes) == (DataParallelKind.DDP, "nccl", GRADIENT_BYTES)
    assert seen.syncs_gradients
    steps, sums = counted(simulated_gpu, LOSS), counted(simulated_gpu, SUM)
    assert sorted(steps) == list(range(processes))
    assert min(steps.values()) >= loop.steady_batches
    assert all(sums[device] >= steps[device] - 1 for device in steps)


@on_both_torches
def test_ranks_that_train_apart_sum_no_gradients_in_the_window(simulated_gpu: SimulatedGpu) -> None:
    loop = trained(simulated_gpu, 2, gradients="apart")
    assert parallel(loop).syncs_gradients is False
    steps, sums = counted(simulated_gpu, LOSS), counted(simulated_gpu, SUM)
    assert sorted(steps) == [0, 1]
    assert all(sums[device] < loop.discarded_batches for device in steps)


@pytest.mark.parametrize("name", FRAMEWORKS)
def test_a_framework_trains_on_as_many_devices_as_processes(simulated_gpu: SimulatedGpu, name: str) -> None:
    seen = parallel(trained(simulated_gpu, 2, FRAMEWORKS[name]))
    assert (seen.kind, seen.backend) == (DataParallelKind.DDP, "nccl")
    assert sorted(counted(simulated_gpu, LOSS)) == [0, 1]
