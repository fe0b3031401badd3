"""What `tunekit doctor` examined on a machine, including storage, and what it found."""

from enum import StrEnum
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.finding import Finding
from tunekit.records.host import Host
from tunekit.units import bytes_text, rate_text


class StorageKind(StrEnum):
    """What kind of storage files are on."""

    NVME = "nvme"
    SSD = "ssd"
    HDD = "hdd"
    NETWORK = "network"
    """A network file system, or a network-attached disk (iSCSI, a cloud's block volume)."""
    MEMORY = "memory"
    NONE = "none"
    """No storage: the kernel generates the files (proc, sysfs and the like)."""
    UNKNOWN = "unknown"
    """The underlying storage can't be seen from inside this machine or container."""


class Storage(Record):
    """The storage under a data set's files, and how fast a sample of them was read."""

    path: str
    """Absolute path; undecodable bytes are escaped."""
    filesystem: str | None
    """File system type: "ext4", "overlay", "nfs4", "fuse.gcsfuse", ...; None if the kernel lists no
    mounts."""
    mount_point: str | None
    device: str | None
    """The disk, such as "nvme0n1" (never a partition); None if none was found."""
    kind: StorageKind
    files: NonNegativeInt
    """Number of regular files found."""
    total_bytes: NonNegativeInt
    """Sum of their sizes, holes of sparse files included."""
    is_walk_complete: bool
    """Whether every file was visited; if not, `files` and `total_bytes` are lower bounds."""
    sequential_mb_per_s: PositiveFloat | None = None
    """Rate of reading files one after another in 1 MiB blocks; 1 MB is 10**6 bytes."""
    random_mb_per_s: PositiveFloat | None = None
    """Rate of random reads of `random_read_bytes`, one at a time; 1 MB is 10**6 bytes."""
    random_read_bytes: PositiveInt | None = None
    """Size of one random read; the mean size if each read is one small file."""
    bytes_read: NonNegativeInt = 0
    measured_cold: bool | None = None
    """Whether the data came from storage and not from the page cache.

    None if nothing was measured or the kernel doesn't report it. Caches outside this machine (of a disk, a
    hypervisor, a file server) can't be emptied from here.
    """
    problem: str | None = None
    """Why a rate is missing."""

    @property
    def is_virtual(self) -> bool:
        """Whether the disk is a virtual one, which the hypervisor's host may cache."""
        return self.device is not None and self.device.startswith(("vd", "xvd"))

    @property
    def is_network(self) -> bool:
        """Whether reading crosses a network."""
        return self.kind is StorageKind.NETWORK

    @property
    def rates_text(self) -> str:
        """The rates in a line: "412 MB/s in sequence, 38.0 MB/s in random reads of 64.0 KiB"; else "n/a"."""
        parts = []
        if self.sequential_mb_per_s is not None:
            parts.append(f"{rate_text(self.sequential_mb_per_s)} MB/s in sequence")
        if self.random_mb_per_s is not None:
            size = bytes_text(self.random_read_bytes)
            parts.append(f"{rate_text(self.random_mb_per_s)} MB/s in random reads of {size}")
        return ", ".join(parts) or "n/a"

    @property
    def mean_file_bytes(self) -> float | None:
        """Mean size of the files, None without files."""
        return self.total_bytes / self.files if self.files else None


class LoaderPlan(Record):
    """How a training will load its data, as far as it is known."""

    num_workers: NonNegativeInt
    """Workers of each training process."""
    prefetch_factor: PositiveInt = 2
    batch_bytes: PositiveInt | None = None
    held_batch_bytes: PositiveInt | None = None
    """What a batch takes while it waits in pinned memory; None if that is no more than its data."""
    processes: PositiveInt = 1
    """Training processes on this machine."""
    taken_from: str | None = None
    """The run's config that it comes from, such as "balanced of reports/train"; None if given by flags."""

    @property
    def waiting_bytes(self) -> int | None:
        """What a batch takes while it waits, as far as it is known."""
        return self.held_batch_bytes or self.batch_bytes

    @property
    def total_workers(self) -> int:
        """Worker processes of all training processes together."""
        return self.num_workers * self.processes


class Checkup(Record):
    """One machine, checked before training."""

    schema_version: Literal[1] = SCHEMA_VERSION
    tunekit_version: str
    created_at: str
    """ISO 8601, UTC."""
    host: Host
    why_no_torch: str | None = None
    """Why the training environment's torch could not be queried."""
    has_python_answered: bool = True
    """Whether the training's Python answered in time; if not, it may have the torch that is missing here."""
    why_no_command: str | None = None
    """Why the training command can't be run as it was given."""
    other_tunekit: str | None = None
    """Version of PyPI's `tunekit`, an unrelated project; None if it isn't installed here."""
    storage: tuple[Storage, ...] = ()
    """The storage under each data set, in the order given."""
    loader: LoaderPlan | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    """Environment variables that affect training, with their values."""
    compiler: str | None = None
    """The compiler that torch.compile would find: a C compiler with a GPU, a C++ compiler on a CPU."""
    findings: tuple[Finding, ...] = ()
