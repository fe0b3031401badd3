"""Where a PCI device sits in the machine, as the kernel's files tell it."""

import re
from pathlib import Path

_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])", re.IGNORECASE)


def numa_node(bus_id: str, root: Path) -> int | None:
    """Return the NUMA node whose CPUs are nearest to a PCI device, None where the kernel does not know.

    Args:
        bus_id: the device's address, such as "00000000:65:00.0"; the kernel writes four digits of domain.
        root: the folder under which /sys is read.
    """
    found = _ADDRESS.fullmatch(bus_id)
    if found is None:
        return None
    address = f"{int(found[1], 16):04x}:{found[2].lower()}"
    try:
        node = int((root / "sys/bus/pci/devices" / address / "numa_node").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None
