"""Facts about a GPU model, and about the machine that tunekit runs on."""

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.base import Record


class Instance(Record):
    """One rentable machine with this GPU."""

    provider: str
    name: str
    gpus: PositiveInt
    vcpus: PositiveInt | None
    ram_gb: PositiveFloat | None
    """Memory as the provider states it, in decimal GB."""
    usd_per_h: PositiveFloat
    spot_usd_per_h: str | None = None
    """As quoted: spot is a range by zone and day, not one number."""
    region: str | None
    as_of: str
    source: str


class FactGroup(Record):
    """Where a group of a profile's figures comes from."""

    source: str
    confidence: str


class Profile(Record):
    """Facts about one GPU model. Unknown is None, never a guess."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9-]*$")
    device_names: tuple[str, ...] = Field(min_length=1)
    """Names by which drivers report the device."""
    aliases: tuple[str, ...] = ()
    """Other ids that `--gpu` takes for it."""
    architecture: str | None
    memory_bytes: PositiveInt | None
    """Memory as the driver reports it, not the marketing figure."""
    torch_memory_bytes: PositiveInt | None
    """Memory as torch sees it: the least that was seen."""
    bandwidth_gb_per_s: PositiveFloat | None
    fp32_tflops: PositiveFloat | None
    tf32_tflops: PositiveFloat | None
    """All dense; tensor cores with FP32 accumulation."""
    fp16_tflops: PositiveFloat | None
    bf16_tflops: PositiveFloat | None
    fp8_tflops: PositiveFloat | None
    achievable_bf16_fraction: PositiveFloat | None
    """Best matmul rate measured in public, as a share of the dense peak."""
    compute_capability: str | None
    multiprocessors: PositiveInt | None
    tdp_w: PositiveFloat | None
    pcie: str | None
    nvlink_gb_per_s: PositiveFloat | None
    native_precisions: tuple[str, ...]
    """Of fp32, tf32, bf16, fp16, fp8: those the device computes without emulation."""
    compile_supported: bool | None
    compile_note: str | None = None
    torch_builds: str | None = None
    notes: str | None = None
    facts: FactGroup
    instances: tuple[Instance, ...] = ()

    @property
    def is_cpu(self) -> bool:
        """Whether this is the profile of training without an accelerator."""
        return self.id == "cpu"


class Accelerator(Record):
    """One GPU of this machine, as the driver reports it."""

    index: NonNegativeInt
    name: str
    memory_bytes: PositiveInt
    compute_capability: str | None
    """Such as "9.0"; None when the driver did not tell."""
    driver: str | None
    profile_id: str | None
    """The profile that its name matches, None for an unknown device."""


class Host(Record):
    """What this machine, or the container on it, really offers."""

    hostname: str
    cpus: PositiveInt
    """CPUs that affinity and cgroup quota allow."""
    cpus_total: PositiveInt
    cpu_name: str | None
    ram_limit_bytes: PositiveInt
    """The smaller of the cgroup's limit and the machine's memory."""
    ram_total_bytes: PositiveInt
    shm_bytes: NonNegativeInt | None
    """Size of /dev/shm; None without one."""
    accelerators: tuple[Accelerator, ...]
    platform: str
    python_version: str

    def per_rank(self, world_size: int) -> "Host":
        """Return the share of this machine that each of the processes that train together can use."""
        if world_size == 1:
            return self
        return self.model_copy(
            update={
                "cpus": max(1, self.cpus // world_size),
                "ram_limit_bytes": max(1, self.ram_limit_bytes // world_size),
                "shm_bytes": None if self.shm_bytes is None else self.shm_bytes // world_size,
            }
        )
