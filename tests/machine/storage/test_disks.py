import os
from pathlib import Path, PurePosixPath

import pytest

from tunekit.machine.host.mounts import Mount
from tunekit.machine.storage.inspect import disk_under
from tunekit.records.checkup import StorageKind

PCI = "devices/pci0000:00/0000:00:04.0"


class Machine:
    """A copied /sys with the links that the kernel makes."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def disk(self, number: str, folder: str, **files: str) -> Path:
        """Add a block device; a file `queue__rotational` lies at queue/rotational."""
        place = self.root / "sys" / folder
        place.mkdir(parents=True)
        for name, text in files.items():
            file = place / name.replace("__", "/")
            file.parent.mkdir(exist_ok=True)
            file.write_text(f"{text}\n", encoding="utf-8")
        for link in (f"dev/block/{number}", f"class/block/{place.name}"):
            (self.root / "sys" / link).parent.mkdir(parents=True, exist_ok=True)
            (self.root / "sys" / link).symlink_to(os.path.relpath(place, (self.root / "sys" / link).parent))
        return place

    def stack(self, number: str, name: str, *below: Path) -> Path:
        """Add a mapped device over others."""
        place = self.disk(number, f"devices/virtual/block/{name}", queue__rotational="0")
        (place / "slaves").mkdir()
        for disk in below:
            (place / "slaves" / disk.name).symlink_to(os.path.relpath(disk, place / "slaves"))
        return place

    def under(
        self, device: str, filesystem: str = "ext4", source: str = "/dev/root"
    ) -> tuple[str | None, str]:
        root = PurePosixPath("/")
        name, kind = disk_under(Mount(device, root, root, filesystem, source, "rw"), self.root)
        return name, kind.value


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("disk", "files", "kind"),
    [
        ("nvme0n1", {"device__model": "Samsung SSD 990 PRO 2TB"}, "nvme"),
        ("nvme0n1", {"device__model": "Amazon Elastic Block Store"}, "network"),
        ("nvme0n1", {"device__model": "nvme_card-pd"}, "network"),
        ("nvme0n1", {"device__model": "Some SSD", "device__transport": "tcp"}, "network"),
        ("nvme0n1", {"device__model": "QEMU NVMe Ctrl"}, "unknown"),
        ("sda", {"device__model": "WDC WD40EFRX", "queue__rotational": "1"}, "hdd"),
        ("sda", {"device__model": "CT1000MX500SSD1", "queue__rotational": "0"}, "ssd"),
        (
            "sda",
            {"device__vendor": "QEMU", "device__model": "QEMU HARDDISK", "queue__rotational": "1"},
            "unknown",
        ),
        ("sda", {"device__vendor": "Google", "device__model": "PersistentDisk"}, "network"),
        ("mmcblk0", {"queue__rotational": "0"}, "ssd"),
        ("vda", {"queue__rotational": "0"}, "unknown"),
        ("loop3", {"queue__rotational": "0"}, "unknown"),
        ("zram0", {"queue__rotational": "0"}, "memory"),
        ("rbd0", {}, "network"),
    ],
)
def test_a_disk_is_what_name_model_and_kernel_say(
    machine: Machine, disk: str, files: dict[str, str], kind: str
) -> None:
    machine.disk("8:0", f"{PCI}/block/{disk}", **files)
    assert machine.under("8:0") == (disk, kind)


def test_an_encrypted_volume_on_lvm_lies_on_the_disk_at_the_bottom(machine: Machine) -> None:
    machine.disk("8:0", f"{PCI}/block/sda", queue__rotational="1")
    partition = machine.disk("8:3", f"{PCI}/block/sda/sda3", partition="3")
    volume = machine.stack("254:0", "dm-0", partition)
    machine.stack("254:1", "dm-1", volume)
    assert machine.under("254:1") == ("sda", "hdd")


def test_an_array_is_of_its_disks_kind_if_they_agree(machine: Machine) -> None:
    first = machine.disk("259:0", f"{PCI}/nvme0n1")
    second = machine.disk("259:1", f"{PCI}/nvme1n1")
    slow = machine.disk("8:0", f"{PCI}/block/sda", queue__rotational="1")
    machine.stack("9:0", "md0", first, second)
    machine.stack("9:1", "md1", first, slow)
    assert machine.under("9:0") == ("md0", "nvme")
    assert machine.under("9:1") == ("md1", "unknown")


@pytest.mark.parametrize(
    ("filesystem", "source", "kind"),
    [
        ("tmpfs", "tmpfs", StorageKind.MEMORY),
        ("nfs4", "server:/export", StorageKind.NETWORK),
        ("fuse.gcsfuse", "bucket", StorageKind.NETWORK),
        ("fuse", "mountpoint-s3", StorageKind.NETWORK),
        ("fuse", "something", StorageKind.UNKNOWN),
        ("fuse.ntfs-3g", "/dev/nosuch", StorageKind.UNKNOWN),
        ("overlay", "overlay", StorageKind.UNKNOWN),
        ("virtiofs", "shared", StorageKind.UNKNOWN),
    ],
)
def test_without_a_block_device_the_file_system_tells(
    machine: Machine, filesystem: str, source: str, kind: StorageKind
) -> None:
    assert machine.under("0:99", filesystem, source) == (None, kind.value)
