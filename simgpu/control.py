"""A running simulation from outside: its controls, and a process that holds memory of its devices."""

import ctypes
import re
from pathlib import Path

from simgpu.errors import SimgpuError

CONTROLS = ("clock_share", "throttle_mask", "xid", "ecc_errors", "outside_bytes")
"""What can be set of a device: `sim_control` in src/core.h."""

_UNITS = {"": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class Core:
    """The part that all simulated libraries share, in this process.

    It reads SIMGPU, SIMGPU_STATE and SIMGPU_DEVICES from the environment when the first call is made.
    """

    def __init__(self, libraries: Path) -> None:
        path = libraries / "libsimgpu.so"
        try:
            self._library = ctypes.CDLL(str(path))
        except OSError as error:
            raise SimgpuError(f"{path} can't be loaded: {error}") from error
        self._library.sim_control_set.argtypes = (ctypes.c_int, ctypes.c_char_p, ctypes.c_double)
        self._library.sim_take.argtypes = (ctypes.c_int, ctypes.c_int64)
        self._library.sim_take.restype = ctypes.c_bool
        self._library.sim_used_bytes.restype = ctypes.c_int64

    def set(self, device: int, key: str, value: float) -> None:
        """Change a control of a device, named by its place in the driver's order.

        Raises:
            SimgpuError: There is no such device or control.
        """
        self._check(device)
        if self._library.sim_control_set(device, key.encode(), value) != 0:
            raise SimgpuError(f"a device has no control '{key}', but {', '.join(CONTROLS)}")

    def take(self, device: int, size: int) -> None:
        """Hold memory of a device for as long as this process lives.

        Raises:
            SimgpuError: There is no such device, or it has not as much.
        """
        self._check(device)
        if not self._library.sim_take(device, size):
            used = self._library.sim_used_bytes(device)
            raise SimgpuError(f"device {device} has no {size} bytes left: {used} are in use")

    def _check(self, device: int) -> None:
        self._library.sim_init()
        count = ctypes.c_int.in_dll(self._library, "sim_device_count").value
        if not 0 <= device < count:
            raise SimgpuError(f"there is no device {device}; there are {count}, counted from 0")


def parsed_bytes(text: str) -> int:
    """A size as people write it: `3GiB`, `512MiB`, `4096`.

    Raises:
        ValueError: It isn't one.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?) *(\w*)", text)
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"a size is a number with KiB, MiB, GiB or nothing behind it, got '{text}'")
    return int(float(found[1]) * _UNITS[found[2]])
