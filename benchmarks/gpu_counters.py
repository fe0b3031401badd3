"""What a GPU's counters say under loads whose truth is known, and whether its profile tells the truth.

Part of gpu_check.py. Each load is a child process of some seconds (gpu_load.py) while this one samples, as it
does beside a trial.
"""

import functools
import json
import math
import operator
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from gpu_rows import Add, Job

from tunekit.machine.gpu.nvml import GpuReading, Nvml, throttle_reasons
from tunekit.machine.profiles import load_profiles
from tunekit.machine.telemetry.sampler import GpuSampler
from tunekit.records.host import Accelerator
from tunekit.records.profile import Profile
from tunekit.units import bytes_text

LOAD = Path(__file__).with_name("gpu_load.py")
LOADS = ("idle", "matmul", "copy", "upload")
LOAD_S = 5.0
INTERVAL_S = 0.5
SETTLE_S = 1.2
"""The driver's utilisation looks back for up to a second."""


@dataclass
class Loaded:
    """What the load reached, and what the counters said meanwhile."""

    reached: dict[str, Any]
    samples: list[GpuReading]
    costs_s: list[float] = field(default_factory=list)

    def median(self, column: str) -> float | None:
        """Return the middle of a counter's figures, None if it never answered."""
        known = [value for value in (getattr(sample, column) for sample in self.samples) if value is not None]
        return statistics.median(known) if known else None

    def throttled(self) -> str:
        """Return the names of all reasons that were seen."""
        masks = [int(sample.throttle_mask) for sample in self.samples if sample.throttle_mask is not None]
        if not masks:
            return "n/a"
        return ", ".join(throttle_reasons(functools.reduce(operator.or_, masks))) or "none"


def check_counters(job: Job) -> None:
    """Run each load, write what every counter said, judge those whose truth is known, and the profile."""
    add, gpu, loaded = job.add, job.gpu, {}
    for load in LOADS:
        loaded[load] = _under_load(load, gpu.index)
        add(f"{load} loop", _reached_text(loaded[load].reached), None)
        add(f"{load} loop, counters", _counters_text(loaded[load]), None)
    costs_s = [cost for seen in loaded.values() for cost in seen.costs_s]
    add("one sample of the GPU", f"{1000 * statistics.median(costs_s):.1f} ms", None)
    _judge_activity(add, loaded)
    _judge_rest(add, loaded)
    if gpu.profile_id is None:
        add("profile against device", "n/a: no profile", None)
        return
    profile = load_profiles()[gpu.profile_id]
    _check_facts(add, gpu, profile, loaded["matmul"].reached)
    _check_rates(add, profile, loaded)


def _check_facts(add: Add, gpu: Accelerator, profile: Profile, torch_says: dict[str, Any]) -> None:
    both = f"{gpu.memory_bytes} of the driver, {profile.memory_bytes} in the profile"
    # ECC takes a sixteenth of GDDR memory, firmware some; drivers differ in what they count of it.
    share = gpu.memory_bytes / profile.memory_bytes if profile.memory_bytes else math.nan
    add("profile: memory_bytes", f"{both} ({share:.1%})", 0.93 <= share <= 1.01)
    total, stated = torch_says["total_bytes"], profile.torch_memory_bytes
    close = None if stated is None else abs(total - stated) <= 0.02 * stated
    add("profile: torch_memory_bytes", f"{total} of torch, {stated} in the profile", close)
    for fact in ("compute_capability", "multiprocessors"):
        seen, stated_fact = torch_says[fact], getattr(profile, fact)
        verdict = None if stated_fact is None else seen == stated_fact
        add(f"profile: {fact}", f"{seen} of torch, {stated_fact} in the profile", verdict)
    if gpu.pcie is not None and profile.pcie_lanes is not None:
        add("profile: PCIe", f"x{gpu.pcie.max_lanes}; x{profile.pcie_lanes} in the profile", None)


def _check_rates(add: Add, profile: Profile, loaded: dict[str, Loaded]) -> None:
    reached = loaded["matmul"].reached["best"]
    if profile.bf16_tflops is None:
        add("profile: bf16 matmul", f"{reached:.0f} TFLOP/s; the profile states no rate", None)
    else:
        share, best = reached / profile.bf16_tflops, profile.achievable_bf16_fraction
        figure = f"{reached:.0f} of {profile.bf16_tflops:.0f} TFLOP/s: {share:.1%}; achievable "
        add("profile: bf16 matmul", figure + _percent(best and 100 * best), 0.7 * (best or 0) <= share <= 1)
    reached = loaded["copy"].reached["best"]
    if profile.bandwidth_gb_per_s is None:
        add("profile: device copy", f"{reached:.0f} GB/s; the profile states no bandwidth", None)
    else:
        share = reached / profile.bandwidth_gb_per_s
        figure = f"{reached:.0f} of {profile.bandwidth_gb_per_s:.0f} GB/s: {share:.1%}"
        add("profile: device copy", figure, share <= 1)


