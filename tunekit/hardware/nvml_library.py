"""The real management library of NVIDIA's driver, through pynvml."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from threading import Lock
from types import ModuleType, TracebackType
from typing import Any, Self, TypeVar

from tunekit.hardware.nvml import GpmActivity, GpuReading, NvmlDevice, throttle_reasons
from tunekit.hardware.nvml_gpm import GpmCounters
from tunekit.records.host import GpuProcess, GpuState, PcieLink

Answer = TypeVar("Answer")


class NvmlLibrary:
    """The real library; without the package, the library or a driver it shows no devices.

    Threads may share it: it is started by the first that opens it and released by the last.
    """

    def __init__(self) -> None:
        self._library: ModuleType | None = None
        self._gpm: GpmCounters | None = None
        self._openings = 0
        self._lock = Lock()

    def __enter__(self) -> Self:
        """Import pynvml and start NVML; any failure leaves a library that shows no devices."""
        with self._lock:
            self._openings += 1
            if self._openings == 1:
                self._start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release NVML if nobody else has it open."""
        with self._lock:
            self._openings -= 1
            if self._openings == 0:
                self._release()

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
        return self._asked(index, partial(_whole_gpu, index=index))

    def used_bytes(self, index: int) -> int | None:
        """Return the memory that is taken on that GPU."""
        return self._asked(index, lambda nvml, gpu: int(nvml.nvmlDeviceGetMemoryInfo(gpu).used))

    def link(self, index: int) -> PcieLink | None:
        """Return that GPU's link to the CPU."""
        return self._asked(index, _link)

    def pci_bus_id(self, index: int) -> str | None:
        """Return where that GPU sits, such as "00000000:65:00.0"."""
        return self._asked(index, lambda nvml, gpu: _text(nvml.nvmlDeviceGetPciInfo(gpu).busId))

    def state(self, index: int) -> GpuState | None:
        """Return what that GPU says of itself now."""
        return self._asked(index, _state)

    def reading(self, index: int, pcie: bool = True) -> GpuReading | None:
        """Return the figures that change while it trains."""
        return self._asked(index, partial(_reading, pcie=pcie))

    def gpm_sample(self, index: int) -> object | None:
        """Return where that GPU's own counters stand, None where they can't be read."""
        gpm = self._gpm
        return None if gpm is None else self._asked(index, lambda nvml, gpu: gpm.sample(index, gpu))

    def gpm_between(self, index: int, first: object, second: object) -> GpmActivity | None:
        """Return what happened between two samples of that GPU."""
        gpm = self._gpm
        return None if gpm is None else _answer(lambda: gpm.between(index, first, second))

    def gpm_free(self, sample: object) -> None:
        """Give a sample's memory back."""
        gpm = self._gpm
        if gpm is not None:
            _answer(lambda: gpm.free(sample))

    def _start(self) -> None:
        try:
            import pynvml  # noqa: PLC0415  a machine without a GPU need not pay for it

            pynvml.nvmlInit()
        except Exception:  # pynvml raises its own tree, and AttributeError or OSError on broken drivers
            return
        self._gpm = GpmCounters(pynvml)
        self._library = pynvml

    def _release(self) -> None:
        library, self._library = self._library, None
        gpm, self._gpm = self._gpm, None
        if gpm is not None:
            _answer(gpm.free_all)
        if library is not None:
            _answer(library.nvmlShutdown)

    def _asked(self, index: int, question: Callable[[Any, Any], Answer]) -> Answer | None:
        """Return the answer of one GPU; its handle is fetched each time, for a lost GPU's goes stale."""
        library = self._library
        if library is None:
            return None
        return _answer(lambda: question(library, library.nvmlDeviceGetHandleByIndex(index)))


def _answer(question: Callable[[], Answer]) -> Answer | None:
    try:
        return question()
    except Exception:  # a lost GPU, a missing symbol, a permission: all of them are "no answer"
        return None


