"""Finds out which disk a data set is on, and measures how fast a sample of its files is read."""

import os
import re
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from tunekit.machine.host.limits import ROOT, text_of
from tunekit.machine.host.mounts import Mount, mount_under, mounts_of
from tunekit.machine.storage import read_probe
from tunekit.machine.storage.data_files import MAX_FILES, DataFiles, walk
from tunekit.machine.storage.data_probe import answer_of
from tunekit.records.checkup import Storage, StorageKind
from tunekit.units import bytes_text

_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})

_NETWORK = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs"),
        *("orangefs", "wekafs", "panfs", "davfs", "gcsfuse", "fuse.gcsfuse", "fuse.sshfs", "fuse.s3fs"),
        *("fuse.goofys", "fuse.rclone", "fuse.juicefs", "fuse.mount-s3", "fuse.mountpoint-s3"),
        *("fuse.blobfuse", "fuse.blobfuse2", "fuse.ceph", "fuse.glusterfs", "fuse.cvmfs2", "fuse.alluxio"),
        "fuse.drive",  # Google Drive in Colab
    }
)
"""9p, virtiofs, vboxsf and the like are missing on purpose: they show a folder of the virtual machine's host,
whose storage is not visible from inside."""

_NETWORK_FUSE_SOURCES = ("mountpoint-s3", "mount-s3", "gcsfuse", "blobfuse", "blobfuse2", "s3fs", "JuiceFS:")
"""Sources of network mounts whose type is only "fuse"."""

_NETWORK_DISK = re.compile(r"nbd|rbd|drbd")
_NETWORK_MODEL = re.compile(r"Amazon Elastic Block Store|PersistentDisk|nvme_card-pd|MSFT NVMe Accelerator")
_VIRTUAL_MODEL = re.compile(r"QEMU|VMware|Virtual|VBOX|Google|Msft|KVM|Xen", re.IGNORECASE)

_DEEPEST_STACK = 8
"""Largest number of levels of stacked block devices (LUKS on LVM on RAID); a deeper stack is a loop."""

