"""Whether predicted device memory holds against torch and the driver; part of gpu_check.py.

First `tunekit doctor --calibrate`. Then a ResNet-50, a GPT-2 and an LSTM at three batch sizes in fp32, tf32
and bf16, eager, and in bf16 compiled: predicted as `tunekit fits` does, by a trial that traces the script's
own steps at its small batch, and measured in a process of its own each. Memory does not depend on what else
runs, so several run at a time where the GPU has room for them. On a CPU the same path runs with small
models, and there is nothing to compare.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Any

from real_trials_of import traced_fits

from tunekit.errors import UsageError
from tunekit.machine.device import device_profile
from tunekit.machine.gpu.nvml import Nvml
from tunekit.machine.gpu.outside_torch import outside_torch
from tunekit.machine.profiles import load_profiles
from tunekit.predict.step_traces import Unpredictable
from tunekit.predict.vram.predict import PeakPredicted
from tunekit.records.codec import from_json
from tunekit.records.host import Host
from tunekit.records.prediction import Calibration, OutsideTorch
from tunekit.units import GIB, bytes_text

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = Path(__file__).with_name("peaks_script.py")
BATCHES = {"resnet50": (16, 48, 128), "gpt2": (4, 12, 32), "lstm": (16, 64, 192)}
OPTIMIZERS = {"resnet50": "sgd", "gpt2": "adamw", "lstm": "adamw"}
SMALL_BATCHES = (16,)
_TRACED_BATCH, _STEPS = 4, 6
GOAL = 0.04
"""The share by which a prediction of allocated memory may be off."""
_GIB_EACH = 30
"""What the largest of the configs takes, at most: so many run at a time as fit."""
_MOST_AT_ONCE = 4
_OUT_OF_MEMORY = "out of memory"
_SETTLE_S = 0.5

Add = Callable[[str, str, bool | None], None]
"""Adds one row: what is checked, its figure, and whether it holds (None is no verdict)."""


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


def _words(model: str, batch: int, precision: str, is_small: bool) -> list[str]:
    """Return the script's flags."""
    words = [model, "--batch", str(batch), "--precision", precision, "--optimizer", OPTIMIZERS[model]]
    return [*words, "--small"] if is_small else words


@dataclass(frozen=True)
class Seen:
    """What a training took, in bytes."""

    allocated: int
    reserved: int
    context: int | None
    """What the driver counts for the process beyond what torch had reserved; None where it does not tell."""


def check_prediction(add: Add, host: Host, folder: Path) -> None:
    """Run every check of this file.

    Args:
        add: takes the rows.
        host: of this machine.
        folder: for the calibration.
    """
    calibration = _check_calibration(add, host, folder)
    profile, _ = device_profile("auto", host, load_profiles())
    beside = outside_torch(profile, [calibration] if calibration else [])
    on_gpu = bool(host.accelerators)
    configs = list(_configs(is_small=not on_gpu))
    began_s = time.monotonic()
    predicted = {
        (model, precision): _predicted(model, precision, beside, on_gpu)
        for model in BATCHES
        for precision in ("fp32", "bf16")
    }
    with ThreadPoolExecutor(_at_once(host)) as pool:
        seen = list(pool.map(lambda config: _measured(config, host), configs))
    for config, one in zip(configs, seen, strict=True):
        precision = "fp32" if config.precision == "tf32" else config.precision
        peaks = predicted[config.model, precision]
        if isinstance(one, str) and _OUT_OF_MEMORY in one and not isinstance(peaks, str):
            _check_end(add, config, peaks[config.batch], host.accelerators[0].memory_bytes, beside)
        else:
            _check_config(add, config, peaks, one, on_gpu)
    if on_gpu:
        _check_context(add, configs, seen, beside)
    add("predictions and measurements took", f"{time.monotonic() - began_s:.0f} s", None)


def _check_calibration(add: Add, host: Host, folder: Path) -> Calibration | None:
    """Calibrate by the command line; without a GPU it must say so, and how to go on."""
    kept = folder / "calibrations"
    kept.mkdir(parents=True)
    done = subprocess.run(
        [sys.executable, "-m", "tunekit", "doctor", "--calibrate", "--json"],
        cwd=ROOT,
        env={**os.environ, "TUNEKIT_CALIBRATIONS": str(kept)},
        capture_output=True,
        text=True,
        check=False,
    )
    if not host.accelerators:
        is_refused = done.returncode == UsageError.exit_code and "no CUDA GPU to calibrate" in done.stderr
        add("doctor --calibrate without a GPU", done.stderr.strip()[:120], is_refused)
        return None
    if done.returncode:
        add("doctor --calibrate", f"exit {done.returncode}: {done.stderr.strip()[-200:]}", False)
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


