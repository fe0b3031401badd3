"""Measures the GPU memory outside torch's tensors in the training's Python; saves and loads the results."""

import contextlib
import os
import re
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from tunekit import __version__
from tunekit.errors import RecordError, TargetError, UsageError
from tunekit.machine.child_probe import ChildProbe, NoReplyError
from tunekit.machine.gpu.nvml import GpuReading, Nvml
from tunekit.machine.gpu.visible import is_same_uuid
from tunekit.machine.profiles import device_slug, named_folders
from tunekit.records.codec import read_json, write_json
from tunekit.records.host import Accelerator
from tunekit.records.prediction import Calibration

CALIBRATIONS_VARIABLE = "TUNEKIT_CALIBRATIONS"
"""Environment variable that names the folders to use instead of the default, separated as in PATH; new
calibrations go to the first one."""

_SCRIPT = Path(__file__).with_name("calibration_probe.py")
TIMEOUT_S = 180.0
_SETTLE_S = 0.5
"""Wait between the last kernel and asking the driver for the process's memory."""
_REMEDY = (
    "run it on the machine with the GPU, with the Python that trains there: tunekit doctor --calibrate -- "
)


def calibration_folders() -> list[Path]:
    """Return the folders that calibrations are read from; new ones are saved in the first.

    They are those of $TUNEKIT_CALIBRATIONS, else ~/.cache/tunekit/calibration, which need not exist.

    Raises:
        UsageError: $TUNEKIT_CALIBRATIONS names something that is not a folder.
    """
    folders = named_folders(CALIBRATIONS_VARIABLE)
    if not folders:
        with contextlib.suppress(RuntimeError):  # a container's user may have no home
            folders.append(Path.home() / ".cache" / "tunekit" / "calibration")
    return folders


def load_calibrations() -> tuple[Calibration, ...]:
    """Return every calibration, the newest first.

    They only narrow default assumptions, so a file that can't be read is skipped.

    Raises:
        UsageError: $TUNEKIT_CALIBRATIONS names something that is not a folder.
    """
    found = []
    for folder in filter(os.path.isdir, calibration_folders()):
        for path in sorted(folder.glob("*.json")):
            with contextlib.suppress(RecordError):
                found.append(read_json(path, Calibration))
    return tuple(sorted(found, key=lambda one: one.created_at, reverse=True))


def folder_to_save_in() -> Path:
    """Return the folder for new calibrations, after creating it if needed and writing a test file to it.

    Raises:
        UsageError: there is no such folder, or it can't be written to.
    """
    folders = calibration_folders()
    if not folders:
        raise UsageError(
            f"this user has no home folder to save a calibration in; name a folder in {CALIBRATIONS_VARIABLE}"
        )
    try:
        folders[0].mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folders[0]) as file:
            file.write(b"tried")
    except OSError as error:
        raise UsageError(
            f"calibrations can't be saved in {str(folders[0])!r} ({error.strerror}); make it writable, "
            f"or name another folder in {CALIBRATIONS_VARIABLE}"
        ) from error
    return folders[0]


def save_calibration(calibration: Calibration) -> Path:
    """Write a calibration over any earlier one of the same device and torch, and return its path.

    Raises:
        UsageError: there is no folder for it, or the folder can't be written to.
    """
    folder = folder_to_save_in()
    torch = re.sub(r"[^0-9a-z.]+", "-", calibration.torch_version.lower())
    path = folder / f"{device_slug(calibration.device_name)}-torch-{torch}.json"
    write_json(path, calibration)
    return path


def calibrate(
    python: str,
    gpus: Sequence[Accelerator],
    nvml: Nvml,
    timeout_s: float = TIMEOUT_S,
    environment: Mapping[str, str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Calibration:
    """Measure the memory outside torch's tensors on the first GPU that torch sees.

    Args:
        python: the interpreter of the training environment.
        gpus: this machine's GPUs, in the order in which CUDA numbers them.
        nvml: their driver.
        timeout_s: after this long, the measuring process and everything it started are killed.
        environment: its environment variables; by default those of this process.
        sleep: waits for some seconds.

    Raises:
        UsageError: there is no GPU that can be measured.
        TargetError: the interpreter or its torch fails.
    """
    shown = [gpu for gpu in gpus if "nvml" in gpu.seen_by]
    try:
        with nvml, ChildProbe([python, str(_SCRIPT)], environment, stays=True) as probe:
            driver = nvml.driver_version()
            before = {gpu.index: nvml.reading(gpu.index, pcie=False).used_bytes for gpu in shown}
            reply = _require_figures(probe.reply(timeout_s), python)
            uuid, reserved_bytes = reply.pop("uuid", None), reply.pop("reserved_bytes", None)
            sleep(_SETTLE_S)
            # Torch's first GPU by its UUID, else the driver's first.
            same = (gpu.index for gpu in shown if is_same_uuid(gpu.uuid, uuid))
            place = next(same, shown[0].index if shown else None)
            taken = None
            if place is not None:
                taken = _taken(nvml.reading(place, pcie=False), before[place], probe.pid, reserved_bytes)
    except NoReplyError as error:
        raise TargetError(f"{python}, asked to measure its GPU, {error}") from error
    if taken is None:
        raise UsageError(
            f"the driver does not report how much memory of {reply.get('device_name')} is in use, so its "
            "context can't be measured; `nvidia-smi` should list the GPU with its memory"
        )
    taken_bytes, seen_by = taken
    try:
        return Calibration(
            tunekit_version=__version__,
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            driver=driver,
            context_bytes=max(0, taken_bytes - reserved_bytes),
            context_seen_by=seen_by,
            **reply,
        )
    except (ValidationError, TypeError) as error:
        raise TargetError(
            f"{python} gave no usable answer about its GPU: {str(error).splitlines()[0]}"
        ) from error


def _require_figures(reply: dict[str, Any], python: str) -> dict[str, Any]:
    if "problem" in reply:
        raise UsageError(f"no CUDA GPU to calibrate: {reply['problem']} ({python}); {_REMEDY}{python}")
    if "broken" in reply:
        raise TargetError(f"{python} could not measure: {reply['broken']}")
    return reply


def _taken(
    now: GpuReading, used_before: float | None, pid: int, reserved_bytes: object
) -> tuple[int, Literal["process", "device"]] | None:
    """Return the bytes that the process uses on its GPU and the source of the figure, or None if unknown.

    In a container the driver may use other process ids or hide processes; the growth of the whole GPU's
    used memory then serves instead.
    """
    if not isinstance(reserved_bytes, int):
        return None
    of_process = (now.process_bytes or {}).get(pid)
    if of_process is not None and of_process >= reserved_bytes:
        return of_process, "process"
    if now.used_bytes is None or used_before is None:
        return None
    return max(reserved_bytes, int(now.used_bytes - used_before)), "device"
