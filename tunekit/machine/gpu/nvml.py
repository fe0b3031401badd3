"""Queries NVIDIA's driver through pynvml; tests replace it with a scripted double."""

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import PurePath
from types import ModuleType
from typing import Any, Self, TypeVar

from tunekit.records.host import GpuProcess, GpuState, PcieLink

_MIB_IN_MB = 1.048576

_METRICS: Mapping[str, tuple[str, float]] = {
    "graphics_activity_percent": ("NVML_GPM_METRIC_GRAPHICS_UTIL", 1),
    "sm_activity_percent": ("NVML_GPM_METRIC_SM_UTIL", 1),
    "tensor_activity_percent": ("NVML_GPM_METRIC_ANY_TENSOR_UTIL", 1),
    "dram_activity_percent": ("NVML_GPM_METRIC_DRAM_BW_UTIL", 1),
    "pcie_tx_mb_per_s": ("NVML_GPM_METRIC_PCIE_TX_PER_SEC", _MIB_IN_MB),
    "pcie_rx_mb_per_s": ("NVML_GPM_METRIC_PCIE_RX_PER_SEC", _MIB_IN_MB),
}
"""For each field of GpuReading, the driver's metric and the factor that converts its value."""

_SUCCESS = 0


def _gpm_sample(nvml: Any, gpu: Any) -> Any:
    """Return a sample of a GPU's counters; None under MIG, where the whole GPU's counters mislead."""
    with suppress(Exception):  # GPUs without MIG raise here
        if nvml.nvmlDeviceGetMigMode(gpu)[0]:
            return None
    if not nvml.nvmlGpmQueryDeviceSupport(gpu).isSupportedDevice:
        return None
    pointer = nvml.nvmlGpmSampleAlloc()
    try:
        nvml.nvmlGpmSampleGet(gpu, pointer)
    except Exception:
        nvml.nvmlGpmSampleFree(pointer)
        raise
    return pointer


def _gpm_between(nvml: Any, first: Any, second: Any) -> "GpuReading":
    request = nvml.c_nvmlGpmMetricsGet_t()
    request.version = nvml.NVML_GPM_METRICS_GET_VERSION
    known = {field: metric for field, metric in _METRICS.items() if hasattr(nvml, metric[0])}
    request.numMetrics = len(known)
    request.sample1, request.sample2 = first, second
    for place, (name, _) in enumerate(known.values()):
        request.metrics[place].metricId = getattr(nvml, name)
    nvml.nvmlGpmMetricsGet(request)
    figures: dict[str, Any] = {
        field: _figure(request.metrics[place], factor)
        for place, (field, (_, factor)) in enumerate(known.items())
    }
    return GpuReading(**figures)


def _figure(metric: Any, factor: float) -> float | None:
    value = float(metric.value) * factor
    return value if metric.nvmlReturn == _SUCCESS and math.isfinite(value) and value >= 0 else None


Answer = TypeVar("Answer")

_THROTTLE_REASONS = (
    "gpu_idle",
    "applications_clocks_setting",
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
    "display_clock_setting",
    "board_limit",
    "reliability",
)
"""The names of the driver's bits, from the lowest."""

_THROTTLE_QUESTIONS = ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons")
"""Drivers before 535 have only the older name (the second), drivers after CUDA 13 only the newer."""
_TEMPERATURE_QUESTIONS = ("nvmlDeviceGetTemperature", "nvmlDeviceGetTemperatureV")
"""The first is deprecated in the library, the second is missing in older packages."""


@dataclass(frozen=True)
class NvmlDevice:
    """One GPU, or one MIG partition of a GPU, as the driver reports it."""

    index: int
    """The GPU's index in the driver's order; a partition has the index of its GPU."""
    uuid: str
    name: str
    memory_bytes: int | None
    """None if the driver can't report it, or if the GPU has no dedicated memory."""
    compute_capability: str | None = None
    partitions: tuple["NvmlDevice", ...] | None = None
    """The GPU's MIG partitions; None when MIG is off."""
    has_own_memory: bool = True
    """False for an integrated GPU, which uses the machine's memory."""
    used_bytes: int | None = None
    """Memory used by all processes."""