def _under_load(load: str, index: int) -> Loaded:
    # The driver's order of GPUs is CUDA's only if CUDA is told so.
    environment = {**os.environ, "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    command = [sys.executable, str(LOAD), load, str(LOAD_S)]
    seen = Loaded({}, [])
    with (
        GpuSampler(Nvml(), [index]) as sampler,
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as child,
    ):
        assert child.stdout is not None
        if child.stdout.readline().strip() == "ready":
            _sample_until(sampler, child.pid, time.monotonic() + LOAD_S - INTERVAL_S, seen)
        output = child.stdout.read()
    if child.returncode:
        raise subprocess.CalledProcessError(child.returncode, command)
    seen.reached = json.loads(output.splitlines()[-1])
    return seen


def _sample_until(sampler: GpuSampler, pid: int, end: float, seen: Loaded) -> None:
    pids = frozenset({pid})
    time.sleep(min(SETTLE_S, max(0.0, end - time.monotonic())))
    # The first has nothing to compare the GPU's own counters with.
    sampler.sample(pids)
    while time.monotonic() + INTERVAL_S < end:
        time.sleep(INTERVAL_S)
        begin = time.perf_counter()
        seen.samples += sampler.sample(pids).values()
        seen.costs_s.append(time.perf_counter() - begin)


def _judge_activity(add: Add, loaded: dict[str, Loaded]) -> None:
    expected: tuple[tuple[str, str, Callable[[float], bool], str], ...] = (
        ("idle", "utilization_percent", lambda value: value <= 10, "at most 10"),
        ("idle", "sm_activity_percent", lambda value: value <= 10, "at most 10"),
        ("matmul", "utilization_percent", lambda value: value > 90, "above 90"),
        ("matmul", "sm_activity_percent", lambda value: value > 80, "above 80"),
        ("matmul", "tensor_activity_percent", lambda value: value > 30, "above 30"),
        ("copy", "dram_activity_percent", lambda value: value > 50, "above 50"),
        ("copy", "tensor_activity_percent", lambda value: value < 5, "below 5"),
    )
    for load, column, holds, truth in expected:
        value = loaded[load].median(column)
        verdict = None if value is None else holds(value)
        add(f"{load}: {column}", f"{_percent(value)}, expected {truth}", verdict)


def _judge_rest(add: Add, loaded: dict[str, Loaded]) -> None:
    idle_w, matmul_w = loaded["idle"].median("power_w"), loaded["matmul"].median("power_w")
    known = None if idle_w is None or matmul_w is None else matmul_w > idle_w
    add("power", f"{_figure(idle_w, 'W')} idle, {_figure(matmul_w, 'W')} under matmul", known)
    upload = loaded["upload"]
    true_mb_per_s, counted = 1000 * upload.reached["mean"], upload.median("pcie_rx_mb_per_s")
    # Packets have headers, and the driver's own counter looks at 20 ms only.
    fits = None if counted is None else 0.7 <= counted / true_mb_per_s <= 1.5
    figure = f"{_figure(counted, 'MB/s')} counted, {true_mb_per_s:.0f} MB/s copied"
    add("upload: pcie_rx_mb_per_s", figure, fits)
    for load in ("matmul", "copy"):
        tree_bytes, reserved = loaded[load].median("tree_bytes"), loaded[load].reached["reserved_bytes"]
        enough = None if tree_bytes is None else tree_bytes >= reserved
        figure = f"{bytes_text(tree_bytes)} of the process, of which torch reserved {bytes_text(reserved)}"
        add(f"{load}: tree_bytes", figure, enough)


def _reached_text(reached: dict[str, Any]) -> str:
    unit = {"tflop_per_s": "TFLOP/s", "gb_per_s": "GB/s"}.get(reached["unit"])
    return f"{reached['mean']:.4g} {unit}, best {reached['best']:.4g}" if unit else "nothing"


def _counters_text(seen: Loaded) -> str:
    figures = [
        f"{name} {bytes_text(seen.median(name)) if unit == 'bytes' else _figure(seen.median(name), unit)}"
        for name, unit in _units().items()
    ]
    return f"{', '.join(figures)}, throttled by {seen.throttled()} ({len(seen.samples)} samples)"


def _units() -> dict[str, str]:
    """Return every figure of a sample with its unit, which its name ends in."""
    units = {"percent": "%", "bytes": "bytes", "w": "W", "c": "C", "mhz": "MHz", "s": "MB/s"}
    names = [one.name for one in fields(GpuReading) if one.name not in ("process_bytes", "throttle_mask")]
    return {name: units[name.rpartition("_")[2]] for name in names}


def _figure(value: float | None, unit: str) -> str:
    return "n/a" if value is None else f"{value:.4g} {unit}"


def _percent(value: float | None) -> str:
    return _figure(value, "%")
