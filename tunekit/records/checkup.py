"""What `tunekit doctor` looked at on a machine, storage among it, and what it found."""

from enum import StrEnum
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.finding import Finding
from tunekit.records.host import Host
from tunekit.units import bytes_text, rate_text


class StorageKind(StrEnum):
    """What files are kept on."""

    NVME = "nvme"
    SSD = "ssd"
    HDD = "hdd"
    NETWORK = "network"
    """A network file system, or a disk that is reached over a network (iSCSI, a cloud's block volume)."""
    MEMORY = "memory"
    NONE = "none"
    """Nothing: the kernel makes the files up (proc, sysfs and the like)."""
    UNKNOWN = "unknown"
    """What lies under it can't be seen from inside this machine or container."""


class Storage(Record):
    """What lies under the files of a data set, and how fast a sample of them was read."""

    path: str
    """Absolute. Bytes that are no text are shown as escapes."""
    filesystem: str | None
    """Its type: "ext4", "overlay", "nfs4", "fuse.gcsfuse", ...; None where the kernel lists no mounts."""
    mount_point: str | None
    device: str | None
    """The disk, such as "nvme0n1" (never a partition); None where none can be found."""
    kind: StorageKind
    files: NonNegativeInt
    """Regular files that the walk met."""
    total_bytes: NonNegativeInt
    """Sum of their sizes, holes of sparse files included."""
    is_walk_complete: bool
    """Whether the walk saw every file; if not, `files` and `total_bytes` are lower bounds."""
    sequential_mb_per_s: PositiveFloat | None = None
    """Files read one after another in blocks of 1 MiB; 1 MB is 10**6 bytes."""
    random_mb_per_s: PositiveFloat | None = None
    """One read at a time, of `random_read_bytes`, in no order; 1 MB is 10**6 bytes."""
    random_read_bytes: PositiveInt | None = None
    """Size of one random read; the mean where one read is one small file."""
    bytes_read: NonNegativeInt = 0
    measured_cold: bool | None = None
    """Whether what was read came from storage, not from the page cache.

    None where nothing was measured or the kernel does not tell. Caches below this machine's own (of a disk,
    a hypervisor, a file server) can't be emptied from here.
    """
    problem: str | None = None
    """Why a rate is missing."""

    @property
    def is_virtual(self) -> bool:
        """Whether the disk is a virtual machine's own, below which its host may cache."""
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
    """How a training means to load its data, as far as it is known."""

    num_workers: NonNegativeInt
    """Of each training process."""
    prefetch_factor: PositiveInt = 2
    batch_bytes: PositiveInt | None = None
    held_batch_bytes: PositiveInt | None = None
    """What a batch takes while it waits in pinned memory; None where that is no more than its data."""
    processes: PositiveInt = 1
    """Training processes on this machine."""
    taken_from: str | None = None
    """Which config of a run it is, such as "balanced of reports/train"; None where flags say it."""

    @property
    def waiting_bytes(self) -> int | None:
        """What a batch takes while it waits, as far as it is known."""
        return self.held_batch_bytes or self.batch_bytes

    @property
    def total_workers(self) -> int:
        """Worker processes of all training processes together."""
        return self.num_workers * self.processes


class Checkup(Record):
    """One machine, looked at before training."""

    schema_version: Literal[1] = SCHEMA_VERSION
    tunekit_version: str
    created_at: str
    """ISO 8601, UTC."""
    host: Host
    why_no_torch: str | None = None
    """Why the training environment's torch could not be asked."""
    has_python_answered: bool = True
    """Whether the Python that training runs was asked in time; if not, it may have the torch missing here."""
    why_no_command: str | None = None
    """Why the training command can't be run as it was given."""
    other_tunekit: str | None = None
    """Version of the package index's `tunekit`, another project's; None where it is not installed here."""
    storage: tuple[Storage, ...] = ()
    """What lies under each data set, in the order in which they were named."""
    loader: LoaderPlan | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    """The variables that bear on training, as they are set."""
    compiler: str | None = None
    """The compiler that torch.compile would find: of C where there is a GPU, of C++ on a CPU."""
    findings: tuple[Finding, ...] = ()