def _number(question: Callable[..., Any], *arguments: Any) -> float | None:
    return _answer(lambda: float(question(*arguments)))


def _positive(question: Callable[[], Any]) -> int | None:
    """Return a whole number; drivers say 0 where they don't know."""
    return _answer(lambda: int(question())) or None


def _text(answer: str | bytes) -> str:
    return answer.decode() if isinstance(answer, bytes) else str(answer)


def _whole_gpu(nvml: Any, handle: Any, index: int) -> NvmlDevice:
    version = _answer(lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
    capability = None if version is None else f"{version[0]}.{version[1]}"
    return _described(nvml, handle, index, capability, _partitions(nvml, handle, index, capability))


def _described(
    nvml: Any, handle: Any, index: int, capability: str | None, partitions: tuple[NvmlDevice, ...] | None
) -> NvmlDevice:
    memory_bytes, has_own_memory = _memory(nvml, handle)
    return NvmlDevice(
        index=index,
        uuid=str(nvml.nvmlDeviceGetUUID(handle)),
        name=str(nvml.nvmlDeviceGetName(handle)),
        memory_bytes=memory_bytes,
        compute_capability=capability,
        partitions=partitions,
        has_own_memory=has_own_memory,
    )


def _memory(nvml: Any, handle: Any) -> tuple[int | None, bool]:
    """Return a GPU's memory, None where the driver fails to tell, and whether it has any of its own.

    Raises:
        NVMLError: the GPU is lost; any other failure leaves a GPU that CUDA still numbers.
    """
    try:
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).total), True
    except nvml.NVMLError as error:
        if error.value == nvml.NVML_ERROR_GPU_IS_LOST:
            raise
        return None, error.value != nvml.NVML_ERROR_NOT_SUPPORTED  # which integrated GPUs answer


def _partitions(nvml: Any, handle: Any, index: int, capability: str | None) -> tuple[NvmlDevice, ...] | None:
    mode = _answer(lambda: nvml.nvmlDeviceGetMigMode(handle))
    if mode is None or not mode[0]:
        return None
    slots = _answer(lambda: int(nvml.nvmlDeviceGetMaxMigDeviceCount(handle))) or 0
    found = (_answer(partial(_partition, nvml, handle, slot, index, capability)) for slot in range(slots))
    return tuple(partition for partition in found if partition is not None)


def _partition(nvml: Any, gpu: Any, slot: int, index: int, capability: str | None) -> NvmlDevice:
    handle = nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot)
    instances = _answer(
        lambda: (
            int(nvml.nvmlDeviceGetGpuInstanceId(handle)),
            int(nvml.nvmlDeviceGetComputeInstanceId(handle)),
        )
    )
    return replace(_described(nvml, handle, index, capability, None), instances=instances)


def _link(nvml: Any, gpu: Any) -> PcieLink | None:
    link = PcieLink(
        generation=_positive(lambda: nvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu)),
        lanes=_positive(lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(gpu)),
        max_generation=_positive(lambda: nvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu)),
        max_lanes=_positive(lambda: nvml.nvmlDeviceGetMaxPcieLinkWidth(gpu)),
    )
    return (
        None if link == PcieLink(generation=None, lanes=None, max_generation=None, max_lanes=None) else link
    )


def _state(nvml: Any, gpu: Any) -> GpuState | None:
    rates = _answer(lambda: nvml.nvmlDeviceGetUtilizationRates(gpu))
    limit_w = _watts(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu))
    state = GpuState(
        used_bytes=_answer(lambda: int(nvml.nvmlDeviceGetMemoryInfo(gpu).used)),
        utilization_percent=None if rates is None else float(rates.gpu),
        power_w=_watts(lambda: nvml.nvmlDeviceGetPowerUsage(gpu)),
        power_limit_w=limit_w or None,
        temperature_c=_temperature_c(nvml, gpu),
        sm_clock_mhz=_number(lambda: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
        max_sm_clock_mhz=_positive(lambda: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM)),
        throttle_reasons=throttle_reasons(_throttle_mask(nvml, gpu) or 0),
        ecc_errors=_answer(
            lambda: int(
                nvml.nvmlDeviceGetTotalEccErrors(
                    gpu, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, nvml.NVML_VOLATILE_ECC
                )
            )
        ),
        processes=_processes(nvml, gpu),
    )
    return None if state == GpuState() else state


