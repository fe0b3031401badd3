"""Whether predicted device memory holds against torch and the driver; part of gpu_check.py.

First `tunekit doctor --calibrate`. Then each model at three batch sizes in fp32, fp16 and bf16, eager, and in
bf16 compiled: predicted as `tunekit fits` does, by a trial that traces the script's own steps at a small
batch, and measured in a process of its own each. Memory does not depend on what else runs, so several run at
a time where the GPU has room for them.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

from gpu_rows import Add, Job
from real_trials_of import traced_fits

from tunekit.machine.device import device_profile
from tunekit.machine.gpu.nvml import Nvml
from tunekit.machine.gpu.outside_torch import outside_torch
from tunekit.machine.profiles import load_profiles
from tunekit.predict.step_traces import Unpredictable
from tunekit.records.codec import from_json
from tunekit.records.host import Accelerator
from tunekit.records.prediction import Calibration, OutsideTorch, PeakShown
from tunekit.units import GIB, bytes_text

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = Path(__file__).with_name("peaks_script.py")
BATCHES = {
    "resnet50": (16, 48, 128),
    "vit_s": (16, 64, 256),
    "bert_base": (4, 16, 48),
    "gpt2": (4, 12, 32),
    "lstm": (16, 64, 192),
    "unet": (4, 16, 48),
}
"""The batch sizes of each model."""
_BY_SGD = ("resnet50",)
_PRECISIONS = ("fp32", "fp16", "bf16")
_TRACED_BATCH, _STEPS = 4, 6
GOAL = 0.04
"""The share by which a prediction of allocated memory may be off."""
_GIB_EACH = 30
"""What the largest of the configs takes, at most: so many run at a time as fit."""
_MAX_AT_ONCE = 4
_OUT_OF_MEMORY = "out of memory"
_SETTLE_S = 0.5


@dataclass(frozen=True)
class Config:
    """One training to predict and to measure."""

    model: str
    batch: int
    precision: str
    is_compiled: bool

    @property
    def name(self) -> str:
        """As a row is named."""
        return f"{self.model}, batch {self.batch}, {self.precision}{', compiled' * self.is_compiled}"


def _words(model: str, batch: int, precision: str) -> list[str]:
    """Return the script's flags."""
    optimizer = "sgd" if model in _BY_SGD else "adamw"
    return [model, "--batch", str(batch), "--precision", precision, "--optimizer", optimizer]


@dataclass(frozen=True)
class Seen:
    """What a training took, in bytes."""

    allocated: int
    reserved: int
    context: int | None
    """What the driver counts for the process beyond what torch had reserved; None where it does not tell."""


