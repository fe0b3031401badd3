"""The memory of a machine that is not here: verdicts, rows that add up, and how a global batch is made."""

import sys
from pathlib import Path

import pytest
from build_fits import A10G, T4, fit, fits_run, outside, traced_trial
from build_records import GIB, MIB, baseline_record, config, cpu, host, recommendation, run
from hypothesis import given
from hypothesis import strategies as st

from tunekit.errors import UsageError
from tunekit.machine.gpu.outside_torch import outside_torch
from tunekit.machine.profiles import load_profiles
from tunekit.plan.machine_budget import (
    Training,
    accumulation,
    device_memory,
    machine_budget,
    planned_config,
    saved_device_memory,
    training_of_run,
)
from tunekit.predict.fits import Fits
from tunekit.predict.ram import BaseRam
from tunekit.records.agent_messages import Arithmetic
from tunekit.records.config import Precision
from tunekit.records.details import Detail
from tunekit.records.machine_budget import (
    BudgetRow,
    BufferCell,
    CheckpointedVram,
    FigureBasis,
    MachineBudget,
    PlannedMachine,
)
from tunekit.records.prediction import LargestBatch
from tunekit.records.recommendation import Tier
from tunekit.records.trial import TrialRole
from tunekit.trial.executor import ProcessExecutor, TrialSpec
from tunekit.trial.target import resolve_target
from tunekit.trial.watch import Limits

MB, GB = 10**6, 10**9
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fits_script.py"
UNKNOWN = FigureBasis.UNKNOWN


def machine(ram_bytes: int = 62 * GIB, cpus: int = 16, gpus: int = 1) -> PlannedMachine:
    return PlannedMachine(ram_limit_bytes=ram_bytes, cpus=cpus, gpus=gpus, profile_id="a10g")


def cell(budget: MachineBudget, workers: int, prefetch: int | None) -> BufferCell:
    (found,) = [one for one in budget.cells if (one.num_workers, one.prefetch_factor) == (workers, prefetch)]
    return found


def row(rows: tuple[BudgetRow, ...], name: str) -> BudgetRow:
    (found,) = [one for one in rows if one.name.startswith(name)]
    return found


def total(rows: tuple[BudgetRow, ...]) -> int:
    return sum(one.size_bytes or 0 for one in rows)


@pytest.fixture(scope="module")
def fits(tmp_path_factory: pytest.TempPathFactory) -> Fits:
    folder = tmp_path_factory.mktemp("traced")
    return Fits((traced_trial(folder),), folder, cpus=8)


# --- the loader's buffer -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("workers", "prefetch", "buffer_gb", "verdict"),
    [(32, 8, 59, "OOM"), (8, 8, 15, "Risky"), (12, 3, 8, "Safe"), (16, 2, 7, "Safe")],
)
def test_230_mb_a_batch_on_62_gb_and_16_cpus(workers: int, prefetch: int, buffer_gb: int, verdict: str):
    budget = machine_budget(machine(62 * GB), Training("a table", batch_bytes=230 * MB, loader=(12, 3)))
    one = cell(budget, workers, prefetch)
    assert one.buffer_bytes == workers * prefetch * 230 * MB
    assert (round(one.buffer_bytes / GB), one.verdict) == (buffer_gb, verdict)


def test_what_the_processes_take_counts_in_the_verdicts():
    training = Training("a test", batch_bytes=GIB, base=BaseRam(40 * GIB, GIB))
    with_base, without = (
        machine_budget(machine(), training),
        machine_budget(machine(), training._replace(base=None)),
    )
    assert cell(with_base, 8, 1).ram_bytes == (40 + 8 + 8) * GIB
    assert (cell(with_base, 8, 1).verdict, cell(without, 8, 1).verdict) == ("OOM", "Safe")


def test_each_gpus_process_has_its_share_of_the_cpus_and_all_are_held_against_the_hosts_ram():
    training = Training("a test", batch_bytes=GIB, base=BaseRam(GIB, 0), loader=(2, 2))
    budget = machine_budget(machine(gpus=4), training)
    assert max(one.num_workers for one in budget.cells) == 8
    assert (cell(budget, 2, 2).verdict, cell(budget, 1, 2).verdict) == ("Risky", "Safe")
    assert cell(budget, 2, 2).buffer_bytes == row(budget.ram, "loader's buffer").size_bytes == 4 * 4 * GIB
    assert cell(budget, 2, 2).ram_bytes == 4 * (1 + 4) * GIB
    assert row(budget.ram, "framework").size_bytes == 4 * GIB


