"""Whether what is told of a device's time and memory holds against torch.profiler; part of gpu_check.py.

Each loop is real: its data stall is known (gpu_loop.py).
"""

import json
import math
import subprocess
import sys
from pathlib import Path

from gpu_rows import Add, Job
from real_trials_of import run_script

from tunekit.predict.vram.budget import vram_budget
from tunekit.records.details import Detail, Details
from tunekit.records.trial import TrialRecord
from tunekit.units import bytes_text

LOOP = Path(__file__).with_name("gpu_loop.py")
WINDOW_S = 4.0
TRACED_STEPS = 20
STALL_TOLERANCE = 0.05
STALL_FLOOR_S = 0.0005
"""A stall that differs by less is the same."""
IDLE = ("--wait-ms", "20", "--item")
BEHIND = ("--wait-ms", "1", "--layers", "24")
"""Several times what a host needs to make and launch a batch."""


def check_attribution(job: Job) -> None:
    """Run every check of this file."""
    add = job.add
    for name, flags in (("a device that waits for data", IDLE), ("a device that is behind", BEHIND)):
        details = (Detail.KERNELS, Detail.SYNCS, Detail.PEAKS)
        record = run_script(LOOP, list(flags), job.folder / name, WINDOW_S, details, [job.gpu.index])
        if flags is IDLE:
            _check_details(add, record)
            _check_budget(add, record)
        _check_stall(add, name, record, flags)


def _check_stall(add: Add, name: str, record: TrialRecord, flags: tuple[str, ...]) -> None:
    """Hold the stall by events against the idle time that a profiler sees within the loader's next().

    The profiler looks at another process, whose fetches may take longer: compared is the share that idles.
    """
    if record.measurement is None:
        add(f"{name}: stall", _failure_text(record), False)
        return
    command = [sys.executable, str(LOOP), *flags, "--profile", str(TRACED_STEPS)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    traced = json.loads(done.stdout.splitlines()[-1])
    loop = record.measurement.loop
    wait_ms = 1000 * loop.parts.data_wait_s / loop.steady_batches
    if loop.device_parts is None:
        add(f"{name}: stall", f"n/a by events; the host waits {wait_ms:.2f} ms a batch", False)
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


def _check_details(add: Add, record: TrialRecord) -> None:
    """The script reads its loss at each step: that place must be found, and kernels and copies beside it."""
    details = record.measurement.details if record.measurement is not None else None
    details = details or Details(faults=(_failure_text(record),))
    add("faults of the closer look", "; ".join(details.faults) or "none", not details.faults)
    kernels = details.kernels
    if kernels is not None:
        device = (
            f"busy {kernels.device_busy_s:.4f} of {kernels.time_s:.4f} s, upload {kernels.h2d_s:.5f} s"
            if kernels.device_busy_s is not None
            else "no kernel was seen"
        )
        longest = kernels.kernels[0].name if kernels.kernels else "none"
        add(f"{kernels.batches} traced batches", f"{device}; longest: {longest[:60]}", bool(kernels.kernels))
    points = details.syncs
    if points is None:
        add("sync points", "n/a", False)
        return
    figure = "; ".join(f"{point.where} {point.what} x {point.per_batch:g}" for point in points[:3])
    found = any("loss.item()" in point.what and point.per_batch == 1 for point in points)
    add("sync points", figure or "none", found)


def _check_budget(add: Add, record: TrialRecord) -> None:
    """What the memory of the peak is spent on."""
    budget = vram_budget(record.measurement, record.telemetry) if record.measurement is not None else None
    if budget is None:
        add("VRAM budget", "n/a", False)
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


def _failure_text(record: TrialRecord) -> str:
    return record.failure.message[:400] if record.failure is not None else "no measurement"
