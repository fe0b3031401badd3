"""The memory of a machine that is not here: one screen of verdicts and sums, every row's source in full."""

import pytest
from build_fits import fit, outside
from build_records import GIB, MIB
from read_report import drawn

from tunekit.plan.machine_budget import DeviceMemory, Training, accumulation, machine_budget
from tunekit.predict.ram import BaseRam
from tunekit.records.machine_budget import MachineBudget, PlannedMachine
from tunekit.records.prediction import CheckpointingPredicted, LargestBatch, PredictionPath
from tunekit.report.machine_budget import budget_answer, budget_report

FULL_AT_80 = """
62.0 GiB RAM, 16 CPUs, 4x a10g; 3 workers x prefetch 6 as in the run: Risky;
batch 90 in fp32 fits.
Global batch 720 = batch 90 x accumulation 2 x 4 GPUs (a test).
230.0 MiB a batch of one GPU (reports/train).

The host's RAM buffer by workers and prefetch (predicted)
workers      prefetch 1      prefetch 2      prefetch 4       prefetch 6
      1  920.0 MiB Safe    1.8 GiB Safe    3.6 GiB Safe     5.4 GiB Safe
      2    1.8 GiB Safe    3.6 GiB Safe    7.2 GiB Safe    10.8 GiB Safe
      3    2.7 GiB Safe    5.4 GiB Safe   10.8 GiB Safe  *16.2 GiB Risky
      4    3.6 GiB Safe    7.2 GiB Safe  14.4 GiB Risky   21.6 GiB Risky
      8    7.2 GiB Safe  14.4 GiB Risky  28.8 GiB Risky     43.1 GiB OOM
3 x 6: Risky, buffer 16.2 GiB (predicted) exceeds 20% of the RAM limit (12.4
  GiB)
8 x 6: OOM, base 12.0 GiB + buffer 43.1 GiB (predicted) exceed 85% of the RAM
  limit (52.7 GiB)
* is the run's setting
workers are those of each of the 4 processes, RAM is all that they take together

RAM of 62.0 GiB
part                       memory  basis
system, other programs    2.0 GiB  measured
framework and CUDA        4.0 GiB  measured
loader workers            3.0 GiB  predicted
data set                      n/a  not known
loader's buffer          16.2 GiB  predicted
reserve                   7.3 GiB  assumed
left for the page cache  29.5 GiB  the rest
system, other programs: taken on the run's machine before its trials
framework and CUDA: the training's processes on cpu, each of 4 processes; CUDA's
  libraries come on top
loader workers: 12 x what one took of its own on cpu
data set: what the script loads into memory is in its processes; files are
  cached in what is free
loader's buffer: 3 workers x prefetch 6 x one batch x 4 processes
reserve: 15% of the RAM, for spikes, less what is taken already; more than 85%
  counts as OOM
left for the page cache: what the rows leave whose figures are known

a10g with 22.0 GiB, batch 90 in fp32 (predicted)
part                       memory  basis
model                     2.2 GiB  predicted
optimizer                 2.2 GiB  predicted
activations              11.0 GiB  predicted
allocator's cache         1.1 GiB  predicted
rounding of blocks            1 B  predicted
cuDNN (at most)         600.0 MiB  assumed
CUDA context (at most)    1.5 GiB  assumed
free                      3.4 GiB  the rest
model; optimizer; activations: steps of the script's own loop without their
  arithmetic, simulating the CUDA allocator
allocator's cache; rounding of blocks: torch's allocator, simulated
cuDNN (at most); CUDA context (at most): assumed: a test
free: what the other rows leave

Not known
  /dev/shm, which the verdicts leave out: a container has 64 MiB of it unless
    told otherwise
  pinned memory, which takes up to twice a batch's data: the verdicts leave that
    out
  what NCCL takes of the memory of each of several GPUs
"""


