"""The memory of another machine: verdicts, and parts that add up."""

import sys
from pathlib import Path

import pytest
from build_fits import A10G, T4, fit, fits_run, outside, traced_trial
from build_records import GIB, MIB, host, recommendation, run
from hypothesis import given
from hypothesis import strategies as st

from tunekit.machine.gpu.outside_torch import outside_torch
from tunekit.machine.profiles import load_profiles
from tunekit.predict.fits import Fits
from tunekit.predict.ram import BaseRam
from tunekit.recommend.machine_memory import (
    HostNeed,
    config_of,
    host_need,
    machine_memory,
    saved_need,
    traced_need,
)
from tunekit.records.agent_messages import Arithmetic
from tunekit.records.config import Precision
from tunekit.records.details import Detail
from tunekit.records.machine_memory import MachineMemory, OtherMachine
from tunekit.records.trial import TrialRole
from tunekit.trial.executor import ProcessExecutor, TrialSpec
from tunekit.trial.target import resolve_target
from tunekit.trial.watch import Limits

MB, GB = 10**6, 10**9
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fits_script.py"


def machine(ram_bytes: int = 62 * GIB, cpus: int = 16, shm_bytes: int | None = None) -> OtherMachine:
    return OtherMachine(ram_limit_bytes=ram_bytes, cpus=cpus, shm_bytes=shm_bytes, profile_id="a10g")


def sizes(found: MachineMemory, memory: str) -> dict[str, int]:
    return {one.name: one.size_bytes or 0 for one in found.parts if one.memory == memory}


@pytest.mark.parametrize(
    ("workers", "prefetch", "buffer_gb", "verdict"),
    [(32, 8, 59, "OOM"), (8, 8, 15, "Risky"), (12, 3, 8, "Safe"), (16, 2, 7, "Safe")],
)
def test_230_mb_a_batch_on_62_gb_and_16_cpus(workers: int, prefetch: int, buffer_gb: int, verdict: str):
    found = machine_memory(machine(62 * GB), HostNeed("a table", 230 * MB), asked=(workers, prefetch))
    assert found.loader.buffer_bytes == workers * prefetch * 230 * MB
    assert (round(found.loader.buffer_bytes / GB), found.loader.verdict) == (buffer_gb, verdict)


def test_the_processes_count_in_the_verdict_and_so_does_dev_shm():
    need = HostNeed("a test", GIB, base=BaseRam(40 * GIB, GIB))
    loader = machine_memory(machine(), need, asked=(8, 1)).loader
    assert (loader.ram_bytes, loader.verdict) == ((40 + 8 + 8) * GIB, "OOM")
    assert machine_memory(machine(), need._replace(base=None), asked=(8, 1)).loader.verdict == "Safe"
    small = machine_memory(machine(shm_bytes=8 * GIB), need._replace(base=None), asked=(8, 1)).loader
    assert (small.verdict, small.limit) == ("OOM", "/dev/shm")


@pytest.mark.parametrize(
    ("loader", "asked", "batch_mib", "chosen"),
    [
        (None, (None, None), 230, (16, 2, "Safe")),
        ((3, 4), (None, None), 230, (3, 4, "Safe")),
        ((8, 8), (None, None), 230, (8, 8, "Risky")),
        ((32, 8), (None, None), 230, (16, 2, "Safe")),
        (None, (None, None), 14_000, (2, 1, "Risky")),
        (None, (None, None), 60_000, (1, 1, "OOM")),
        ((0, None), (None, None), 230, (0, None, "Safe")),
        ((3, 4), (5, None), 230, (5, 4, "Safe")),
        ((3, 4), (None, 7), 230, (3, 7, "Safe")),
        ((0, None), (None, 3), 230, (16, 3, "Safe")),
    ],
)
def test_the_loader_is_the_one_asked_for_else_the_runs_else_the_best(
    loader: tuple[int, int | None] | None,
    asked: tuple[int | None, int | None],
    batch_mib: int,
    chosen: tuple[int, int | None, str],
):
    one = machine_memory(machine(), HostNeed("a test", batch_mib * MIB, loader=loader), asked=asked).loader
    assert (one.num_workers, one.prefetch_factor, one.verdict) == chosen


