"""Which disk a mount lies on and what kind of storage that is.

The kernel calls a disk rotational by what the disk says of itself. A virtual disk says what its hypervisor
was set to say, so of such a disk (vda, xvda, a QEMU, VMware or Hyper-V drive) the kind is unknown, unless its
model is that of a cloud's network volume.
"""

import re
from pathlib import Path

from tunekit.machine.host.limits import text_of
from tunekit.machine.host.mounts import Mount
from tunekit.records.checkup import StorageKind

_MEMORY = frozenset({"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"})

_NETWORK = frozenset(
    {
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "ceph", "lustre", "gpfs", "beegfs", "beegfs_nodev"),
        *("glusterfs", "pvfs2", "orangefs", "wekafs", "panfs", "davfs", "ncpfs", "gcsfuse", "fuse.gcsfuse"),
        *("fuse.sshfs", "fuse.s3fs", "fuse.goofys", "fuse.rclone", "fuse.juicefs", "fuse.mount-s3"),
        *("fuse.mountpoint-s3", "fuse.blobfuse", "fuse.blobfuse2", "fuse.ceph-fuse", "fuse.ceph"),
        *("fuse.glusterfs", "fuse.geesefs", "fuse.seaweedfs", "fuse.moosefs", "fuse.davfs", "fuse.davfs2"),
        *("fuse.cvmfs2", "fuse.hdfs", "fuse.alluxio", "fuse.alluxio-fuse", "fuse.beegfs", "fuse.objectivefs"),
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


def disk_under(mount: Mount, root: Path) -> tuple[str | None, StorageKind]:
    """Return the name of the disk that a mount lies on, and what kind of storage it is."""
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
