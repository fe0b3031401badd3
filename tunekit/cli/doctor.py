"""`tunekit doctor`: what this machine has, and what will slow training down on it."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tunekit.cli.machine import ask_torch, checkup_of, with_sandbox
from tunekit.cli.report_files import check_report_files, drawn, present
from tunekit.cli.verbs import BASELINE
from tunekit.diagnose.registry import worst
from tunekit.errors import TargetError, UsageError
from tunekit.machine import detect
from tunekit.machine.gpu import calibrate
from tunekit.machine.gpu.calibrate import folder_to_save_in, save_calibration
from tunekit.machine.gpu.nvml import Nvml
from tunekit.machine.host.interpreter import interpreter_of
from tunekit.machine.host.limits import load_average
from tunekit.machine.host.torch_build import TorchAbsent
from tunekit.machine.storage.inspect import inspect_storage_apart
from tunekit.predict.ram import held_per_sample
from tunekit.recommend.recommendation import ANSWER_ORDER
from tunekit.records.checkup import Checkup, LoaderPlan
from tunekit.records.codec import to_json
from tunekit.records.finding import Severity, without_findings
from tunekit.records.run import Run
from tunekit.records.trials import Measured
from tunekit.report.doctor import calibration_blocks, doctor_report
from tunekit.report.terminal import draw
from tunekit.session.folder import load_run
from tunekit.trial.target import resolve_target
from tunekit.units import MIB

WARNED = 11
FAILED = 12
_EXIT_CODES = {Severity.ERROR: FAILED, Severity.WARNING: WARNED}
_LOADER_FLAGS = ("workers", "prefetch", "batch_mib", "processes")


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Check the machine, show the findings and return an exit code by the worst one.

    Raises:
        UsageError: a flag can't be used, or there is no GPU to calibrate.
        TargetError: the Python that should calibrate it breaks.
    """
    if options.calibrate:
        return _calibrate(command, as_json=options.json)
    check_report_files(options)
    loader = _loader(options)
    with Console(stderr=True).status("checking this machine"):
        checkup = _checkup(options.data, loader, command)
    found = {finding.code for finding in checkup.findings}
    silenced = tuple(code for code in dict.fromkeys(options.ignored) if code in found)
    checkup = without_findings(checkup, options.ignored)
    report = drawn(checkup, lambda seen, _: doctor_report(seen, silenced), "doctor.json", options.full_paths)
    present(options, checkup, report)
    severity = worst(checkup.findings)
    return _EXIT_CODES.get(severity, 0) if severity else 0


def _checkup(data: Sequence[Path], loader: LoaderPlan | None, command: Sequence[str]) -> Checkup:
    load_before = load_average()  # this verb's own work is none of the machine's
    storage = [inspect_storage_apart(path) for path in dict.fromkeys(data)]
    build = ask_torch(command)
    host = with_sandbox(detect.detect_host(torch=None if isinstance(build, TorchAbsent) else build))
    return checkup_of(
        host.changed(load_average=load_before),
        absent=build if isinstance(build, TorchAbsent) else None,
        why_no_command=_why_not_to_run(command),
        storage=storage,
        loader=loader,
    )


def _why_not_to_run(command: Sequence[str]) -> str | None:
    """Return why the command can't be run, as a search would say it."""
    try:
        if command:
            resolve_target(command, Path.cwd())
    except TargetError as error:
        return str(error)
    return None


# --- how the data will be loaded -----------------------------------------------------------


def _loader(options: argparse.Namespace) -> LoaderPlan | None:
    """Return how the data will be loaded, by flags or by a run."""
    given = [name for name in _LOADER_FLAGS if getattr(options, name) is not None]
    if options.run is not None:
        if given:
            names = ", ".join("--" + name.replace("_", "-") for name in given)
            raise UsageError(f"--run {options.run} already gives {names}; drop one or the other")
        return _loader_of_run(options.run, options.tier)
    if options.tier is not None:
        raise UsageError(f"--tier {options.tier} needs --run RUN")
    if not given:
        return None
    if options.workers is None:
        raise UsageError(f"--{given[0].replace('_', '-')} needs --workers N")
    return LoaderPlan(
        num_workers=options.workers,
        prefetch_factor=options.prefetch or 2,
        batch_bytes=None if options.batch_mib is None else max(1, int(options.batch_mib * MIB)),
        processes=options.processes or 1,
    )


def _loader_of_run(folder: Path, wanted: str | None) -> LoaderPlan:
    """Return how a config of a run loads its data: the requested one, else the one nearest to balanced."""
    configs = _configs(load_run(folder))
    name = wanted or next(iter(configs), None)
    if name not in configs:
        has = ", ".join(configs) or "none that was measured"
        raise UsageError(
            f"{folder} has no {name or BASELINE} config (it has: {has}); choose another --tier, or --workers"
        )
    config, loop = configs[name].config, configs[name].loop
    held_bytes = config.batch_bytes(held_per_sample(config, loop))
    batch_bytes = config.batch_bytes(loop.bytes_per_sample)
    return LoaderPlan(
        num_workers=config.num_workers,
        prefetch_factor=config.prefetch_factor or 2,
        batch_bytes=round(batch_bytes) or None,
        held_batch_bytes=round(held_bytes) if held_bytes > batch_bytes else None,
        processes=loop.world_size,
        taken_from=f"{name} of {folder}",
    )


def _configs(run: Run) -> dict[str, Measured]:
    """Return each tier's process with the largest samples, in the answer's order, then the baseline's."""
    tiers = sorted(run.recommendations, key=lambda one: ANSWER_ORDER.index(one.tier))
    seen = {one.tier.value: run.history.evidence(one) for one in tiers}
    seen[BASELINE] = run.history.evidence(None)
    return {name: max(each, key=lambda one: one.loop.bytes_per_sample) for name, each in seen.items() if each}


# --- --calibrate ---------------------------------------------------------------------------


def _calibrate(command: Sequence[str], as_json: bool) -> int:
    """Measure the first GPU's memory use outside tensors, with the Python that the command runs."""
    python = interpreter_of(command) if command else sys.executable
    if python is None:
        raise UsageError(f"can't tell which Python {command[0]!r} runs; give its path after --")
    folder_to_save_in()  # refuse one that can't be written before a minute is spent
    with Console(stderr=True).status("measuring the GPU memory outside torch"):
        measured = calibrate.calibrate(python, detect.detect_host().accelerators, Nvml())
    path: str | None = None
    try:
        path = str(save_calibration(measured))
    finally:  # what was measured is shown where it can't be saved, too
        if as_json:
            sys.stdout.write(to_json(measured) + "\n")
        else:
            draw(Console(highlight=False), calibration_blocks(measured, path))
    return 0
