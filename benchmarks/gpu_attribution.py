"""Whether what is told of a device's time and memory holds against torch.profiler and the driver.

Part of `python benchmarks/gpu_check.py`. Each loop is real: its data stall is known (gpu_loop.py). On a CPU
the same path runs, and what only a GPU has is "n/a".
"""

import json
import math
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import mean

from agent_overhead import interleaved, ratio_text

from tunekit.machine.gpu.nvml import Nvml
from tunekit.machine.telemetry.sampler import GpuSampler
from tunekit.predict.vram.budget import vram_budget
from tunekit.records.details import Detail, Details
from tunekit.records.host import Host
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.trial.executor import ProcessExecutor, TrialSpec
from tunekit.trial.target import resolve_target
from tunekit.trial.watch import Limits
from tunekit.units import bytes_text

ROOT = Path(__file__).resolve().parents[1]
LOOP = Path(__file__).with_name("gpu_loop.py")
TRACED_STEPS = 20
STALL_TOLERANCE = 0.05
STALL_FLOOR_S = 0.0005
"""A stall that differs by less is the same."""
CLOSURE_TOLERANCE = 0.02
OVERHEAD_GOAL = 0.01
CONTEXT = """
import sys, torch
side = torch.ones(64, 64, device="cuda", requires_grad=True)
(side @ side).square().mean().backward()
torch.cuda.synchronize()
print(torch.cuda.memory_reserved(), flush=True)
sys.stdin.read()
"""

Add = Callable[[str, str, bool | None], None]
"""Adds one row: what is checked, its figure, and whether it holds (None is no verdict)."""


def check_attribution(add: Add, host: Host, folder: Path, window_s: float, rounds: int) -> None:
    """Run every check of this file.

    Args:
        add: takes the rows.
        host: of this machine.
        folder: for trials.
        window_s: steady seconds of each trial.
        rounds: processes with and without the agent.
    """
    on_gpu = bool(host.accelerators)
    idle = _trial(host, folder / "idle", window_s, "--wait-ms", "20", "--item")
    _check_stall(add, "a device that waits for data", idle, on_gpu, "--wait-ms", "20", "--item")
    behind = (
        "--wait-ms",
        "1",
        "--layers",
        "24",
    )  # several times what a host needs to make and launch a batch
    hidden = _trial(host, folder / "hidden", window_s, *behind)
    _check_stall(add, "a device that is behind", hidden, on_gpu, *behind)
    _check_details(add, idle, on_gpu)
    _check_budget(add, idle, host)
    _check_overhead(add, "cuda" if on_gpu else "cpu", rounds)


def _trial(host: Host, folder: Path, window_s: float, *flags: str) -> TrialRecord:
    target = resolve_target((sys.executable, str(LOOP), *flags), ROOT)
    limits = Limits(trial_s=240.0, no_progress_s=120.0, ram_bytes=int(0.9 * host.ram_limit_bytes))
    gpus = [gpu.index for gpu in host.accelerators[:1]]
    executor = ProcessExecutor(target, folder, limits, window_s, gpus=gpus)
    details = (Detail.KERNELS, Detail.SYNCS, Detail.PEAKS)
    return executor.run(TrialSpec(0, TrialRole.BASELINE, None, details=details), None, lambda progress: None)


