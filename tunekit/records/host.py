"""The machine that tunekit runs on, or the container on it: what it really offers."""

from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.base import Record

SandboxKind = Literal["overlay", "landlock", "none"]
"""What of the kernel's keeps trials from the user's files; "none" leaves the agent's file guard."""


class Sandbox(Record):
    """The kernel's net under a trial's writes, as it was found to hold."""

    kind: SandboxKind
    reasons: dict[str, str] = Field(default_factory=dict)
    """Why a better kind does not hold here, by its name."""


class PcieLink(Record):
    """A GPU's link to the CPU, now and at its best in this slot."""

    lanes: PositiveInt | None
    max_lanes: PositiveInt | None


class GpuProcess(Record):
    """One process that computes on a GPU."""

    pid: PositiveInt
    """As the driver numbers it; in a container it may be the host's number."""
    used_bytes: NonNegativeInt | None
    """None where the driver does not tell (containers, WDDM)."""
    name: str | None = None


class GpuState(Record):
    """What a GPU said of itself at one moment. None is a question without an answer."""

    used_bytes: NonNegativeInt | None = None
    """Memory taken by anyone, the driver's own share included."""
    utilization_percent: NonNegativeFloat | None = None
    """Share of the last sampling period in which any kernel ran."""
    power_w: NonNegativeFloat | None = None
    power_limit_w: PositiveFloat | None = None
    temperature_c: float | None = None
    sm_clock_mhz: NonNegativeFloat | None = None
    max_sm_clock_mhz: PositiveFloat | None = None
    throttle_reasons: tuple[str, ...] = ()
    """Why the clock is lower than it could be, by NVML's names: "sw_power_cap", "hw_thermal_slowdown", ..."""
    ecc_errors: NonNegativeInt | None = None
    """Uncorrected memory errors since the driver was loaded."""
    processes: tuple[GpuProcess, ...] | None = None


class Accelerator(Record):
    """One GPU of this machine, as the driver or torch reports it."""

    index: NonNegativeInt
    """Its place in the driver's order; torch's where only torch works."""
    name: str
    memory_bytes: PositiveInt | None
    """None where neither the driver nor torch tells."""
    compute_capability: str | None
    """Such as "9.0"; None where neither reports it."""
    driver: str | None
    profile_id: str | None
    """The profile that its name matches, None for an unknown device."""
    seen_by: tuple[Literal["nvml", "torch"], ...] = ("nvml",)
    uuid: str | None = None
    pci_bus_id: str | None = None
    """Where it sits, such as "00000000:65:00.0"; a partition has its GPU's."""
    is_partition: bool = False
    """Whether it is a MIG partition of a GPU."""
    numa_node: NonNegativeInt | None = None
    pcie: PcieLink | None = None
    state: GpuState | None = None

    @property
    def usable_bytes(self) -> int | None:
        """Its memory without what was taken when the machine was looked at; None where that is not known."""
        taken_bytes = self.state.used_bytes if self.state else None
        return self.memory_bytes and max(1, self.memory_bytes - (taken_bytes or 0))


class TorchDevice(Record):
    """One GPU as torch sees it."""

    type: str
    """"cuda" (ROCm too) or "mps"."""
    name: str
    memory_bytes: PositiveInt | None
    compute_capability: str | None
    uuid: str | None = None


class TorchBuild(Record):
    """The torch that a Python interpreter has, and what it can use."""

    python: str
    """The interpreter."""
    python_version: str
    version: str
    cuda_version: str | None
    """None for a build without CUDA."""
    hip_version: str | None
    cudnn_version: str | None
    architectures: tuple[str, ...]
    """What the build holds code for: "sm_80", "compute_90", ..."""
    devices: tuple[TorchDevice, ...]
    threads: PositiveInt
    """What torch.get_num_threads() answers in a fresh process."""
    float32_matmul_precision: str | None
    problem: str | None = None
    """Why torch can't use the GPU, in its own words."""


class Host(Record):
    """What this machine, or the container on it, really offers."""

    hostname: str
    cpus: PositiveInt
    """CPUs that affinity and cgroup quota allow."""
    cpus_total: PositiveInt
    cpus_affinity: PositiveInt | None = None
    """CPUs that the process may be scheduled on."""
    cpu_quota: PositiveFloat | None = None
    """CPUs' worth of time that the cgroup grants; None if free."""
    cpu_name: str | None
    cpu_bf16_native: bool | None = None
    """Whether the CPU multiplies bf16 in hardware; None where the kernel lists no features."""
    is_virtual: bool | None = None
    """Whether a hypervisor runs it; None where the kernel lists no features (Arm lists none of that)."""
    numa_nodes: PositiveInt | None = None
    ram_limit_bytes: PositiveInt
    """The smaller of the cgroup's limit and the machine's memory."""
    ram_total_bytes: PositiveInt
    ram_available_bytes: NonNegativeInt | None = None
    """Of the limit, what is not taken now; page cache counts as free."""
    shm_bytes: NonNegativeInt | None
    """Size of /dev/shm; None without one."""
    shm_used_bytes: NonNegativeInt | None = None
    open_files_limit: PositiveInt | None = None
    """Files that one process may have open, before it asks for more."""
    load_average: NonNegativeFloat | None = None
    """Processes that wanted a CPU in the last minute, of the whole machine."""
    accelerators: tuple[Accelerator, ...]
    gpu_models: tuple[str, ...] = ()
    """Every model that the driver shows, by name, of hidden GPUs too."""
    platform: str
    python_version: str
    torch: TorchBuild | None = None
    """Of the training environment, where it was asked."""
    sandbox: Sandbox | None = None
    """What keeps the user's files from trials, where it was tried."""

    @property
    def nvml_indexes(self) -> tuple[int, ...]:
        """Places in the driver's order of the GPUs that it shows; MIG partitions of one GPU share a place."""
        return tuple(dict.fromkeys(gpu.index for gpu in self.accelerators if "nvml" in gpu.seen_by))

    @property
    def shm_free_bytes(self) -> int | None:
        """What was free of /dev/shm when the machine was looked at; None without one."""
        return None if self.shm_bytes is None else max(0, self.shm_bytes - (self.shm_used_bytes or 0))

    @property
    def compiles_with_triton(self) -> bool:
        """Whether torch.compile makes Triton kernels, as it does for NVIDIA's and AMD's GPUs."""
        seen = self.torch.devices if self.torch else ()
        has_cuda = any(device.type == "cuda" for device in seen)
        return any("nvml" in gpu.seen_by or has_cuda for gpu in self.accelerators)

    def without_gpus(self) -> "Host":
        """Return this machine as a process sees it that all GPUs are hidden from."""
        torch = None if self.torch is None else self.torch.changed(devices=())
        return self.changed(accelerators=(), gpu_models=(), torch=torch)

    def per_rank(self, world_size: int) -> "Host":
        """Return the share of this machine that each rank can use."""
        if world_size == 1:
            return self
        return self.changed(
            cpus=max(1, self.cpus // world_size),
            ram_limit_bytes=max(1, self.ram_limit_bytes // world_size),
            shm_bytes=None if self.shm_bytes is None else self.shm_bytes // world_size,
            shm_used_bytes=None if self.shm_used_bytes is None else -(-self.shm_used_bytes // world_size),
        )
