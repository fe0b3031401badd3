"""What a process needs to find simulated devices: its environment variables and its state folder."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from simgpu.devices import FOLDER, known_devices
from simgpu.environment import Environment
from simgpu.errors import SimgpuError

SHARED_MEMORY = Path("/dev/shm")
STATE_PREFIX = "psm_simgpu-"
"""Of state folders there: as Python names its own shared memory, which sandboxes let through."""
DEFAULT_DEVICES = "a10g"
_DEVICES_FILE = "devices"
"""In a state folder: what the commands that use it are to find without being told again."""


@dataclass(frozen=True)
class Simulation:
    """Devices, and where the processes that use them share their state."""

    environment: Environment
    devices: str = DEFAULT_DEVICES
    """As SIMGPU has it: `a10g,t4:memory_bytes=3GiB`."""
    state: Path | None = None
    """A folder; None: the user's own, /dev/shm/psm_simgpu-UID."""
    trace: Path | None = None
    """A folder, in which each process writes what its devices do; None: nothing is written."""

    def __post_init__(self) -> None:
        check_devices(self.devices)

    def variables(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """What is set for a process, given what it would inherit."""
        libraries = str(self.environment.built.libraries)
        variables = {
            "LD_LIBRARY_PATH": _before(libraries, inherited.get("LD_LIBRARY_PATH")),
            "PATH": _before(str(self.environment.python.parent), inherited.get("PATH")),
            "SIMGPU": self.devices,
            "SIMGPU_DEVICES": inherited.get("SIMGPU_DEVICES", str(FOLDER)),
            "TRITON_LIBCUDA_PATH": libraries,  # before the libcuda that ldconfig knows of
        }
        if self.state is not None:
            variables["SIMGPU_STATE"] = str(self.state.absolute())
        if self.trace is not None:
            variables["SIMGPU_TRACE"] = str(self.trace.absolute())
        return variables


def devices_of(state: Path | None) -> str:
    """The devices that a command was last run on in this state folder, or the usual ones."""
    try:
        return (state / _DEVICES_FILE).read_text(encoding="utf-8") if state else DEFAULT_DEVICES
    except OSError:
        return DEFAULT_DEVICES


def keep_devices(state: Path, devices: str) -> None:
    """Leave word in a state folder of the devices that it is used with.

    Raises:
        SimgpuError: It can't be written.
    """
    try:
        state.mkdir(exist_ok=True)
        (state / _DEVICES_FILE).write_text(devices, encoding="utf-8")
    except OSError as error:
        raise SimgpuError(f"the state folder {state} can't be used: {error.strerror}") from error


def check_devices(devices: str) -> None:
    """Check that there is a file of each device that a text for SIMGPU names.

    Raises:
        SimgpuError: One has none; the message lists those that there are.
    """
    folder = Path(os.environ.get("SIMGPU_DEVICES", FOLDER))
    for one in devices.split(","):
        name = one.partition(":")[0]
        if not (Path(name) if "/" in name else folder / f"{name}.conf").is_file():
            known = ", ".join(known_devices(folder)) or "none"
            raise SimgpuError(f"there is no device file of '{name}' in {folder}; there are: {known}")


@contextmanager
def state_folder() -> Iterator[Path]:
    """A folder for the state of one simulation, in shared memory; removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix=STATE_PREFIX, dir=SHARED_MEMORY))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _before(first: str, rest: str | None) -> str:
    return f"{first}{os.pathsep}{rest}" if rest else first
