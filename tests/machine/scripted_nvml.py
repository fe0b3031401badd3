"""A driver that answers from a script."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from tunekit.machine.gpu.nvml import GpuReading, NvmlDevice
from tunekit.records.host import GpuState, PcieLink, TorchBuild, TorchDevice
from tunekit.units import GIB

T4 = NvmlDevice(0, "GPU-11111111-aaaa", "Tesla T4", 15 * GIB, "7.5")
L4 = NvmlDevice(1, "GPU-11112222-bbbb", "NVIDIA L4", 22 * GIB, "8.9")
H200 = NvmlDevice(2, "GPU-33333333-cccc", "NVIDIA H200", 140 * GIB, "9.0")
UNKNOWN = NvmlDevice(0, "GPU-44444444-dddd", "NVIDIA L20", 45 * GIB, "8.9")

SLICES = tuple(
    NvmlDevice(0, f"MIG-{name}", "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 4864 << 20, "8.0", used_bytes=1 << 20)
    for number, name in ((7, "one"), (8, "two"))
)
SLICED = NvmlDevice(0, "GPU-55555555-eeee", "NVIDIA A100-SXM4-40GB", 40 * GIB, "8.0", SLICES)

Answer = TypeVar("Answer")
NOTHING: Mapping[int, Any] = {}


def torch_device(gpu: NvmlDevice, **told: object) -> TorchDevice:
    """A GPU as torch tells of it, which writes UUIDs bare."""
    known = {
        "type": "cuda",
        "name": gpu.name,
        "memory_bytes": gpu.memory_bytes,
        "compute_capability": gpu.compute_capability,
        "uuid": gpu.uuid.removeprefix("GPU-").removeprefix("MIG-"),
    }
    return TorchDevice.model_validate({**known, **told})


def torch_with(*devices: TorchDevice) -> TorchBuild:
    """A build of torch that sees these devices, in this order."""
    return TorchBuild(
        python="/env/bin/python",
        python_version="3.12.1",
        version="2.13.0",
        cuda_version="13.0",
        hip_version=None,
        cudnn_version=None,
        architectures=(),
        devices=devices,
        threads=4,
        float32_matmul_precision=None,
    )


class ScriptedNvml:
    """Shows these devices, in this order; None is a GPU that does not answer.

    Of a list of answers each is given once, the last one for ever; a None in it is a driver that fails for
    a moment. What is left out is a question that the driver never answers: no permission, or no such GPU.

    Args:
        devices: what the driver shows.
        driver: its version.
        readings: by device the readings that it answers one after another.
        states: by device what it says of itself.
        links: by device its link to the CPU.
        bus_ids: by device where it sits.
        activities: by device with counters of its own, what they saw before each sample; None is no sample.
    """

    def __init__(
        self,
        devices: Sequence[NvmlDevice | None],
        driver: str | None = "550.54.15",
        readings: Mapping[int, Sequence[GpuReading | None]] = NOTHING,
        states: Mapping[int, GpuState] = NOTHING,
        links: Mapping[int, PcieLink] = NOTHING,
        bus_ids: Mapping[int, str] = NOTHING,
        activities: Mapping[int, Sequence[GpuReading | None]] = NOTHING,
    ) -> None:
        self.devices = devices
        self.driver = driver
        self.readings = {index: list(answers) for index, answers in readings.items()}
        self.states = states
        self.links = links
        self.bus_ids = bus_ids
        self.activities = {index: list(answers) for index, answers in activities.items()}
        self.openings = 0
        self.samples: list[object] = []
        """Samples that nobody gave back so far."""
        self.asked_for_pcie: list[bool] = []

    @property
    def is_open(self) -> bool:
        return self.openings > 0

    def __enter__(self) -> "ScriptedNvml":
        self.openings += 1
        return self

    def __exit__(self, *error: Any) -> None:
        assert self.is_open
        self.openings -= 1

    def driver_version(self) -> str | None:
        assert self.is_open
        return self.driver

    def device_count(self) -> int:
        assert self.is_open
        return len(self.devices)

    def device(self, index: int) -> NvmlDevice | None:
        assert self.is_open
        return self.devices[index]

    def link(self, index: int) -> PcieLink | None:
        assert self.is_open
        return self.links.get(index)

    def pci_bus_id(self, index: int) -> str | None:
        assert self.is_open
        return self.bus_ids.get(index)

    def state(self, index: int) -> GpuState | None:
        assert self.is_open
        return self.states.get(index)

    def reading(self, index: int, pcie: bool = True) -> GpuReading:
        assert self.is_open
        self.asked_for_pcie.append(pcie)
        reading = _next(self.readings.get(index, [None])) or GpuReading()
        if pcie:
            return reading
        return replace(reading, pcie_tx_mb_per_s=None, pcie_rx_mb_per_s=None)

    def gpm_sample(self, index: int) -> object | None:
        assert self.is_open
        activity = _next(self.activities.get(index, [None]))
        if activity is None:
            return None
        sample = ScriptedSample(index, activity)
        self.samples.append(sample)
        return sample

    def gpm_between(self, first: object, second: object) -> GpuReading | None:
        assert first in self.samples
        assert second in self.samples
        assert isinstance(first, ScriptedSample)
        assert isinstance(second, ScriptedSample)
        assert first.index == second.index
        return second.activity

    def gpm_free(self, sample: object) -> None:
        assert self.is_open
        self.samples.remove(sample)


class ScriptedSample:
    """Where the counters of a GPU stood, and what they saw since they were asked the time before."""

    def __init__(self, index: int, activity: GpuReading) -> None:
        self.index = index
        self.activity = activity


def _next(answers: list[Answer]) -> Answer:
    return answers.pop(0) if answers[1:] else answers[0]