@dataclass(frozen=True)
class GpuReading:
    """What one GPU did at one moment. None means that the driver gave no answer; rates are in decimal MB."""

    utilization_percent: float | None = None
    """Share of the driver's last sampling period (1/6 to 1 s) in which any kernel ran, however small."""
    used_bytes: float | None = None
    """Memory used by all processes on the whole GPU, under MIG too."""
    tree_bytes: float | None = None
    """Memory of the processes asked about; None if the driver does not report it or knows none of them."""
    power_w: float | None = None
    energy_j: float | None = None
    """Energy used since the driver was loaded, by the whole GPU (Volta and newer)."""
    temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    throttle_mask: int | None = None
    """The driver's bits, which `throttle_reasons` translates into names."""
    pcie_tx_mb_per_s: float | None = None
    """Traffic from the GPU over the last 20 ms or, if the GPU's own counters can be read, since the previous
    sample."""
    pcie_rx_mb_per_s: float | None = None
    sm_activity_percent: float | None = None
    """Share of multiprocessors that had work; this and the next three come from the GPU's own counters since
    the previous sample."""
    tensor_activity_percent: float | None = None
    """Share of the time in which the tensor cores were active."""
    dram_activity_percent: float | None = None
    """Memory bandwidth in use, as a share of the device's peak."""
    graphics_activity_percent: float | None = None
    """Share of the time in which anything ran, that is, utilization over the whole interval."""
    process_bytes: Mapping[int, int | None] | None = None
    """Memory by process id; None for a process whose memory the driver does not report."""


class Nvml:
    """The driver's library, whose queries return None on failure instead of raising.

    It is reentrant: nested `with` blocks share it, and it closes with the outermost.
    """

    def __init__(self) -> None:
        self._library: ModuleType | None = None
        self._openings = 0

    def __enter__(self) -> Self:
        self._openings += 1
        if self._openings == 1:
            self._start()
        return self

    def __exit__(self, *error: object) -> None:
        self._openings -= 1
        if self._openings == 0:
            self._release()

    def driver_version(self) -> str | None:
        """Return the driver's version, such as "550.54.15"."""
        library = self._library
        return None if library is None else _answer(lambda: str(library.nvmlSystemGetDriverVersion()))

    def device_count(self) -> int:
        """Return how many GPUs the driver lists; 0 without a driver."""
        library = self._library
        return 0 if library is None else _answer(lambda: int(library.nvmlDeviceGetCount())) or 0

    def device(self, index: int) -> NvmlDevice | None:
        """Return the GPU at this index in the driver's order."""
        return self._asked(index, partial(_whole_gpu, index=index))

    def link(self, index: int) -> PcieLink | None:
        """Return that GPU's link to the CPU; None if the driver does not report it."""
        return self._asked(index, _link)

    def pci_bus_id(self, index: int) -> str | None:
        """Return that GPU's PCI address, such as "00000000:65:00.0"."""
        return self._asked(index, lambda nvml, gpu: _text(nvml.nvmlDeviceGetPciInfo(gpu).busId))

    def state(self, index: int) -> GpuState | None:
        """Return that GPU's current state; under MIG, the state of the whole GPU."""
        return self._asked(index, _state)

    def reading(self, index: int, pcie: bool = True) -> GpuReading:
        """Return the figures that change during training, except those from the GPU's own counters.

        Args:
            index: the GPU's index in the driver's order.
            pcie: whether to ask for the traffic on the link, which takes the driver about 40 ms.
        """
        return self._asked(index, partial(_reading, pcie=pcie)) or GpuReading()

    def gpm_sample(self, index: int) -> object | None:
        """Return a sample of that GPU's own counters; None if they can't be read.

        They can't before Hopper, under MIG, or without permission. A sample uses memory until it is freed.
        """
        return self._asked(index, _gpm_sample)

    def gpm_between(self, first: object, second: object) -> GpuReading | None:
        """Return the GPU's activity between two samples of its counters, at least 100 ms apart."""
        library = self._library
        return None if library is None else _answer(lambda: _gpm_between(library, first, second))

    def gpm_free(self, sample: object) -> None:
        """Free a sample's memory; call it once per sample."""
        library = self._library
        if library is not None:
            _answer(lambda: library.nvmlGpmSampleFree(sample))

    def _start(self) -> None:
        try:
            import pynvml  # noqa: PLC0415  only needed with a GPU

            pynvml.nvmlInit()
        except Exception:  # pynvml has its own exceptions, and AttributeError or OSError on broken drivers
            return
        self._library = pynvml

    def _release(self) -> None:
        library, self._library = self._library, None
        if library is not None:
            _answer(library.nvmlShutdown)

    def _asked(self, index: int, question: Callable[[Any, Any], Answer]) -> Answer | None:
        """Query one GPU; its handle is fetched each time because the handle of a lost GPU goes stale."""
        library = self._library
        if library is None:
            return None
        return _answer(lambda: question(library, library.nvmlDeviceGetHandleByIndex(index)))


