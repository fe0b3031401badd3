"""The machine or container that tunekit runs in, and what it really offers."""

from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.base import Record

SandboxKind = Literal["overlay", "landlock", "none"]
"""The kernel feature that keeps trials from changing the user's files; with "none" only the agent's file
guard does."""


class Sandbox(Record):
    """The kernel's protection against a trial's writes, as tested on this machine."""

    kind: SandboxKind
    reasons: dict[str, str] = Field(default_factory=dict)
    """Why each better kind doesn't work here, by its name."""


class PcieLink(Record):
    """A GPU's link to the CPU: its current lanes and the most that this slot allows."""

    lanes: PositiveInt | None
    max_lanes: PositiveInt | None


class GpuProcess(Record):
    """One process that computes on a GPU."""

    pid: PositiveInt
    """Process id as the driver reports it; in a container it may be the host's id."""
    used_bytes: NonNegativeInt | None
    """None if the driver doesn't report it (containers, WDDM)."""
    name: str | None = None


class GpuState(Record):
    """A GPU's state at one moment, as its driver reports it. None means no answer."""

    used_bytes: NonNegativeInt | None = None
    """Memory in use by all processes and by the driver."""
    utilization_percent: NonNegativeFloat | None = None
    """Share of the last sampling period in which any kernel ran."""
    power_w: NonNegativeFloat | None = None
    power_limit_w: PositiveFloat | None = None
    temperature_c: float | None = None
    sm_clock_mhz: NonNegativeFloat | None = None
    max_sm_clock_mhz: PositiveFloat | None = None
    throttle_reasons: tuple[str, ...] = ()
    """Why the clock is lower than it could be, under NVML's names: "sw_power_cap", "hw_thermal_slowdown",
    ..."""
    ecc_errors: NonNegativeInt | None = None
    """Uncorrected memory errors since the driver was loaded."""
    processes: tuple[GpuProcess, ...] | None = None


class Accelerator(Record):
    """One GPU of this machine, as the driver or torch reports it."""

    index: NonNegativeInt
    """Its index in the driver's order, or in torch's if only torch works."""
    name: str
    memory_bytes: PositiveInt | None
    """None if neither the driver nor torch reports it."""
    compute_capability: str | None
    """Such as "9.0"; None if neither reports it."""
    driver: str | None
    profile_id: str | None
    """The profile that its name matches, None for an unknown device."""
    seen_by: tuple[Literal["nvml", "torch"], ...] = ("nvml",)
    uuid: str | None = None
    pci_bus_id: str | None = None
    """Its PCI address, such as "00000000:65:00.0"; a partition has its GPU's."""
    is_partition: bool = False
    """Whether it is a MIG partition of a GPU."""
    numa_node: NonNegativeInt | None = None
    pcie: PcieLink | None = None
    state: GpuState | None = None

    @property
    def usable_bytes(self) -> int | None:
        """Its memory minus what was in use when the machine was examined; None if unknown."""
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
    """The torch of one Python interpreter, and what it can use."""

    python: str
    """Path of the interpreter."""
    python_version: str
    version: str
    cuda_version: str | None
    """None for a build without CUDA."""
    hip_version: str | None
    cudnn_version: str | None
    architectures: tuple[str, ...]
    """Architectures that the build contains code for: "sm_80", "compute_90", ..."""
    devices: tuple[TorchDevice, ...]
    threads: PositiveInt
    """What torch.get_num_threads() returns in a fresh process."""
    float32_matmul_precision: str | None
    problem: str | None = None
    """Why torch can't use the GPU, in torch's words."""


class Host(Record):
    """What this machine or container really offers."""

    hostname: str
    cpus: PositiveInt
    """CPUs that the affinity mask and the cgroup quota allow."""
    cpus_total: PositiveInt
    cpus_affinity: PositiveInt | None = None
    """CPUs that the process may be scheduled on."""
    cpu_quota: PositiveFloat | None = None
    """CPU time per second that the cgroup grants; None if unlimited."""
    cpu_name: str | None
    cpu_bf16_native: bool | None = None
    """Whether the CPU multiplies bf16 in hardware; None if the kernel lists no features."""
    is_virtual: bool | None = None
    """Whether it is a virtual machine; None if the kernel doesn't list that feature (on Arm it never
    does)."""
    numa_nodes: PositiveInt | None = None
    ram_limit_bytes: PositiveInt
    """The smaller of the cgroup's limit and the machine's memory."""
    ram_total_bytes: PositiveInt
    ram_available_bytes: NonNegativeInt | None = None
    """The part of the limit that isn't in use; page cache counts as free."""
    shm_bytes: NonNegativeInt | None
    """Size of /dev/shm; None without one."""
    shm_used_bytes: NonNegativeInt | None = None
    open_files_limit: PositiveInt | None = None
    """Soft limit on open files per process."""
    load_average: NonNegativeFloat | None = None
    """One-minute load average of the whole machine: mean number of processes that want a CPU."""
    accelerators: tuple[Accelerator, ...]
    gpu_models: tuple[str, ...] = ()
    """Names of all GPU models that the driver lists, hidden GPUs included."""
    platform: str
    python_version: str
    torch: TorchBuild | None = None
    """torch of the training environment, if it was queried."""
    sandbox: Sandbox | None = None
    """What protects the user's files from trials, if it was tested."""

    @property
    def nvml_indexes(self) -> tuple[int, ...]:
        """Driver indexes of the visible GPUs; MIG partitions of one GPU share an index."""
        return tuple(dict.fromkeys(gpu.index for gpu in self.accelerators if "nvml" in gpu.seen_by))

    @property
    def shm_free_bytes(self) -> int | None:
        """Free space in /dev/shm when the machine was examined; None without one."""
        return None if self.shm_bytes is None else max(0, self.shm_bytes - (self.shm_used_bytes or 0))

    @property
    def compiles_with_triton(self) -> bool:
        """Whether torch.compile generates Triton kernels, as it does for NVIDIA and AMD GPUs."""
        seen = self.torch.devices if self.torch else ()
        has_cuda = any(device.type == "cuda" for device in seen)
        return any("nvml" in gpu.seen_by or has_cuda for gpu in self.accelerators)

    def without_gpus(self) -> "Host":
        """Return this machine as seen by a process with all GPUs hidden."""
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