def budget() -> MachineBudget:
    device = DeviceMemory(fit("a10g", 22.0, (90, 100, 110)), outside(), PredictionPath.LOOP_DRY)
    training = Training(
        source="reports/train",
        batch_size=90,
        batch_bytes=230 * MIB,
        base=BaseRam(GIB, GIB // 4),
        measured_on="cpu",
        taken_bytes=2 * GIB,
        loader=(3, 6),
        device=device,
    )
    machine = PlannedMachine(ram_limit_bytes=62 * GIB, cpus=16, gpus=4, profile_id="a10g")
    return machine_budget(machine, training, accumulation(720, 4, 90, "a test"))


def test_all_of_it_at_80_columns():
    assert drawn(budget_report(budget(), 80).blocks, 80) == FULL_AT_80


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("cpus", [1, 16, 96, 512])
def test_the_answer_is_one_screen(cpus: int, width: int):
    machine = budget().machine.changed(cpus=cpus, gpus=1, ram_limit_bytes=1024 * GIB)
    device = DeviceMemory(fit("a10g", 22.0, (1, 2, 3)), outside(), PredictionPath.LOOP_DRY)
    training = Training("reports/train", 1, GIB, base=BaseRam(99 * GIB, GIB), loader=(1, 3), device=device)
    for one in (budget(), machine_budget(machine, training, accumulation(720, 1, 1, "1 fits a10g in fp32"))):
        lines = drawn(budget_answer(one, width), width).splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= width


def test_a_batch_whose_device_memory_is_not_known_is_not_passed_over():
    device = DeviceMemory(fit("a10g", 22.0, (90, 100, 110)), outside(), PredictionPath.LOOP_DRY)
    machine = PlannedMachine(ram_limit_bytes=62 * GIB, cpus=16, profile_id="a10g")
    for batch_size, said in ((64, "fits."), (256, "may not fit (the largest that fits: 90).")):
        other = machine_budget(machine, Training("a test", batch_size=batch_size, device=device))
        shown = " ".join(drawn(budget_answer(other), 80).split())
        assert f"batch {batch_size} in fp32 {said}" in shown
        assert "batch 90 in fp32, of which the run kept the parts (predicted)" in shown


@pytest.mark.parametrize(
    ("largest", "at_90", "said"),
    [
        (
            180,
            True,
            "With gradient checkpointing: 8.2 GiB reserved by torch in place of 16.5 GiB, up to batch 180 in "
            "place of 90, for up to a third more time a step (one more forward, Chen et al. 2016, arXiv "
            "1604.06174; 25% more arithmetic by the trace).",
        ),
        (180, False, "With gradient checkpointing: up to batch 180 in place of 90, for up to a third"),
        (90, True, ""),
    ],
)
def test_gradient_checkpointing_is_told_where_more_fits_with_it(largest: int, at_90: bool, said: str):
    more = LargestBatch(low=largest, value=largest, high=largest)
    own = fit("a10g", 22.0, (90, 100, 110), checkpointed=more)
    other = fit("a10g", 11.0, (90, 100, 110)) if at_90 else None
    known = CheckpointingPredicted(blocks=12, extra_flops=0.25)
    device = DeviceMemory(own, outside(), PredictionPath.LOOP_DRY, known, other)
    machine = PlannedMachine(ram_limit_bytes=62 * GIB, cpus=16, profile_id="a10g")
    told = machine_budget(machine, Training("a test", batch_size=90, device=device))
    for blocks in (budget_answer(told), budget_report(told).blocks):
        shown = " ".join(drawn(blocks, 80).split())
        assert said in shown
        assert ("checkpointing" in shown) is bool(said)


def test_parts_that_are_too_small_are_summed_up_on_one_screen_alone():
    training = Training("a test", batch_bytes=MIB, base=BaseRam(100 * MIB, MIB), loader=(1, 2))
    small = machine_budget(PlannedMachine(ram_limit_bytes=62 * GIB, cpus=2), training)
    shown = " ".join(drawn(budget_answer(small), 80).split())
    assert "others 103.0 MiB, left for the page cache" in shown
    full = drawn(budget_report(small).blocks, 80)
    assert "framework and CUDA" in full
    assert "others 1" not in full