def throttle_reasons(mask: int) -> tuple[str, ...]:
    """Return the names of the throttle bits that are set, "bit_<n>" for an unknown one."""
    return tuple(
        _THROTTLE_REASONS[bit] if bit < len(_THROTTLE_REASONS) else f"bit_{bit}"
        for bit in range(mask.bit_length())
        if mask >> bit & 1
    )


def _answer(question: Callable[[], Answer]) -> Answer | None:
    try:
        return question()
    except Exception:  # a lost GPU, a missing symbol and a missing permission all mean "no answer"
        return None


class _Gpu:
    """One GPU; each query that fails returns None."""

    def __init__(self, nvml: Any, handle: Any) -> None:
        self._nvml, self._handle = nvml, handle

    def ask(self, question: str, *constants: str) -> Any:
        """Call a function of the library by name, with constants given by name."""
        nvml, gpu = self._nvml, self._handle
        return _answer(lambda: getattr(nvml, question)(gpu, *(getattr(nvml, name) for name in constants)))

    def first(self, questions: Iterable[str], *constants: str) -> Any:
        """Return the first answer to alternative queries, of which some drivers or packages lack one."""
        answers = (self.ask(question, *constants) for question in questions)
        return next((answer for answer in answers if answer is not None), None)

    def number(self, question: str, *constants: str, unit: int = 1) -> float | None:
        answer = self.ask(question, *constants)
        return None if answer is None else float(answer) / unit

    def positive(self, question: str, *constants: str) -> int | None:
        """Return a positive integer; drivers report 0 for unknown, which becomes None."""
        return int(self.ask(question, *constants) or 0) or None


def _text(answer: str | bytes) -> str:
    return answer.decode() if isinstance(answer, bytes) else str(answer)


def _whole_gpu(nvml: Any, handle: Any, index: int) -> NvmlDevice:
    version = _Gpu(nvml, handle).ask("nvmlDeviceGetCudaComputeCapability")
    capability = None if version is None else f"{version[0]}.{version[1]}"
    device = _described(nvml, handle, index, capability)
    return replace(device, partitions=_partitions(nvml, handle, index, capability))


def _described(nvml: Any, handle: Any, index: int, capability: str | None) -> NvmlDevice:
    memory, has_own_memory = _memory(nvml, handle)
    return NvmlDevice(
        index=index,
        uuid=str(nvml.nvmlDeviceGetUUID(handle)),
        name=str(nvml.nvmlDeviceGetName(handle)),
        memory_bytes=None if memory is None else int(memory.total),
        compute_capability=capability,
        has_own_memory=has_own_memory,
        used_bytes=None if memory is None else int(memory.used),
    )


def _memory(nvml: Any, handle: Any) -> tuple[Any, bool]:
    """Return a GPU's memory (None if the driver can't report it) and whether it has dedicated memory.

    Raises:
        NVMLError: the GPU is lost; after any other failure CUDA still numbers the GPU.
    """
    try:
        return nvml.nvmlDeviceGetMemoryInfo(handle), True
    except nvml.NVMLError as error:
        if error.value == nvml.NVML_ERROR_GPU_IS_LOST:
            raise
        return None, error.value != nvml.NVML_ERROR_NOT_SUPPORTED  # integrated GPUs return this error


def _partitions(nvml: Any, handle: Any, index: int, capability: str | None) -> tuple[NvmlDevice, ...] | None:
    gpu = _Gpu(nvml, handle)
    mode = gpu.ask("nvmlDeviceGetMigMode")
    if mode is None or not mode[0]:
        return None
    slots = gpu.positive("nvmlDeviceGetMaxMigDeviceCount") or 0
    found = (_answer(partial(_partition, nvml, handle, slot, index, capability)) for slot in range(slots))
    return tuple(partition for partition in found if partition is not None)


