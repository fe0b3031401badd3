"""A running simulation from outside: its controls, and a process that holds memory of its devices."""

import ctypes
import math
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
        self._library.sim_context.restype = ctypes.c_bool
        self._library.sim_used_bytes.restype = ctypes.c_int64

    def set(self, device: int, key: str, value: float) -> None:
        """Change a control of a device, named by its place in the driver's order.

        Raises:
            SimgpuError: There is no such device or control, or no control has such a value.
        """
        self._check(device)
        if not (math.isfinite(value) and value >= 0):
            raise SimgpuError(f"{key} is 0 or more, got {value}")
        if self._library.sim_control_set(device, key.encode(), value) != 0:
            raise SimgpuError(f"a device has no control '{key}', but {', '.join(CONTROLS)}")

    def take(self, device: int, size: int) -> None:
        """Hold memory of a device, beside this process's context on it, for as long as the process lives.

        Raises:
            SimgpuError: There is no such device, CUDA doesn't see it in this process, or it has not as much.
        """
        self._check(device)
        ctypes.c_int.in_dll(self._library, "sim_current").value = self._ordinal(device)
        if not (self._library.sim_context() and self._library.sim_take(device, size)):
            used = self._library.sim_used_bytes(device)
            raise SimgpuError(f"device {device} has no {size} bytes left: {used} are in use")

    def _ordinal(self, device: int) -> int:
        """CUDA's number of a device in this process."""
        count = self._library.sim_cuda_count()
        order = list((ctypes.c_int * count).in_dll(self._library, "sim_cuda_order")) if count else []
        if device not in order:
            raise SimgpuError(
                f"CUDA doesn't see device {device} here; CUDA_VISIBLE_DEVICES says what it sees"
            )
        return order.index(device)

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
