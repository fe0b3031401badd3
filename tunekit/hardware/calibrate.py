"""Measures what a GPU's memory holds beside torch's tensors, in a process of the training's own Python."""

import contextlib
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any, Literal, Self

from pydantic import ValidationError

from tunekit import __version__
from tunekit.errors import TargetError, UsageError
from tunekit.hardware.merge import is_same_uuid
from tunekit.hardware.nvml import Nvml
from tunekit.records.calibration import Calibration
from tunekit.records.host import Accelerator
from tunekit.units import MIB

_SCRIPT = Path(__file__).with_name("calibration_probe.py")

TIMEOUT_S = 180.0
_SETTLE_S = 0.5
"""From the last kernel to the driver's figure of the process."""
_END_S = 10.0
_LOOK_S = 0.2
_REMEDY = (
    "run it on the machine with the GPU, with the Python that trains there: tunekit doctor --calibrate -- "
)


def calibrate(
    python: str,
    gpus: Sequence[Accelerator],
    nvml: Nvml,
    timeout_s: float = TIMEOUT_S,
    environment: Mapping[str, str] | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Calibration:
    """Return what the first GPU that torch sees holds beside torch's tensors.

    Args:
        python: the interpreter of the training environment.
        gpus: of this machine, in the order in which CUDA numbers them.
        nvml: their driver.
        timeout_s: how long the process may measure; then it is killed with all that it started.
        environment: its environment variables; this process's by default.
        sleep: waits for some seconds.

    Raises:
        UsageError: there is no GPU that can be measured.
        TargetError: the interpreter or its torch breaks.
    """
    with nvml, _Probe(python, environment) as probe:
        driver = nvml.driver_version()
        before = {gpu.index: nvml.used_bytes(gpu.index) for gpu in gpus if "nvml" in gpu.seen_by}
        reply = probe.reply(timeout_s)
        if "problem" in reply:
            raise UsageError(f"no CUDA GPU to calibrate: {reply['problem']} ({python}); {_REMEDY}{python}")
        if "broken" in reply:
            raise TargetError(f"{python} could not measure: {reply['broken']}")
        uuid, reserved_bytes = reply.pop("uuid", None), reply.pop("reserved_bytes", None)
        sleep(_SETTLE_S)
        taken = _taken(nvml, _place_of(gpus, uuid), before, probe.pid, reserved_bytes)
    if taken is None:
        raise UsageError(
            f"the driver does not tell how much of {reply.get('device_name')} is taken, so its context can't "
            "be measured; `nvidia-smi` should list the GPU with its memory"
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
        raise TargetError(f"{python} told nonsense of its GPU: {str(error).splitlines()[0]}") from error


def _taken(
    nvml: Nvml, place: int | None, before: Mapping[int, int | None], pid: int, reserved_bytes: object
) -> tuple[int, Literal["process", "device"]] | None:
    """Return the bytes that the process takes on its GPU, and who told; None where the driver does not.

    In a container the driver numbers processes otherwise than this one does, or hides them: then by what the
    whole GPU has more than before.
    """
    if place is None or not isinstance(reserved_bytes, int):
        return None
    reading = nvml.reading(place, pcie=False)
    of_process = (reading.process_bytes or {}).get(pid) if reading is not None else None
    if of_process is not None and of_process >= reserved_bytes:
        return of_process, "process"
    used_bytes, used_before = nvml.used_bytes(place), before.get(place)
    if used_bytes is None or used_before is None:
        return None
    return max(reserved_bytes, used_bytes - used_before), "device"


def _place_of(gpus: Sequence[Accelerator], uuid: str | None) -> int | None:
    """Return the place in the driver's order of torch's first GPU: by UUID, else the first one."""
    shown = [gpu for gpu in gpus if "nvml" in gpu.seen_by]
    same = (gpu for gpu in shown if is_same_uuid(gpu.uuid, uuid))
    found = next(same, shown[0] if shown else None)
    return None if found is None else found.index


class _Probe:
    """The measuring process: it tells its figures and stays until it is left.

    Args:
        python: the interpreter.
        environment: its environment variables; this process's by default.
    """

    def __init__(self, python: str, environment: Mapping[str, str] | None) -> None:
        self._python = python
        self._environment = environment
        self._errors: IO[bytes] = TemporaryFile()  # noqa: SIM115 - closed on exit

    @property
    def pid(self) -> int:
        """Its number on this machine."""
        return self._process.pid

    def __enter__(self) -> Self:
        try:
            self._process = subprocess.Popen(
                [self._python, str(_SCRIPT)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=self._environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._errors.close()
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise TargetError(f"{self._python} can't be started: {reason}") from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_END_S if kind is None else 0)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def reply(self, timeout_s: float) -> dict[str, Any]:
        """Return the object that it tells.

        Raises:
            TargetError: it tells none in time, or ends without one.
        """
        assert self._process.stdout is not None
        end_s, told = time.monotonic() + timeout_s, b""
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            while (left_s := end_s - time.monotonic()) > 0:
                if selector.select(min(left_s, _LOOK_S)):
                    more = os.read(self._process.stdout.fileno(), MIB)
                    told = (told + more)[-MIB:]
                    found = _object_in(told)
                    if found is not None:
                        return found
                    if more:
                        continue
                    selector.unregister(self._process.stdout)
                if self._process.poll() is not None:
                    raise TargetError(
                        f"{self._python} ended with status {self._process.returncode} while it measured: "
                        f"{self._last_words()}"
                    )
        raise TargetError(f"{self._python} did not measure within {timeout_s:g} s")

    def _last_words(self) -> str:
        self._errors.seek(max(0, self._errors.seek(0, os.SEEK_END) - MIB))
        lines = self._errors.read().decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it wrote nothing")


def _object_in(told: bytes) -> dict[str, Any] | None:
    """Return the last whole line that is a JSON object."""
    for line in reversed(told.split(b"\n")[:-1]):
        if line.startswith(b"{"):
            with contextlib.suppress(ValueError, RecursionError):
                return dict(json.loads(line))
    return None