_LOCATED_FILES = 64
"""How many files of the sample have their mount looked up."""
_NO_STORAGE = frozenset({"proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "devpts", "devtmpfs"})
"""File systems that the kernel generates; reading their files may have side effects."""


def disk_under(mount: Mount, root: Path) -> tuple[str | None, StorageKind]:
    """Return the name of the disk that a mount is on, and what kind of storage it is."""
    if mount.filesystem in _NO_STORAGE:
        return None, StorageKind.NONE
    if mount.filesystem in _MEMORY:
        return None, StorageKind.MEMORY
    if _is_network(mount):
        return None, StorageKind.NETWORK
    folder = _block_folder(mount, root)
    return (None, StorageKind.UNKNOWN) if folder is None else _disk(folder)


def _is_network(mount: Mount) -> bool:
    if mount.filesystem in ("fuse", "fuseblk"):
        return mount.source.startswith(_NETWORK_FUSE_SOURCES)
    return mount.filesystem in _NETWORK


def _block_folder(mount: Mount, root: Path) -> Path | None:
    """Return the /sys folder of the mount's block device; btrfs and the like give only its name."""
    by_number = root / "sys/dev/block" / mount.device
    if re.fullmatch(r"\d+:\d+", mount.device) and by_number.is_dir():
        return by_number.resolve()
    if not mount.source.startswith("/dev/"):
        return None
    name = (root / mount.source[1:]).resolve().name  # /dev/mapper/data is a link to /dev/dm-0
    by_name = root / "sys/class/block" / name
    return by_name.resolve() if name and by_name.is_dir() else None


def _disk(folder: Path, depth: int = 0) -> tuple[str, StorageKind]:
    """Return a block device's disk: a partition's parent, or the single disk below a mapped device."""
    if (folder / "partition").exists():
        folder = folder.parent
    below = _entries(folder / "slaves") if depth < _DEEPEST_STACK else []
    disks = [_disk(entry.resolve(), depth + 1) for entry in below]
    if len({name for name, _ in disks}) == 1:
        return disks[0]
    if disks:  # RAID or a volume over several disks
        kinds = {kind for _, kind in disks}
        return folder.name, kinds.pop() if len(kinds) == 1 else StorageKind.UNKNOWN
    return folder.name, _kind(folder)


def _kind(disk: Path) -> StorageKind:
    name = disk.name
    model = f"{_word(disk / 'device/vendor')} {_word(disk / 'device/model')}"
    if re.fullmatch(r"(zram|ram)\d+.*", name):
        return StorageKind.MEMORY
    is_iscsi = re.search(r"/session\d+/", str(disk)) is not None
    is_remote = is_iscsi or _word(disk / "device/transport") in ("tcp", "rdma", "fc")
    if _NETWORK_DISK.match(name) or _NETWORK_MODEL.search(model) or is_remote:
        return StorageKind.NETWORK
    if name.startswith("nvme"):
        return StorageKind.UNKNOWN if _VIRTUAL_MODEL.search(model) else StorageKind.NVME
    if not re.match(r"sd[a-z]|hd[a-z]|mmcblk", name) or _VIRTUAL_MODEL.search(model):
        return StorageKind.UNKNOWN
    rotational = _word(disk / "queue/rotational")
    return {"0": StorageKind.SSD, "1": StorageKind.HDD}.get(rotational, StorageKind.UNKNOWN)


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _word(path: Path) -> str:
    return (text_of(path) or "").strip()


def inspect_storage_apart(path: Path, limit_s: float = 30.0) -> Storage:
    """Call `inspect_storage` in a child process, as a system call on a dead mount may never return.

    Args:
        path: a file or a folder.
        limit_s: seconds to wait. Reading takes 3 s and the walk half of that; the rest allows for a disk that
            spins up, or an automount.

    Raises:
        UsageError: the path is missing, is neither a file nor a folder, or does not respond.
        TunekitError: the child process fails.
    """
    return Storage.model_validate(answer_of(inspect_storage, path, limit_s))


def inspect_storage(
    path: Path,
    budget_s: float = 3.0,
    root: Path = ROOT,
    clock: Callable[[], float] = time.monotonic,
) -> Storage:
    """Return the storage that a data set is on, and how fast a sample of its files is read.

    Files are only read: at most 256 MiB sequentially and as much at random. What is read, with neighbouring
    pages, is evicted from the page cache first, so a training that runs finds less of its data set cached.

    Args:
        path: a file or a folder; links are followed, except out of file systems that the kernel generates.
        budget_s: time limit for reading, half for each way; the walk before may take half as long again.
        root: the folder under which /proc and /sys are read.
        clock: returns seconds from a monotonic clock.

    Raises:
        UsageError: the path is missing, or is neither a file nor a folder.
    """
    name = os.fsencode(path)
    mounts = mounts_of(root)
    mount = _mount_at(name, mounts)
    is_made_up = mount is not None and mount.filesystem in _NO_STORAGE
    # /proc links to every open file; none of them belongs to a data set.
    files = walk(name, clock() + budget_s / 2, clock, 0 if is_made_up else MAX_FILES)
    if not is_made_up:
        mount = _mount_of(files, mounts) or mount
    device, kind = disk_under(mount, root) if mount else (None, StorageKind.UNKNOWN)
    seen = Storage(
        path=_text(os.path.realpath(name)),
        filesystem=None if mount is None else _text(os.fsencode(mount.filesystem)),
        mount_point=None if mount is None else _text(os.fsencode(mount.point)),
        device=device,
        kind=kind,
        files=files.count,
        total_bytes=files.total_bytes,
        is_walk_complete=files.is_complete,
    )
    problem = _reason_not_to_read(files, seen)
    return seen.changed(**{"problem": problem} if problem else _measured(files, budget_s, clock))


def _reason_not_to_read(files: DataFiles, seen: Storage) -> str | None:
    if seen.kind is StorageKind.NONE:
        return f"{seen.filesystem} is not storage: the kernel generates its files"
    if seen.kind is StorageKind.MEMORY:
        return "the files are in memory: reading them uses no storage"
    if files.sample:
        return None
    if files.problem:
        return f"no readable file was found; {_text(os.fsencode(files.problem))}"
    return "no non-empty file was found" + ("" if files.is_complete else " before the walk had to stop")


def _measured(files: DataFiles, budget_s: float, clock: Callable[[], float]) -> dict[str, object]:
    plan = read_probe.plan_of(files.sample)
    sequential = read_probe.read_parts(plan.sequential, False, clock() + budget_s / 2, clock)
    at_random = read_probe.read_parts(plan.random, True, clock() + budget_s / 2, clock)
    are_cold = [reading.is_cold for reading in (sequential, at_random) if reading.bytes_read]
    bytes_read = sequential.bytes_read + at_random.bytes_read
    rates = (sequential.mb_per_s, at_random.mb_per_s)
    random_read_bytes = None
    if rates[1] is not None:
        mean_bytes = round(at_random.bytes_read / at_random.reads)
        random_read_bytes = mean_bytes if plan.is_small_files else read_probe.RANDOM_READ_BYTES
    problem = None
    if None in rates:
        problem = f"only {bytes_text(bytes_read)} could be read, too little to measure every rate"
        refusal = sequential.problem or at_random.problem or files.problem
        problem += f"; {_text(os.fsencode(refusal))}" if refusal else ""
    return {
        "sequential_mb_per_s": rates[0],
        "random_mb_per_s": rates[1],
        "random_read_bytes": random_read_bytes,
        "bytes_read": bytes_read,
        "measured_cold": None if None in are_cold or not are_cold else all(are_cold),
        "problem": problem,
    }


def _mount_of(files: DataFiles, mounts: list[Mount]) -> Mount | None:
    places = files.sample[:: max(1, len(files.sample) // _LOCATED_FILES)]
    found = Counter(_mount_at(file.path, mounts) for file in places)
    return found.most_common(1)[0][0] if found else None


def _mount_at(path: bytes, mounts: list[Mount]) -> Mount | None:
    return mount_under(PurePosixPath(os.fsdecode(os.path.realpath(path))), mounts)


def _text(name: bytes) -> str:
    """Return a file name as valid UTF-8 text."""
    return name.decode("utf-8", "backslashreplace")