def _reading(nvml: Any, gpu: Any, pcie: bool) -> GpuReading | None:
    rates = _answer(lambda: nvml.nvmlDeviceGetUtilizationRates(gpu))
    reading = GpuReading(
        utilization_percent=None if rates is None else float(rates.gpu),
        memory_utilization_percent=None if rates is None else float(rates.memory),
        used_bytes=_number(lambda: nvml.nvmlDeviceGetMemoryInfo(gpu).used),
        process_bytes=_process_bytes(nvml, gpu),
        power_w=_watts(lambda: nvml.nvmlDeviceGetPowerUsage(gpu)),
        temperature_c=_temperature_c(nvml, gpu),
        sm_clock_mhz=_number(lambda: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
        memory_clock_mhz=_number(lambda: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM)),
        throttle_mask=_throttle_mask(nvml, gpu),
        pcie_tx_mb_per_s=_throughput(nvml, gpu, "NVML_PCIE_UTIL_TX_BYTES") if pcie else None,
        pcie_rx_mb_per_s=_throughput(nvml, gpu, "NVML_PCIE_UTIL_RX_BYTES") if pcie else None,
    )
    return None if reading == GpuReading() else reading


def _watts(milliwatts: Callable[[], Any]) -> float | None:
    answer = _number(milliwatts)
    return None if answer is None else answer / 1000


def _temperature_c(nvml: Any, gpu: Any) -> float | None:
    # The older question is to go from the library, the newer is not in older packages.
    for name in ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV"):
        answer = _answer(partial(_sensor, nvml, gpu, name))
        if answer is not None:
            return answer
    return None


def _sensor(nvml: Any, gpu: Any, name: str) -> float:
    return float(getattr(nvml, name)(gpu, nvml.NVML_TEMPERATURE_GPU))


def _throttle_mask(nvml: Any, gpu: Any) -> int | None:
    # Of one thing two names: drivers before 535 have the older, those after CUDA 13 the newer.
    for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
        answer = _answer(partial(_mask, nvml, gpu, name))
        if answer is not None:
            return answer
    return None


def _mask(nvml: Any, gpu: Any, name: str) -> int:
    return int(getattr(nvml, name)(gpu))


def _throughput(nvml: Any, gpu: Any, counter: str) -> float | None:
    kilobytes = _number(lambda: nvml.nvmlDeviceGetPcieThroughput(gpu, getattr(nvml, counter)))
    return None if kilobytes is None else kilobytes / 1000


def _process_bytes(nvml: Any, gpu: Any) -> dict[int, int | None] | None:
    return _answer(lambda: _summed(nvml.nvmlDeviceGetComputeRunningProcesses(gpu)))


def _summed(rows: Iterable[Any]) -> dict[int, int | None]:
    """Return the memory by process; under MIG a process is listed once for each partition that it uses."""
    found: dict[int, int | None] = {}
    for row in rows:
        pid, used = int(row.pid), row.usedGpuMemory
        before = found.get(pid, 0)
        found[pid] = None if before is None or used is None else before + int(used)
    return found


def _processes(nvml: Any, gpu: Any) -> tuple[GpuProcess, ...] | None:
    found = _process_bytes(nvml, gpu)
    if found is None:
        return None
    return tuple(
        GpuProcess(pid=pid, used_bytes=used, name=_answer(partial(_process_name, nvml, pid)))
        for pid, used in found.items()
        if pid > 0
    )


def _process_name(nvml: Any, pid: int) -> str | None:
    # Its folder may be another user's home, which is nobody's business in a report.
    return PurePath(_text(nvml.nvmlSystemGetProcessName(pid))).name or None
