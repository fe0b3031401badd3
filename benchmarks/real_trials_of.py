"""Real trials of a benchmark's own script, each in a fresh process."""

import sys
from collections.abc import Sequence
from pathlib import Path

from tunekit.machine.detect import detect_host
from tunekit.predict.fits import Fits
from tunekit.records.agent_messages import Arithmetic
from tunekit.records.details import Detail
from tunekit.records.measurement import Measurement
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.trial.executor import ProcessExecutor, TrialSpec
from tunekit.trial.target import resolve_target
from tunekit.trial.watch import Limits


def run_script(
    script: Path,
    words: list[str],
    folder: Path,
    window_s: float,
    details: tuple[Detail, ...] = (),
    gpus: Sequence[int] = (),
) -> TrialRecord:
    """Return the record of one trial of a script as it is.

    Args:
        script: the training script.
        words: its flags.
        folder: gets the trial's own folder.
        window_s: steady seconds to measure.
        details: what to look at afterwards.
        gpus: whose telemetry is kept, by their place in the driver's order.
    """
    target = resolve_target((sys.executable, str(script), *words), script.parent)
    limits = Limits(trial_s=280.0, no_progress_s=90.0, ram_bytes=int(0.9 * detect_host().ram_limit_bytes))
    executor = ProcessExecutor(target, folder, limits, window_s, gpus=gpus)
    spec = TrialSpec(0, TrialRole.BASELINE, None, details=details)
    return executor.run(spec, None, lambda progress: None)


def traced_fits(
    script: Path,
    words: list[str],
    folder: Path,
    python: str = sys.executable,
    hide_gpus: bool = True,
) -> Fits:
    """Return what a trial's trace of a script says of any GPU, as `tunekit fits` has it.

    Args:
        script: the training script.
        words: its flags.
        folder: gets the trial's own folder.
        python: that runs it.
        hide_gpus: trace on the CPU, without arithmetic.

    Raises:
        Unpredictable: nothing was traced.
    """
    target = resolve_target((python, str(script), *words), script.parent)
    limits = Limits(trial_s=280.0, no_progress_s=200.0, ram_bytes=int(0.9 * detect_host().ram_limit_bytes))
    executor = ProcessExecutor(target, folder, limits, 0.2, hide_gpus=hide_gpus)
    skips = Arithmetic.ALL if hide_gpus else Arithmetic.TRACED
    spec = TrialSpec(0, TrialRole.BASELINE, None, details=(Detail.TRACE,), skips=skips)
    return Fits([executor.run(spec, None, lambda progress: None)], folder, detect_host().cpus)


def measured(record: TrialRecord) -> Measurement:
    """Return the measurement; a trial without one ends the benchmark."""
    if record.measurement is None:
        sys.exit(f"a trial failed: {record.failure}")
    return record.measurement