def check_prediction(job: Job) -> None:
    """Run every check of this file; predictions that were traced on the CPU have no verdict."""
    add, gpu, folder, on_cpu = job.add, job.gpu, job.folder, job.traces_on_cpu
    calibration = _check_calibration(add, folder)
    profile, _ = device_profile("auto", job.host, load_profiles())
    beside = outside_torch(profile, [calibration] if calibration else [])
    contexts = []
    at_once = max(1, min(_MAX_AT_ONCE, (gpu.memory_bytes or 0) // (_GIB_EACH * GIB)))
    for model in job.models:
        predicted = {
            precision: _predicted(model, precision, beside, folder / f"{model}-{precision}", on_cpu)
            for precision in _PRECISIONS
        }
        configs = list(_configs(model))
        with ThreadPoolExecutor(at_once) as pool:
            for config, seen in zip(configs, pool.map(lambda one: _measured(one, gpu), configs), strict=True):
                _check_config(add, config, predicted[config.precision], seen, gpu, beside, on_cpu)
                if isinstance(seen, Seen) and seen.context is not None and not config.is_compiled:
                    contexts.append(seen.context)
    _check_context(add, contexts, beside)


def _check_calibration(add: Add, folder: Path) -> Calibration | None:
    """Calibrate by the command line."""
    kept = folder / "calibrations"
    kept.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "tunekit", "doctor", "--calibrate", "--json"],
        cwd=ROOT,
        env={**os.environ, "TUNEKIT_CALIBRATIONS": str(kept)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        add("doctor --calibrate", f"exit {done.returncode}: {done.stderr.strip()[-400:]}", False)
        return None
    found = from_json(done.stdout, Calibration)
    add("context", f"{bytes_text(found.context_bytes)} by the {found.context_seen_by}", True)
    kept_text = "kept" if found.blas_is_kept else "given back"
    blas = f"{bytes_text(found.blas_forward_bytes)} forward, {bytes_text(found.blas_backward_bytes)} backward"
    add("cuBLAS workspaces", f"{blas}, {kept_text}", None)
    for benchmark in (False, True):
        bounds = found.workspaces_bytes(benchmark)
        text = f"{bytes_text(bounds[0])} to {bytes_text(bounds[1])}" if bounds else "n/a"
        add(f"cuDNN workspaces, benchmark {'on' if benchmark else 'off'}", text, bounds is not None)
    return found


def _configs(model: str) -> Iterator[Config]:
    for batch in BATCHES[model]:
        for precision in _PRECISIONS:
            yield Config(model, batch, precision, is_compiled=False)
        yield Config(model, batch, "bf16", is_compiled=True)


def _predicted(
    model: str, precision: str, beside: OutsideTorch, folder: Path, on_cpu: bool
) -> dict[int, PeakShown] | str:
    """Return the peaks of a model's batch sizes, or why nothing is predicted."""
    try:
        fits = traced_fits(SCRIPT, _words(model, _TRACED_BATCH, precision), folder, hide_gpus=on_cpu)
    except Unpredictable as why:
        return str(why)
    peaks = {batch: fits.unlimited_peak(fits.precisions[0], batch, beside) for batch in BATCHES[model]}
    return {batch: peak for batch, peak in peaks.items() if peak is not None}


def _measured(config: Config, gpu: Accelerator) -> Seen | str:
    """Return what a config took, or why it did not train."""
    words = _words(config.model, config.batch, config.precision)
    words += ["--compile"] if config.is_compiled else []
    with _loop([*words, "--steps", str(_STEPS), "--stay"]) as loop:
        reply = loop.reply
        if reply is None:
            return loop.last_words()
        time.sleep(_SETTLE_S)
        taken_bytes = _taken_bytes(gpu.index, loop.pid)
    context_bytes = None if taken_bytes is None else taken_bytes - int(reply["now_reserved_bytes"])
    return Seen(int(reply["allocated_bytes"]), int(reply["reserved_bytes"]), context_bytes)


@dataclass(frozen=True)
class _RunningLoop:
    """What the loop reported, while it still runs."""

    pid: int
    reply: dict[str, Any] | None
    errors: IO[str]

    def last_words(self) -> str:
        """Return why it told nothing: that memory ended, wherever that is said, or else its last line."""
        self.errors.seek(0)
        lines = [line.strip() for line in self.errors if line.strip()]
        ends = [line for line in lines if _OUT_OF_MEMORY in line]
        return (ends or lines or ["it ended and wrote nothing"])[-1][:200]


@contextmanager
def _loop(words: Sequence[str]) -> Iterator[_RunningLoop]:
    """Run the loop until it has told, and end it afterwards."""
    command = [sys.executable, str(SCRIPT), *words]
    pipe = subprocess.PIPE
    with (
        TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True) as child,
    ):
        assert child.stdin is not None
        assert child.stdout is not None
        reply = next((json.loads(line) for line in child.stdout if line.startswith("{")), None)
        yield _RunningLoop(child.pid, reply, errors)
        child.stdin.close()


def _taken_bytes(index: int, pid: int) -> int | None:
    with Nvml() as nvml:
        reading = nvml.reading(index, pcie=False)
    return (reading.process_bytes or {}).get(pid)


def _check_config(
    add: Add,
    config: Config,
    peaks: dict[int, PeakShown] | str,
    seen: Seen | str,
    gpu: Accelerator,
    beside: OutsideTorch,
    on_cpu: bool,
) -> None:
    """Hold a prediction against its measurement; what is compiled keeps less than what was traced."""
    if isinstance(peaks, str):
        add(config.name, f"not predicted: {peaks}", False)
        return
    peak = peaks[config.batch]
    allocated, reserved = peak.allocated_bytes, peak.reserved_bytes
    if isinstance(seen, str):
        needed = reserved + beside.context.low
        figure = f"predicted to need {bytes_text(needed)} of {bytes_text(gpu.memory_bytes)}; {seen}"
        add(config.name, figure, _OUT_OF_MEMORY in seen and needed > (gpu.memory_bytes or 0))
        return
    off, off_reserved = allocated / seen.allocated - 1, reserved / seen.reserved - 1
    figure = (
        f"allocated {bytes_text(allocated)} predicted, {bytes_text(seen.allocated)} measured ({off:+.1%}); "
        f"reserved {bytes_text(reserved)} predicted, {bytes_text(seen.reserved)} measured "
        f"({off_reserved:+.1%}); context {bytes_text(seen.context)}"
    )
    is_right = off >= -GOAL if config.is_compiled else abs(off) <= GOAL
    add(config.name, figure, None if on_cpu else is_right)


def _check_context(add: Add, contexts: Sequence[int], beside: OutsideTorch) -> None:
    """Hold the contexts of the eager trainings against the bounds that the calibration gave."""
    bounds = f"{bytes_text(beside.context.low)} to {bytes_text(beside.context.high)} expected"
    if not contexts:
        add("contexts of the trainings", f"n/a: the driver does not tell of processes; {bounds}", None)
        return
    figure = f"{bytes_text(min(contexts))} to {bytes_text(max(contexts))}, {bounds}"
    is_within = beside.context.low <= min(contexts) and max(contexts) <= beside.context.high
    add("contexts of the trainings", figure, is_within)
