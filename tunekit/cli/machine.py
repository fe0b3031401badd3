"""The machine that a verb works on: detected, and checked for what would spoil its figures."""

import os
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from tunekit import __version__
from tunekit.diagnose.machine import machine_findings
from tunekit.diagnose.software import VARIABLES
from tunekit.machine import detect
from tunekit.machine.device import CPU, usual_profile
from tunekit.machine.gpu.visible import is_order_known
from tunekit.machine.host import torch_build
from tunekit.machine.host.interpreter import interpreter_of
from tunekit.machine.host.torch_build import TorchAbsent
from tunekit.machine.profiles import load_profiles
from tunekit.records.checkup import Checkup, LoaderPlan, Storage
from tunekit.records.finding import Finding, Severity
from tunekit.records.host import Host, TorchBuild
from tunekit.records.profile import Profile
from tunekit.trial.launch import best_sandbox


def host_here(
    command: Sequence[str] = (),
    profiles: Mapping[str, Profile] | None = None,
    working_dir: Path | None = None,
) -> Host:
    """Return this machine.

    Where the driver's library shows no GPU although there seems to be one, and where it shows several kinds,
    which CUDA may number otherwise, the torch of the command's Python is asked too, which takes seconds.

    Args:
        command: the training command; without one this Python's torch is asked.
        profiles: those that name the GPUs; every one that is found by default.
        working_dir: where the command runs; the present folder by default.
    """
    host = detect.detect_host(profiles=profiles)
    is_hidden = not host.accelerators and detect.has_gpu_file()
    if is_hidden or not is_order_known(host.gpu_models, os.environ):
        build = ask_torch(command, working_dir)
        if not isinstance(build, TorchAbsent):
            host = detect.detect_host(profiles=profiles, torch=build)
    return with_sandbox(host)


def with_sandbox(host: Host) -> Host:
    """Return the machine with what keeps the user's files from trials that run in the present folder."""
    here = Path.cwd()
    place = here if os.access(here, os.W_OK) else Path(tempfile.gettempdir())
    return host.changed(sandbox=best_sandbox(place))


def ask_torch(command: Sequence[str], working_dir: Path | None = None) -> TorchBuild | TorchAbsent:
    """Return the torch of the Python that the command runs; without a command, of this Python.

    This Python may have none: tunekit can live in its own environment.
    """
    if not command:
        here = torch_build.torch_build(sys.executable)
        return replace(here, has_python_answered=False) if isinstance(here, TorchAbsent) else here
    python = interpreter_of(command, working_dir)
    if python is None:
        return TorchAbsent(f"can't tell which Python {command[0]!r} runs", has_python_answered=False)
    return torch_build.torch_build(python)


def checkup_of(
    host: Host,
    absent: TorchAbsent | None = None,
    why_no_command: str | None = None,
    storage: Sequence[Storage] = (),
    loader: LoaderPlan | None = None,
) -> Checkup:
    """Return a checkup of the machine with its findings.

    Args:
        host: as it was detected.
        absent: why the training environment's torch is not known, if it was asked.
        why_no_command: why the training command can't be run, if it can't.
        storage: what each data set lies on, as far as they were looked at.
        loader: how the data will be loaded, if it is known.
    """
    compiler = (detect.c_compiler if host.compiles_with_triton else detect.cpp_compiler)(os.environ)
    profiles = load_profiles()
    first = next(iter(host.accelerators), None)
    profile = usual_profile(first, profiles) if first is not None else profiles[CPU]
    checkup = Checkup(
        tunekit_version=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        host=host,
        why_no_torch=absent.reason if absent else None,
        has_python_answered=absent is None or absent.has_python_answered,
        why_no_command=why_no_command,
        other_tunekit=_other_tunekit(),
        storage=tuple(storage),
        loader=loader,
        environment=variables_here(VARIABLES),
        compiler=_text(compiler) if compiler else None,
    )
    return checkup.changed(findings=machine_findings(checkup, profile))


def warnings_of(host: Host, gpu_option: str, ignored: Collection[str] = ()) -> tuple[Finding, ...]:
    """Return what would spoil measurements here: warnings and errors, no notes.

    Args:
        host: as it was detected.
        gpu_option: what `--gpu` says; with "cpu" the GPUs are hidden from the target, and so from this.
        ignored: codes of findings that the user silenced.
    """
    hides_gpus = gpu_option.strip().lower() == CPU
    seen = checkup_of(host.without_gpus() if hides_gpus else host)
    hidden = {*ignored, *(["gpus-hidden"] if hides_gpus else [])}
    return tuple(
        finding
        for finding in seen.findings
        if finding.severity is not Severity.INFO and finding.code not in hidden
    )


def _other_tunekit() -> str | None:
    """Return the version of the package index's `tunekit`; this project is `tunekit-torch`."""
    try:
        found = distribution("tunekit")
    except PackageNotFoundError:
        return None
    return found.version if found.read_text("direct_url.json") is None else None  # else it is from a clone


def variables_here(names: Sequence[str]) -> dict[str, str]:
    """Return those environment variables that are set."""
    return {name: _text(os.environ[name]) for name in names if name in os.environ}


def _text(value: str) -> str:
    """Return a variable's value with undecodable bytes escaped, as JSON can't hold them."""
    return os.fsencode(value).decode("utf-8", "backslashreplace")