@pytest.mark.parametrize(
    ("loader", "batch_mib", "chosen"),
    [
        (None, 230, (16, 2, "Safe")),
        ((3, 4), 230, (3, 4, "Safe")),
        ((8, 8), 230, (8, 8, "Risky")),
        ((32, 8), 230, (16, 2, "Safe")),
        (None, 14_000, (2, 1, "Risky")),
        (None, 60_000, (1, 1, "OOM")),
        ((0, None), 230, (0, None, "Safe")),
    ],
)
def test_the_budget_has_the_runs_loader_where_it_may_start_else_the_most_that_is_best(
    loader: tuple[int, int | None] | None, batch_mib: int, chosen: tuple[int, int | None, str]
):
    training = Training("a test", batch_bytes=batch_mib * MIB, loader=loader)
    one = machine_budget(machine(), training).chosen
    assert one is not None
    assert (one.num_workers, one.prefetch_factor, one.verdict) == chosen


# --- rows --------------------------------------------------------------------------------------


@given(
    ram=st.integers(1, 10**13),
    cpus=st.integers(1, 256),
    gpus=st.integers(1, 16),
    batch=st.none() | st.floats(1, 1e11),
    main=st.integers(0, 10**11),
    worker=st.integers(0, 10**10),
    taken=st.none() | st.integers(0, 10**12),
)
def test_the_rows_of_ram_come_to_all_of_it(
    ram: int, cpus: int, gpus: int, batch: float | None, main: int, worker: int, taken: int | None
):
    training = Training("a test", batch_bytes=batch, base=BaseRam(main, worker), taken_bytes=taken)
    rows = machine_budget(machine(ram, cpus, gpus), training).ram
    assert total(rows) == ram
    assert all((one.size_bytes is None) == (one.basis is UNKNOWN) for one in rows)
    assert rows[-1].basis is FigureBasis.REST


def test_what_nobody_measured_is_not_guessed():
    budget = machine_budget(machine(), Training("--batch-mib 230", batch_bytes=230 * MIB))
    assert [one.name for one in budget.ram if one.basis is UNKNOWN] == [
        "system, other programs",
        "framework and CUDA",
        "data set",
    ]
    assert row(budget.ram, "loader's buffer").size_bytes == 32 * 230 * MIB
    assert row(budget.ram, "reserve").basis is FigureBasis.ASSUMED
    assert budget.vram is None
    assert [one.split(":")[0].split(",")[0] for one in budget.unknown] == [
        "the processes' own memory",
        "/dev/shm",
        "pinned memory",
        "device memory",
    ]


def test_a_run_gives_batch_processes_and_system():
    machine_of_run = host(ram_limit_bytes=32 * GIB, ram_total_bytes=32 * GIB, ram_available_bytes=30 * GIB)
    searched = run(host=machine_of_run, recommendations=(recommendation(),))
    own = planned_config(searched, None, "a run")
    assert own == config()
    training = training_of_run(searched, own, own.changed(batch_size=256), "a run")
    assert training.batch_bytes == 256 * 1000
    assert training.base is not None and training.base.main_bytes == GIB
    rows = machine_budget(machine(), training).ram
    assert (row(rows, "system").size_bytes, row(rows, "system").basis) == (2 * GIB, FigureBasis.MEASURED)
    assert (row(rows, "framework").size_bytes, row(rows, "framework").basis) == (GIB, FigureBasis.MEASURED)
    assert row(rows, "reserve").size_bytes == 62 * GIB - int(0.85 * 62 * GIB) - 2 * GIB
    assert total(rows) == 62 * GIB


def test_a_run_on_a_cpu_says_that_cuda_takes_host_memory_too():
    searched = run(measured_on="cpu", trials=(baseline_record(device=cpu()),))
    training = training_of_run(searched, config(), config(), "a run")
    rows = machine_budget(machine(), training).ram
    assert row(rows, "framework").source.endswith("CUDA's libraries come on top")


def test_a_tier_that_the_run_has_not_is_refused():
    with pytest.raises(UsageError, match=r"no aggressive tier \(it has: balanced\)"):
        planned_config(run(recommendations=(recommendation(),)), Tier.AGGRESSIVE, "a run")


# --- device memory -----------------------------------------------------------------------------


@pytest.mark.parametrize(("batch", "verdict"), [(16, "yes"), (50_000, "no")])
def test_the_rows_of_device_memory_come_to_its_capacity(fits: Fits, batch: int, verdict: str):
    device = device_memory(fits, A10G, Precision.BF16, batch, outside())
    vram = machine_budget(machine(), Training("a test", batch_size=batch, device=device)).vram
    assert vram is not None
    assert total(vram.rows) == A10G.capacity_bytes
    assert vram.fits == verdict
    rest = vram.rows[-1].size_bytes
    assert rest is not None and (rest < 0) == (verdict == "no")
    assert row(vram.rows, "model").size_bytes == row(vram.rows, "optimizer").size_bytes == 40 * MIB
    assert row(vram.rows, "CUDA context").size_bytes == outside().context.high
    assert row(vram.rows, "CUDA context").basis is FigureBasis.ASSUMED


