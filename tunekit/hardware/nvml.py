"""NVIDIA's management library behind a small protocol, so that a scripted double can stand in for it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import ModuleType, TracebackType
from typing import Any, Protocol, Self, TypeVar

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class NvmlDevice:
    """One GPU, or one MIG partition of a GPU, as the driver reports it."""

    index: int
    """The GPU's place in the driver's order; a partition has its GPU's."""
    uuid: str
    name: str
    memory_bytes: int | None
    """None for a GPU without memory of its own, which uses the machine's."""
    compute_capability: str | None = None
    partitions: tuple["NvmlDevice", ...] | None = None
    """The MIG partitions made so far; None when MIG is off."""


class Nvml(Protocol):
    """What tunekit asks of the driver. No question raises: no answer is None, no driver is no devices."""

    def __enter__(self) -> Self:
        """Open the library."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the library."""
        ...

    def driver_version(self) -> str | None:
        """Return the driver's version, such as "550.54.15"."""
        ...

    def device_count(self) -> int:
        """Return how many GPUs the driver shows, 0 without a driver."""
        ...

    def device(self, index: int) -> NvmlDevice | None:
        """Return the GPU at this place of the driver's order, None if it does not answer."""
        ...

    def used_bytes(self, index: int) -> int | None:
        """Return the memory that is taken on that GPU, by anyone; None if it does not answer."""
        ...


class NvmlLibrary:
    """The real library, through pynvml; without the package, the library or a driver it shows no devices."""

    def __init__(self) -> None:
        self._library: ModuleType | None = None

    def __enter__(self) -> Self:
        """Import pynvml and start NVML; any failure leaves a library that shows no devices."""
        try:
            import pynvml  # noqa: PLC0415  a machine without a GPU need not pay for it

            pynvml.nvmlInit()
        except Exception:  # pynvml raises its own tree, and AttributeError or OSError on broken drivers
            self._library = None
        else:
            self._library = pynvml
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release NVML."""
        library, self._library = self._library, None
        if library is not None:
            _answer(library.nvmlShutdown)

    def driver_version(self) -> str | None:
        """Return the driver's version."""
        library = self._library
        return None if library is None else _answer(lambda: str(library.nvmlSystemGetDriverVersion()))

    def device_count(self) -> int:
        """Return how many GPUs the driver shows."""
        library = self._library
        return 0 if library is None else _answer(lambda: int(library.nvmlDeviceGetCount())) or 0

    def device(self, index: int) -> NvmlDevice | None:
        """Return the GPU at this place of the driver's order."""
        library = self._library
        if library is None:
            return None
        return _answer(lambda: _whole_gpu(library, library.nvmlDeviceGetHandleByIndex(index), index))

    def used_bytes(self, index: int) -> int | None:
        """Return the memory that is taken on that GPU."""
        library = self._library
        if library is None:
            return None
        handle = partial(library.nvmlDeviceGetHandleByIndex, index)
        return _answer(lambda: int(library.nvmlDeviceGetMemoryInfo(handle()).used))


def _answer(question: Callable[[], Answer]) -> Answer | None:
    try:
        return question()
    except Exception:  # a lost GPU, a missing symbol, a permission: all of them are "no answer"
        return None


def _whole_gpu(nvml: Any, handle: Any, index: int) -> NvmlDevice:
    version = _answer(lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
    capability = None if version is None else f"{version[0]}.{version[1]}"
    return _described(nvml, handle, index, capability, _partitions(nvml, handle, index, capability))


def _described(
    nvml: Any, handle: Any, index: int, capability: str | None, partitions: tuple[NvmlDevice, ...] | None
) -> NvmlDevice:
    return NvmlDevice(
        index=index,
        uuid=str(nvml.nvmlDeviceGetUUID(handle)),
        name=str(nvml.nvmlDeviceGetName(handle)),
        memory_bytes=_memory_bytes(nvml, handle),
        compute_capability=capability,
        partitions=partitions,
    )


def _memory_bytes(nvml: Any, handle: Any) -> int | None:
    try:
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).total)
    except nvml.NVMLError as error:
        # Integrated GPUs answer so; a GPU that is lost answers otherwise and must not pass for one.
        if error.value == nvml.NVML_ERROR_NOT_SUPPORTED:
            return None
        raise


def _partitions(nvml: Any, handle: Any, index: int, capability: str | None) -> tuple[NvmlDevice, ...] | None:
    mode = _answer(lambda: nvml.nvmlDeviceGetMigMode(handle))
    if mode is None or not mode[0]:
        return None
    slots = _answer(lambda: int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))) or 0
    found = (_answer(partial(_partition, nvml, handle, slot, index, capability)) for slot in range(slots))
    return tuple(partition for partition in found if partition is not None)


def _partition(nvml: Any, gpu: Any, slot: int, index: int, capability: str | None) -> NvmlDevice:
    return _described(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot), index, capability, None)