def _check_stall(add: Add, name: str, record: TrialRecord, on_gpu: bool, *flags: str) -> None:
    """Hold the stall by events against the idle time that a profiler sees within the loader's next().

    The profiler looks at another process, whose fetches may take longer: compared is the share that idles.
    """
    command = [sys.executable, str(LOOP), *flags, "--profile", str(TRACED_STEPS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    traced = json.loads(done.stdout.splitlines()[-1])
    if record.measurement is None:
        add(f"{name}: stall", _failure_text(record), False)
        return
    loop = record.measurement.loop
    wait_ms = 1000 * loop.parts.data_wait_s / loop.steady_batches
    if loop.device_parts is None:
        add(f"{name}: stall", f"n/a by events; the host waits {wait_ms:.2f} ms a batch", not on_gpu)
        return
    parts = loop.device_parts
    told_s, idle_share = parts.stall_s / parts.batches, traced["stall_s"] / traced["fetch_s"]
    traced_s = idle_share * wait_ms / 1000
    figure = (
        f"{1000 * told_s:.2f} ms by events, {idle_share:.1%} of the host's {wait_ms:.2f} ms by the profiler"
    )
    add(f"{name}: stall", figure, abs(told_s - traced_s) <= max(STALL_TOLERANCE * traced_s, STALL_FLOOR_S))
    step_ms = 1000 * parts.time_s / parts.batches
    add(
        f"{name}: the device's parts add up",
        f"{step_ms:.3f} ms, step {1000 * loop.step_time_s:.3f} ms, drained {parts.drained_batches} of "
        f"{parts.batches}",
        math.isclose(step_ms, 1000 * loop.step_time_s, rel_tol=STALL_TOLERANCE),
    )


def _check_details(add: Add, record: TrialRecord, on_gpu: bool) -> None:
    """The script reads its loss at each step: that place must be found, and kernels and copies beside it."""
    details = record.measurement.details if record.measurement is not None else None
    details = details or Details(faults=(_failure_text(record),))
    add("faults of the closer look", "; ".join(details.faults) or "none", not details.faults)
    kernels = details.kernels
    if kernels is not None:
        device = (
            f"busy {kernels.device_busy_s:.4f} s, idle {kernels.idle_s:.4f} s, upload {kernels.h2d_s:.5f} s"
            if kernels.device_busy_s is not None
            else "n/a for a CPU"
        )
        longest = kernels.kernels[0].name if kernels.kernels else "none"
        add(f"{kernels.batches} traced batches", f"{device}; longest: {longest[:60]}", bool(kernels.kernels))
    points = details.syncs
    if points is None:
        add("sync points", "n/a", not on_gpu)
        return
    figure = "; ".join(f"{point.where} {point.what} x {point.per_batch:g}" for point in points[:3])
    found = any("loss.item()" in point.what and point.per_batch == 1 for point in points)
    add("sync points", figure or "none", found)


def _check_budget(add: Add, record: TrialRecord, host: Host) -> None:
    """With a context that another process measured, the parts must add up to the driver's figure."""
    budget = vram_budget(record.measurement, record.telemetry) if record.measurement is not None else None
    if budget is None:
        # On a GPU: the model's bytes are not told.
        add("VRAM budget", "n/a", not host.accelerators)
        return
    add(
        "VRAM budget",
        f"parameters {bytes_text(budget.parameters_bytes)}, "
        f"gradients {bytes_text(budget.gradients_bytes)} of {bytes_text(budget.complete_gradients_bytes)}, "
        f"optimizer {bytes_text(budget.optimizer_bytes)}, batch {bytes_text(budget.batch_bytes)}, "
        f"activations {bytes_text(budget.activations_bytes)}, "
        f"fragmentation {bytes_text(budget.fragmentation_bytes)}, "
        f"context {bytes_text(budget.context_bytes)}; peak in "
        f"{budget.peak_in}; {budget.note or 'no note'}",
        None,  # activations and context are remainders: the parts add up whatever was measured
    )
    context_bytes = _context_bytes(host)
    if context_bytes is None or not budget.nvml_bytes:
        add("budget against NVML", "n/a: the driver does not tell of processes", None)
    else:
        error = abs(budget.peak_reserved_bytes + context_bytes - budget.nvml_bytes) / budget.nvml_bytes
        add("budget against NVML", f"{error:.2%}", error <= CLOSURE_TOLERANCE)


def _context_bytes(host: Host) -> int | None:
    """Return what the driver counts for a process with a CUDA context, beyond what torch reserved in it."""
    command = [sys.executable, "-c", CONTEXT]
    with (
        GpuSampler(Nvml(), [host.accelerators[0].index]) as sampler,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child,
    ):
        assert child.stdout is not None
        reserved_bytes = int(child.stdout.readline())
        time.sleep(1.0)
        (sample,) = sampler.sample(frozenset({child.pid})).values()
        child.communicate("")
    return None if sample.tree_bytes is None else round(sample.tree_bytes) - reserved_bytes


def _check_overhead(add: Add, device: str, rounds: int) -> None:
    """What the agent with its events adds to steps of 10 ms, beside two runs without it."""
    off, on, again = interleaved(10.0, 300 if rounds > 2 else 60, rounds, device)
    added_us = 1e6 * (mean(on) - mean(off))
    add("two runs without the agent", ratio_text(again, off), None)
    is_cheap = mean(on) / mean(off) - 1 <= OVERHEAD_GOAL if rounds > 2 else None
    add("agent on / off", f"{ratio_text(on, off)}, {added_us:.0f} us of a 10 ms step on {device}", is_cheap)


def _failure_text(record: TrialRecord) -> str:
    return record.failure.message[:200] if record.failure is not None else "no measurement"