@given(
    ram=st.integers(1, 10**13),
    cpus=st.integers(1, 256),
    batch=st.floats(1, 1e11),
    base=st.none() | st.builds(BaseRam, st.integers(0, 10**11), st.integers(0, 10**10)),
    taken=st.none() | st.integers(0, 10**12),
)
def test_the_parts_of_the_ram_add_up_to_it(
    ram: int, cpus: int, batch: float, base: BaseRam | None, taken: int | None
):
    found = machine_memory(machine(ram, cpus), HostNeed("a test", batch, base=base, others_bytes=taken))
    assert sum(sizes(found, "RAM").values()) == ram
    assert all((one.size_bytes is None) == (one.basis == "unknown") for one in found.parts)


def test_a_run_gives_batch_processes_and_system():
    machine_of_run = host(ram_limit_bytes=32 * GIB, ram_total_bytes=32 * GIB, ram_available_bytes=30 * GIB)
    searched = run(host=machine_of_run, recommendations=(recommendation(),))
    need = host_need(searched, config_of(searched), 256, "a run")
    assert need is not None
    assert need.batch_bytes == 256 * 1000
    parts = sizes(machine_memory(machine(), need), "RAM")
    assert (parts["system, other programs"], parts["training process"]) == (2 * GIB, GIB)
    empty = run(trials=())
    assert host_need(empty, config_of(empty), None, "a run") is None


@pytest.mark.parametrize(("batch", "verdict"), [(16, "yes"), (50_000, "no")])
def test_the_parts_of_the_gpu_add_up_to_its_capacity(tmp_path: Path, batch: int, verdict: str):
    fits = Fits((traced_trial(tmp_path),), tmp_path, cpus=8)
    gpu = traced_need(fits, A10G, Precision.BF16, batch, outside())
    found = machine_memory(machine(), HostNeed("a test", MIB), gpu)
    parts = sizes(found, "GPU")
    assert found.gpu is not None
    assert (found.gpu.fits, sum(parts.values())) == (verdict, A10G.capacity_bytes)
    assert (parts["free"] < 0) == (verdict == "no")
    assert parts["model"] == parts["optimizer"] == 40 * MIB
    assert parts["CUDA context (at most)"] == outside().context.high
    on_t4 = traced_need(fits, T4, Precision.BF16, batch, outside())
    assert on_t4 is not None
    assert on_t4.fit.precision is Precision.FP16


def test_without_its_trials_files_a_run_has_its_largest_batch():
    saved = fits_run((fit("a10g", 22.0, (90, 100, 110)),))
    gpu = saved_need(saved, A10G, Precision.FP32, 100, outside())
    found = machine_memory(machine(), HostNeed("a test", MIB), gpu).gpu
    assert found is not None
    assert (found.batch_size, found.peak_batch_size, found.fits) == (100, 90, "tight")
    assert saved_need(saved, T4, Precision.FP32, 64, outside()) is None
    assert saved_need(saved, A10G, Precision.BF16, 64, outside()) is None


@pytest.mark.real
@pytest.mark.slow
def test_resnet_50_in_16_bit_at_batch_256_takes_about_13_gb(tmp_path: Path):
    """224 x 224 images, SGD with momentum, the steps traced on a CPU; reserved by torch, without margin."""
    words = (sys.executable, str(SCRIPT), "resnet50", "--batch", "256")
    limits = Limits(trial_s=280.0, no_progress_s=200.0, ram_bytes=8 * GIB)
    executor = ProcessExecutor(resolve_target(words, SCRIPT.parent), tmp_path, limits, 0.2)
    spec = TrialSpec(0, TrialRole.BASELINE, None, details=(Detail.TRACE,), skips=Arithmetic.ALL)
    record = executor.run(spec, None, lambda progress: None)
    assert record.dry is not None, record.failure
    a10g = load_profiles()["a10g"]
    gpu = traced_need(Fits([record], tmp_path, 2), a10g, Precision.FP16, 256, outside_torch(a10g))
    found = machine_memory(machine(), HostNeed("a test", 230 * MB), gpu)
    parts = sizes(found, "GPU")
    assert found.gpu is not None
    assert found.gpu.reserved_bytes == pytest.approx(13 * GB, rel=0.05)
    assert (found.gpu.fits, sum(parts.values())) == ("yes", a10g.capacity_bytes)
    parameters = 25_557_032
    assert parts["model"] == pytest.approx(4 * parameters, rel=0.01)
    assert parts["optimizer"] == pytest.approx(4 * parameters, rel=0.01)
    assert parts["activations"] == pytest.approx(11.4 * GB, rel=0.05)