def test_the_same_batch_is_told_with_gradient_checkpointing(tmp_path: Path):
    traced = Fits((traced_trial(tmp_path, checkpointed=(None, "bf16")),), tmp_path, cpus=8)
    device = device_memory(traced, A10G, Precision.BF16, 3000, outside())
    vram = machine_budget(machine(), Training("a test", batch_size=3000, device=device)).vram
    assert vram is not None and vram.checkpointed is not None
    assert vram.checkpointed.largest_batch == pytest.approx(2 * vram.largest_batch, rel=0.15)
    assert vram.checkpointed.reserved_bytes == pytest.approx(vram.reserved_bytes / 2, rel=0.1)
    assert vram.checkpointed.extra_flops == pytest.approx(1 / 3)


def test_of_a_saved_run_only_the_largest_batch_is_known_with_it(fits: Fits):
    largest = LargestBatch(low=180, value=200, high=220)
    saved = fits_run((fit("a10g", 22.0, (90, 100, 110), checkpointed=largest),))
    device = saved_device_memory(saved, A10G, Precision.FP32, outside())
    vram = machine_budget(machine(), Training("a test", batch_size=90, device=device)).vram
    assert vram is not None
    assert vram.checkpointed == CheckpointedVram(largest_batch=180, reserved_bytes=None, extra_flops=None)
    known = device_memory(fits, A10G, Precision.FP32, 16, outside())
    vram = machine_budget(machine(), Training("a test", batch_size=16, device=known)).vram
    assert vram is not None
    assert vram.checkpointed is None


def test_a_gpu_without_bf16_has_the_other_16_bit(fits: Fits):
    device = device_memory(fits, T4, Precision.BF16, 16, outside())
    assert device is not None
    assert device.fit.precision is Precision.FP16


def test_without_its_trials_files_a_run_has_what_it_saved_and_says_so():
    saved = fits_run((fit("a10g", 22.0, (90, 100, 110)),))
    device = saved_device_memory(saved, A10G, Precision.FP32, outside((0, 0)))
    assert device is not None
    assert device.outside == saved.gpus[0].outside
    budget = machine_budget(machine(), Training("a test", batch_size=64, device=device))
    assert budget.vram is not None
    assert (budget.vram.batch_size, total(budget.vram.rows)) == (90, 22 * GIB)
    assert any("device memory at batch 64: the run holds that of batch 90" in one for one in budget.unknown)
    assert saved_device_memory(saved, T4, Precision.FP32, outside()) is None
    assert saved_device_memory(saved, A10G, Precision.BF16, outside()) is None


@pytest.mark.real
def test_resnet_50_in_16_bit_at_batch_256_takes_about_13_gb(tmp_path: Path):
    """224 x 224 images, SGD with momentum, the steps traced on a CPU; reserved by torch, without margin."""
    words = (sys.executable, str(SCRIPT), "resnet50", "--batch", "256")
    limits = Limits(trial_s=280.0, no_progress_s=200.0, ram_bytes=8 * GIB)
    executor = ProcessExecutor(resolve_target(words, SCRIPT.parent), tmp_path, limits, 0.2)
    spec = TrialSpec(0, TrialRole.BASELINE, None, details=(Detail.TRACE,), skips=Arithmetic.ALL)
    record = executor.run(spec, None, lambda progress: None)
    assert record.dry is not None, record.failure
    a10g = load_profiles()["a10g"]
    device = device_memory(Fits([record], tmp_path, 2), a10g, Precision.BF16, 256, outside_torch(a10g))
    vram = machine_budget(machine(), Training("a test", batch_size=256, device=device)).vram
    assert vram is not None
    assert vram.reserved_bytes == pytest.approx(13 * GB, rel=0.05)
    assert (vram.fits, total(vram.rows)) == ("yes", a10g.capacity_bytes)
    parameters = 25_557_032
    assert row(vram.rows, "model").size_bytes == pytest.approx(4 * parameters, rel=0.01)
    assert row(vram.rows, "optimizer").size_bytes == pytest.approx(4 * parameters, rel=0.01)
    assert row(vram.rows, "activations").size_bytes == pytest.approx(11.4 * GB, rel=0.05)


# --- the global batch --------------------------------------------------------------------------


@given(per_gpu=st.integers(1, 5000), gpus=st.integers(1, 64), most=st.integers(1, 5000))
def test_batch_times_accumulation_times_gpus_is_the_global_batch(per_gpu: int, gpus: int, most: int):
    made = accumulation(per_gpu * gpus, gpus, most, "a test")
    assert made.batch_size * made.steps * made.gpus == per_gpu * gpus
    assert made.batch_size <= most
    fewer = [steps for steps in range(1, made.steps) if per_gpu % steps == 0]
    assert all(per_gpu // steps > most for steps in fewer), "as few passes as there can be"


def test_a_global_batch_that_can_not_be_made_is_refused_with_what_can():
    with pytest.raises(UsageError, match="1022 can't be split over 4 GPUs; give 1020 or 1024"):
        accumulation(1022, 4, 64, "a test")
    with pytest.raises(UsageError, match="3 can't be split over 4 GPUs; give 4"):
        accumulation(3, 4, 64, "a test")
    with pytest.raises(UsageError, match="not one sample fits"):
        accumulation(1024, 4, 0, "a test")
