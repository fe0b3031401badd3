"""What this process may really use: CPUs, memory and /dev/shm, as affinity and cgroups allow.

Every reader of /proc, /sys and /dev takes the `root` that these lie under, so that a copied tree can be read.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

ROOT = Path("/")

_UNLIMITED_BYTES = 1 << 60
"""cgroup v1 writes "no limit" as the largest page count it knows, which depends on the page size."""

_DEFAULT_PERIOD_US = 100_000


class _CgroupMount(NamedTuple):
    """One mounted cgroup hierarchy."""

    version: int
    controllers: frozenset[str]
    root: PurePosixPath
    """The cgroup that shows at the mount point."""
    point: Path


def cpus_allowed(root: Path = ROOT) -> int:
    """Return how many CPUs this process may use: affinity and quota, rounded down to 1 at the least."""
    affinity = len(os.sched_getaffinity(0))
    quota = cgroup_cpu_quota(root)
    return affinity if quota is None else max(1, min(affinity, int(quota)))


def cgroup_cpu_quota(root: Path = ROOT) -> float | None:
    """Return the CPUs' worth of time that the cgroups grant, the least over ancestors; None if free."""
    quotas = [_v1_quota(folder) for folder in _cgroup_folders(root, 1, "cpu")]
    quotas += [_v2_quota(folder) for folder in _cgroup_folders(root, 2, "cpu")]
    return min((quota for quota in quotas if quota is not None), default=None)


def cgroup_memory_limit_bytes(root: Path = ROOT) -> int | None:
    """Return the memory that the cgroups grant, the least over ancestors; None if free."""
    limits = [_number(folder / "memory.limit_in_bytes") for folder in _cgroup_folders(root, 1, "memory")]
    limits += [_number(folder / "memory.max") for folder in _cgroup_folders(root, 2, "memory")]
    return min(
        (limit for limit in limits if limit is not None and 0 < limit < _UNLIMITED_BYTES), default=None
    )


def oom_kills(root: Path = ROOT) -> int | None:
    """Return how many processes the kernel has killed for want of memory; only the rise says something.

    In this cgroup, else on the whole machine. None where the kernel does not count them.
    """
    for version, name in ((2, "memory.events"), (1, "memory.oom_control")):
        folder = next(_cgroup_folders(root, version, "memory"), None)
        if folder is not None and (count := _counter(folder / name, "oom_kill")) is not None:
            return count
    return _counter(root / "proc/vmstat", "oom_kill")


def ram_total_bytes(root: Path = ROOT) -> int:
    """Return the machine's memory."""
    found = re.search(r"^MemTotal:\s+(\d+) kB", _text(root / "proc/meminfo") or "", re.MULTILINE)
    if found:
        return int(found[1]) * 1024
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def ram_limit_bytes(root: Path = ROOT) -> int:
    """Return the memory that this process may use: the least of the machine's and the cgroups'."""
    total_bytes = ram_total_bytes(root)
    limit_bytes = cgroup_memory_limit_bytes(root)
    return total_bytes if limit_bytes is None else min(total_bytes, limit_bytes)


def shm_bytes(root: Path = ROOT) -> int | None:
    """Return the size of /dev/shm, None without one; mounted without a size, it ends with the memory."""
    try:
        status = os.statvfs(root / "dev/shm")
    except OSError:
        return None
    return status.f_frsize * status.f_blocks or ram_limit_bytes(root)


def _cgroup_folders(root: Path, version: int, controller: str) -> Iterator[Path]:
    """Yield the folder of the process's cgroup and of each ancestor that a mount shows."""
    path = _cgroup_path(root, version, controller)
    if path is None:
        return
    mounts = [
        mount
        for mount in _cgroup_mounts(root)
        if mount.version == version and (version == 2 or controller in mount.controllers)
    ]
    is_visible = ".." not in path.parts
    holding = [mount for mount in mounts if is_visible and path.is_relative_to(mount.root)]
    for mount in holding:
        inside = path.relative_to(mount.root)
        for part in (inside, *inside.parents):
            yield mount.point / part
    if not holding:
        # A container may see its own cgroup at the mount point under a path that only the host knows.
        yield from (mount.point for mount in mounts)


def _cgroup_path(root: Path, version: int, controller: str) -> PurePosixPath | None:
    for line in (_text(root / "proc/self/cgroup") or "").splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        is_v2 = hierarchy == "0" and not controllers
        if (version == 2 and is_v2) or (version == 1 and controller in controllers.split(",")):
            return PurePosixPath(path or "/")
    return None


def _cgroup_mounts(root: Path) -> list[_CgroupMount]:
    mounts = []
    for line in (_text(root / "proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, source = before.split(), after.split()
        if len(fields) < 5 or len(source) < 3 or source[0] not in ("cgroup", "cgroup2"):
            continue
        mounts.append(
            _CgroupMount(
                version=2 if source[0] == "cgroup2" else 1,
                controllers=frozenset(source[2].split(",")),
                root=PurePosixPath(_unescaped(fields[3])),
                point=root / _unescaped(fields[4]).lstrip("/"),
            )
        )
    return mounts


def _unescaped(field: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), field)


def _v1_quota(folder: Path) -> float | None:
    quota_us = _number(folder / "cpu.cfs_quota_us")
    period_us = _number(folder / "cpu.cfs_period_us") or _DEFAULT_PERIOD_US
    return quota_us / period_us if quota_us is not None and quota_us > 0 and period_us > 0 else None


def _v2_quota(folder: Path) -> float | None:
    fields = (_text(folder / "cpu.max") or "").split()
    numbers = [int(field) for field in fields[:2] if field.isdecimal()]
    if not numbers or len(numbers) < len(fields[:2]):
        return None
    period_us = numbers[1] if len(numbers) == 2 else _DEFAULT_PERIOD_US
    return numbers[0] / period_us if numbers[0] > 0 and period_us > 0 else None


def _number(path: Path) -> int | None:
    try:
        return int(_text(path) or "")
    except ValueError:
        return None


def _counter(path: Path, name: str) -> int | None:
    found = re.search(rf"^{name} (\d+)$", _text(path) or "", re.MULTILINE)
    return int(found[1]) if found else None


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
