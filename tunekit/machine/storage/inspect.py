"""What lies under a data set: which disk, and how fast a sample of its files is read."""

import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from tunekit.errors import TunekitError, UsageError
from tunekit.machine.child_probe import NoReplyError, reply_of
from tunekit.machine.host.limits import ROOT, text_of
from tunekit.machine.host.mounts import Mount, mount_under, mounts_of
from tunekit.machine.storage import read_probe
from tunekit.machine.storage.data_files import MAX_FILES, DataFiles, walk
from tunekit.records.checkup import Storage, StorageKind
from tunekit.records.codec import from_json, to_json
from tunekit.units import bytes_text, duration_text

_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})

_NETWORK = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "gpfs", "beegfs", "glusterfs"),
        *("orangefs", "wekafs", "panfs", "davfs", "gcsfuse", "fuse.gcsfuse", "fuse.sshfs", "fuse.s3fs"),
        *("fuse.goofys", "fuse.rclone", "fuse.juicefs", "fuse.mount-s3", "fuse.mountpoint-s3"),
        *("fuse.blobfuse", "fuse.blobfuse2", "fuse.ceph", "fuse.glusterfs", "fuse.cvmfs2", "fuse.alluxio"),
    }
)
"""9p, virtiofs, vboxsf and their like are not here: they show a folder of the virtual machine's host, and
what that lies on is not seen from inside."""

_NETWORK_FUSE_SOURCES = ("mountpoint-s3", "mount-s3", "gcsfuse", "blobfuse", "blobfuse2", "s3fs", "JuiceFS:")
"""Sources of mounts that give no more than "fuse" for their type."""

_NETWORK_DISK = re.compile(r"nbd|rbd|drbd")
_NETWORK_MODEL = re.compile(r"Amazon Elastic Block Store|PersistentDisk|nvme_card-pd|MSFT NVMe Accelerator")
_VIRTUAL_MODEL = re.compile(r"QEMU|VMware|Virtual|VBOX|Google|Msft|KVM|Xen", re.IGNORECASE)

_DEEPEST_STACK = 8
"""Disks on disks (LUKS on LVM on RAID); deeper is a loop of the tree, not a machine."""

LIMIT_S = 30.0
"""Reading has 3 s and the walk half of that; the rest is for a disk that has to spin up, or an automount."""
_CHILD = (sys.executable, "-P", "-c", "from tunekit.machine.storage.inspect import main; main()")
_LOCATED_FILES = 64
"""Files of the sample whose mount is looked up."""
_NO_STORAGE = frozenset({"proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "devpts", "devtmpfs"})
"""What the kernel shows as files; reading them may do something."""


def disk_under(mount: Mount, root: Path) -> tuple[str | None, StorageKind]:
    """Return the name of the disk that a mount lies on, and what kind of storage it is."""
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
    """Return the /sys folder of the mount's block device; btrfs and the like tell theirs by name only."""
    by_number = root / "sys/dev/block" / mount.device
    if re.fullmatch(r"\d+:\d+", mount.device) and by_number.is_dir():
        return by_number.resolve()
    if not mount.source.startswith("/dev/"):
        return None
    name = (root / mount.source[1:]).resolve().name  # /dev/mapper/data is a link to /dev/dm-0
    by_name = root / "sys/class/block" / name
    return by_name.resolve() if name and by_name.is_dir() else None


def _disk(folder: Path, depth: int = 0) -> tuple[str, StorageKind]:
    """Return the disk of a block device's folder: a partition's disk, the one disk below a mapped device."""
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


def inspect_storage_apart(path: Path, limit_s: float = LIMIT_S, child: Sequence[str] = _CHILD) -> Storage:
    """Return what `inspect_storage` does, from a child process: a look at a dead mount may never return.

    Args:
        path: a file or a folder.
        limit_s: seconds to wait for an answer.
        child: the command that answers for the path as its last word.

    Raises:
        UsageError: there is no such path, it is neither a file nor a folder, or it does not answer.
        TunekitError: the process that looks at it breaks.
    """
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    try:
        reply = reply_of([*child, os.fspath(path)], limit_s, environment)
    except NoReplyError as error:
        if not error.is_late:
            raise TunekitError(f"the process that looked at the data set {str(path)!r} {error}") from error
        raise UsageError(
            f"the data set {str(path)!r} did not answer within {duration_text(limit_s)}: is the server "
            "of its mount down? Look at it with findmnt, and leave out this --data until it answers"
        ) from None
    if "refused" in reply:
        raise UsageError(reply["refused"])
    return from_json(reply["storage"], Storage)


def main() -> None:
    """Tell what lies under the path that is this process's last word."""
    try:
        reply = {"storage": to_json(inspect_storage(Path(sys.argv[-1])))}
    except UsageError as error:
        reply = {"refused": str(error)}
    sys.stdout.write(json.dumps(reply) + "\n")


def inspect_storage(
    path: Path,
    budget_s: float = 3.0,
    root: Path = ROOT,
    clock: Callable[[], float] = time.monotonic,
) -> Storage:
    """Return what lies under a data set, and how fast a sample of its files is read.

    Files are only read, at most 256 MiB in order and as many at random. What is read, and what lies beside
    it, is put out of the page cache before: a training that runs finds less of its data set there.

    Args:
        path: a file or a folder; links are followed, but not out of what the kernel makes up.
        budget_s: seconds that reading may take, half for each way; the walk before may take half as long.
        root: the folder under which /proc and /sys are read.
        clock: seconds that only grow.

    Raises:
        UsageError: there is no such path, or it is neither a file nor a folder.
    """
    name = os.fsencode(path)
    mounts = mounts_of(root)
    mount = _mount_at(name, mounts)
    is_made_up = mount is not None and mount.filesystem in _NO_STORAGE
    # Below /proc are links to everything that is open; none of it belongs to a data set.
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
        return f"{seen.filesystem} is no storage: the kernel makes up its files"
    if seen.kind is StorageKind.MEMORY:
        return "the files lie in memory: reading them needs no storage"
    if files.sample:
        return None
    if files.problem:
        return f"no file to read was found; {_text(os.fsencode(files.problem))}"
    return "no file with content was found" + ("" if files.is_complete else " before the walk had to end")


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
        problem = f"{bytes_text(bytes_read)} could be read, too little to tell every rate"
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
    """Return a name as text that every file of a run can hold."""
    return name.decode("utf-8", "backslashreplace")
