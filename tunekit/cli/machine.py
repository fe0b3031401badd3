"""The machine that a verb works on: detected, and looked over for what would spoil its figures."""

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tunekit import __version__

if TYPE_CHECKING:
    from tunekit.hardware.torch_build import TorchAbsent
    from tunekit.records.checkup import Checkup, LoaderPlan
    from tunekit.records.finding import Finding
    from tunekit.records.host import Host, TorchBuild
    from tunekit.records.storage import Storage


def host_here(command: Sequence[str] = ()) -> "Host":
    """Return this machine.

    Where the driver's library shows no GPU although there seems to be one, the torch of the command's
    Python is asked too, which takes seconds.
    """
    from tunekit.hardware.detect import detect_host, has_gpu_file  # noqa: PLC0415 - --help must be instant
    from tunekit.hardware.torch_build import TorchAbsent  # noqa: PLC0415

    host = detect_host()
    if host.accelerators or not has_gpu_file():
        return host
    build = ask_torch(command)
    return host if isinstance(build, TorchAbsent) else detect_host(torch=build)


def ask_torch(command: Sequence[str]) -> "TorchBuild | TorchAbsent":
    """Return the torch of the Python that the command runs, of this one without a command."""
    from tunekit.hardware.interpreter import interpreter_of  # noqa: PLC0415
    from tunekit.hardware.torch_build import TorchAbsent, torch_build  # noqa: PLC0415

    python = interpreter_of(command) if command else sys.executable
    if python is None:
        return TorchAbsent(
            f"which Python {command[0]!r} runs is not known before it runs", is_python_known=False
        )
    return torch_build(python)


def look_over(
    host: "Host",
    absent: "TorchAbsent | None" = None,
    why_no_command: str | None = None,
    storage: "Sequence[Storage]" = (),
    loader: "LoaderPlan | None" = None,
) -> "Checkup":
    """Return a checkup of the machine with its findings.

    Args:
        host: as it was detected.
        absent: why the training environment's torch is not known, if it was asked.
        why_no_command: why the training command can't be run, if it can't.
        storage: what each data set lies on, as far as they were looked at.
        loader: how the data will be loaded, if it is known.
    """
    from datetime import UTC, datetime  # noqa: PLC0415

    from tunekit.hardware.detect import cpp_compiler  # noqa: PLC0415
    from tunekit.hardware.device import AUTO, device_profile  # noqa: PLC0415
    from tunekit.hardware.profiles import load_profiles  # noqa: PLC0415
    from tunekit.recommend.diagnose.environment import VARIABLES  # noqa: PLC0415
    from tunekit.recommend.diagnose.machine import machine_findings  # noqa: PLC0415
    from tunekit.records.checkup import Checkup  # noqa: PLC0415

    profile, _ = device_profile(AUTO, host, load_profiles())
    checkup = Checkup(
        tunekit_version=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        host=host,
        why_no_torch=absent.reason if absent else None,
        is_python_known=absent is None or absent.is_python_known,
        why_no_command=why_no_command,
        storage=tuple(storage),
        loader=loader,
        environment={name: _text(os.environ[name]) for name in VARIABLES if name in os.environ},
        compiler=_text(compiler) if (compiler := cpp_compiler(os.environ)) else None,
    )
    return checkup.model_copy(update={"findings": machine_findings(checkup, profile)})


def warnings_of(host: "Host") -> "tuple[Finding, ...]":
    """Return what would spoil figures that are measured here: warnings and errors, no notes."""
    from tunekit.records.finding import Severity  # noqa: PLC0415

    findings = look_over(host).findings
    return tuple(finding for finding in findings if finding.severity is not Severity.INFO)


def _text(value: str) -> str:
    """Return what the environment holds, with bytes that are no text as escapes: JSON can't hold them."""
    return os.fsencode(value).decode("utf-8", "backslashreplace")