def _configs(is_small: bool) -> Iterator[Config]:
    for model, batches in BATCHES.items():
        for batch in SMALL_BATCHES if is_small else batches:
            for precision in ("fp32", "tf32", "bf16"):
                yield Config(model, batch, precision, is_compiled=False)
            yield Config(model, batch, "bf16", is_compiled=True)


def _at_once(host: Host) -> int:
    """Return how many of the configs the GPU has room for at a time."""
    if not host.accelerators:
        return 1
    return max(1, min(_MOST_AT_ONCE, host.accelerators[0].memory_bytes // (_GIB_EACH * GIB)))


def _predicted(
    model: str, precision: str, beside: OutsideTorch, on_gpu: bool
) -> dict[int, PeakPredicted] | str:
    """Return the peaks of a model's batch sizes, or why nothing is predicted."""
    words = _words(model, _TRACED_BATCH, precision, not on_gpu)
    try:
        with TemporaryDirectory() as folder:
            fits = traced_fits(SCRIPT, words, Path(folder), hide_gpus=not on_gpu)
    except Unpredictable as why:
        return str(why)
    batches = BATCHES[model] if on_gpu else SMALL_BATCHES
    peaks = {batch: fits.unlimited_peak(fits.precisions[0], batch, beside) for batch in batches}
    return {batch: peak for batch, peak in peaks.items() if peak is not None}


def _measured(config: Config, host: Host) -> Seen | str | None:
    """Return what a config took; None on a CPU, or why it did not train."""
    words = _words(config.model, config.batch, config.precision, not host.accelerators)
    words += ["--compile"] if config.is_compiled else []
    with _loop([*words, "--steps", str(_STEPS), "--stay"]) as loop:
        reply = loop.reply
        if reply is None:
            return loop.last_words()
        if reply["allocated_bytes"] is None:
            return None
        time.sleep(_SETTLE_S)
        taken_bytes = _taken_bytes(host.accelerators[0].index, loop.pid)
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
    return (reading.process_bytes or {}).get(pid) if reading is not None else None


def _check_config(
    add: Add,
    config: Config,
    peaks: dict[int, PeakPredicted] | str,
    seen: Seen | str | None,
    on_gpu: bool,
) -> None:
    """Hold a prediction against its measurement; what is compiled keeps less than what was traced."""
    if isinstance(peaks, str) or isinstance(seen, str):
        why = [text for text in (peaks, seen) if isinstance(text, str)]
        add(config.name, "; ".join(why), False)
        return
    allocated, reserved = peaks[config.batch].allocated_bytes, peaks[config.batch].reserved_bytes
    figure = f"allocated {bytes_text(allocated)} predicted"
    if seen is None:
        add(config.name, f"{figure}; trained on the CPU, nothing to compare", None if on_gpu else True)
        return
    off, off_reserved = allocated / seen.allocated - 1, reserved / seen.reserved - 1
    figure = (
        f"{figure}, {bytes_text(seen.allocated)} measured ({off:+.1%}); reserved {bytes_text(reserved)} "
        f"predicted, {bytes_text(seen.reserved)} measured ({off_reserved:+.1%}); context "
        f"{bytes_text(seen.context)}"
    )
    add(config.name, figure, off >= -GOAL if config.is_compiled else abs(off) <= GOAL)


def _check_end(
    add: Add, config: Config, peak: PeakPredicted, memory_bytes: int | None, beside: OutsideTorch
) -> None:
    """Hold a training that ran out of memory against what was predicted: more than the device has."""
    needed = peak.reserved_bytes + beside.context.low
    figure = (
        f"ran out of memory; reserved {bytes_text(peak.reserved_bytes)} predicted and context "
        f"{bytes_text(beside.context.low)} of the device's {bytes_text(memory_bytes)}"
    )
    add(config.name, figure, memory_bytes is not None and needed > memory_bytes)


def _check_context(
    add: Add, configs: Sequence[Config], seen: Sequence[Seen | str | None], beside: OutsideTorch
) -> None:
    """Hold the contexts of the eager trainings against the bounds that the calibration gave."""
    contexts = [
        one.context
        for config, one in zip(configs, seen, strict=True)
        if isinstance(one, Seen) and one.context is not None and not config.is_compiled
    ]
    bounds = f"{bytes_text(beside.context.low)} to {bytes_text(beside.context.high)} expected"
    if not contexts:
        add("contexts of the trainings", f"n/a: the driver does not tell of processes; {bounds}", None)
        return
    figure = f"{bytes_text(min(contexts))} to {bytes_text(max(contexts))}, {bounds}"
    is_within = beside.context.low <= min(contexts) and max(contexts) <= beside.context.high
    add("contexts of the trainings", figure, is_within)
