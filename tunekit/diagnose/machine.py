"""The facts about a machine before training that its checks use."""

from dataclasses import dataclass
from typing import ClassVar

from tunekit.diagnose.registry import findings_of, worst_first
from tunekit.records.checkup import Checkup, LoaderPlan, Storage, StorageKind
from tunekit.records.finding import Finding
from tunekit.records.host import Accelerator, GpuState, Host
from tunekit.records.profile import Profile


@dataclass(frozen=True)
class Machine:
    """A whole machine."""

    checkup: Checkup
    host: Host
    loader: LoaderPlan | None
    environment: dict[str, str]
    profile: Profile | None
    """The profile of its first GPU, or of its CPU; None if no profile matches."""

    @property
    def nvidia_gpus(self) -> tuple[Accelerator, ...]:
        """The GPUs that NVIDIA's driver lists."""
        return tuple(gpu for gpu in self.host.accelerators if "nvml" in gpu.seen_by)

    @property
    def has_tf32(self) -> bool:
        """Whether its tensor cores are known to compute in TF32."""
        return self.profile is not None and "tf32" in self.profile.native_precisions


@dataclass(frozen=True)
class Gpu:
    """One of a machine's GPUs."""

    called: ClassVar = "the GPU"
    gpu: Accelerator
    machine: Machine

    @property
    def name(self) -> str:
        """Its name in findings, with the driver's index."""
        return f"GPU {self.gpu.index}"

    @property
    def state(self) -> GpuState:
        """The driver's current readings; empty if it gave none."""
        return self.gpu.state or GpuState()

    @property
    def profile(self) -> Profile | None:
        """The machine's profile; None for a GPU of a different model from its first."""
        return self.machine.profile if self.gpu.name == self.machine.host.accelerators[0].name else None


@dataclass(frozen=True)
class DataSet:
    """One data set and the storage it is on."""

    called: ClassVar = "the data set"
    storage: Storage
    ram_bytes: int
    """RAM that may be used."""

    @property
    def name(self) -> str:
        """Its path."""
        return self.storage.path


def machine_findings(checkup: Checkup, profile: Profile | None) -> tuple[Finding, ...]:
    """Return the findings about a machine, the worst first.

    Args:
        checkup: the machine; findings that it already has are ignored.
        profile: the profile of its first GPU, or of its CPU; None if no profile matches.
    """
    machine = Machine(checkup, checkup.host, checkup.loader, checkup.environment, profile)
    gpus = [Gpu(gpu, machine) for gpu in checkup.host.accelerators]
    storage = (one for one in checkup.storage if one.kind is not StorageKind.NONE)
    data_sets = [DataSet(one, checkup.host.ram_limit_bytes) for one in storage]
    return worst_first(findings_of(machine, *gpus, *data_sets))