def _partition(nvml: Any, gpu: Any, slot: int, index: int, capability: str | None) -> NvmlDevice:
    return _described(nvml, nvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, slot), index, capability)


def _link(nvml: Any, handle: Any) -> PcieLink | None:
    gpu = _Gpu(nvml, handle)
    link = {
        "lanes": gpu.positive("nvmlDeviceGetCurrPcieLinkWidth"),
        "max_lanes": gpu.positive("nvmlDeviceGetMaxPcieLinkWidth"),
    }
    return PcieLink(**link) if any(link.values()) else None


def _state(nvml: Any, handle: Any) -> GpuState | None:
    gpu = _Gpu(nvml, handle)
    now = _reading(nvml, handle, pcie=False)
    ecc_errors = gpu.number(
        "nvmlDeviceGetTotalEccErrors", "NVML_MEMORY_ERROR_TYPE_UNCORRECTED", "NVML_VOLATILE_ECC"
    )
    state = GpuState(
        used_bytes=None if now.used_bytes is None else int(now.used_bytes),
        utilization_percent=now.utilization_percent,
        power_w=now.power_w,
        power_limit_w=gpu.number("nvmlDeviceGetEnforcedPowerLimit", unit=1000) or None,
        temperature_c=now.temperature_c,
        sm_clock_mhz=now.sm_clock_mhz,
        max_sm_clock_mhz=gpu.positive("nvmlDeviceGetMaxClockInfo", "NVML_CLOCK_SM"),
        throttle_reasons=throttle_reasons(now.throttle_mask or 0),
        ecc_errors=None if ecc_errors is None else int(ecc_errors),
        processes=_processes(nvml, now.process_bytes),
    )
    return None if state == GpuState() else state


def _reading(nvml: Any, handle: Any, pcie: bool) -> GpuReading:
    gpu = _Gpu(nvml, handle)
    rates, memory = gpu.ask("nvmlDeviceGetUtilizationRates"), gpu.ask("nvmlDeviceGetMemoryInfo")
    temperature_c = gpu.first(_TEMPERATURE_QUESTIONS, "NVML_TEMPERATURE_GPU")
    throttle_mask = gpu.first(_THROTTLE_QUESTIONS)
    traffic = partial(gpu.number, "nvmlDeviceGetPcieThroughput", unit=1000)
    return GpuReading(
        utilization_percent=None if rates is None else float(rates.gpu),
        used_bytes=None if memory is None else float(memory.used),
        process_bytes=_by_process(gpu.ask("nvmlDeviceGetComputeRunningProcesses")),
        power_w=gpu.number("nvmlDeviceGetPowerUsage", unit=1000),
        energy_j=gpu.number("nvmlDeviceGetTotalEnergyConsumption", unit=1000),
        temperature_c=None if temperature_c is None else float(temperature_c),
        sm_clock_mhz=gpu.number("nvmlDeviceGetClockInfo", "NVML_CLOCK_SM"),
        throttle_mask=None if throttle_mask is None else int(throttle_mask),
        pcie_tx_mb_per_s=traffic("NVML_PCIE_UTIL_TX_BYTES") if pcie else None,
        pcie_rx_mb_per_s=traffic("NVML_PCIE_UTIL_RX_BYTES") if pcie else None,
    )


def _by_process(rows: Iterable[Any] | None) -> dict[int, int | None] | None:
    """Sum the memory by process; under MIG a process is listed once per partition that it uses."""
    if rows is None:
        return None
    found: dict[int, int | None] = {}
    for row in rows:
        pid, used = int(row.pid), row.usedGpuMemory
        before = found.get(pid, 0)
        found[pid] = None if before is None or used is None else before + int(used)
    return found


def _processes(nvml: Any, process_bytes: Mapping[int, int | None] | None) -> tuple[GpuProcess, ...] | None:
    if process_bytes is None:
        return None
    return tuple(
        GpuProcess(pid=pid, used_bytes=used, name=_answer(partial(_process_name, nvml, pid)))
        for pid, used in process_bytes.items()
        if pid > 0
    )


def _process_name(nvml: Any, pid: int) -> str | None:
    # Only the program's name: its folder may be another user's home, which is private.
    return PurePath(_text(nvml.nvmlSystemGetProcessName(pid))).name or None
