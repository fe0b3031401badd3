"""What this process may really use, as affinity and cgroups allow: CPUs, memory, /dev/shm; how busy they are.

Every reader of /proc, /sys and /dev takes the `root` that these lie under, so that a copied tree can be read.
"""

import os
import re
import resource
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import psutil

from tunekit.machine.host.mounts import mounts_of
from tunekit.units import KIB

ROOT = Path("/")

_UNLIMITED_BYTES = 1 << 60
"""cgroup v1 writes "no limit" as the largest page count it knows, which depends on the page size."""

_MEMORY_FILES = {
    1: (("memory.limit_in_bytes",), "memory.usage_in_bytes", "total_inactive_file"),
    2: (("memory.max", "memory.high"), "memory.current", "inactive_file"),
}
"""By version of cgroups: where a limit on memory stands, what is used, and what of that is reclaimable."""

_DEFAULT_PERIOD_US = 100_000

_SAMPLE_S = 1.0
"""How long a look at the load takes."""


class _MemoryGroup(NamedTuple):
    limit_bytes: int
    used_bytes: int
    """Without the page cache that the kernel gives back first; 0 where the kernel does not tell."""


def cpus_allowed(root: Path = ROOT) -> int:
    """Return how many CPUs this process may use: affinity and quota, rounded down to 1 at the least."""
    affinity = cpus_in_affinity()
    quota = cgroup_cpu_quota(root)
    return affinity if quota is None else max(1, min(affinity, int(quota)))


def cpu_cores() -> int:
    """Return how many cores this process may compute on; a core may be two of its CPUs."""
    return min(cpus_allowed(), psutil.cpu_count(logical=False) or cpus_allowed())


def cpus_in_affinity() -> int:
    """Return how many CPUs this process may be scheduled on; cpusets and taskset narrow them."""
    return len(os.sched_getaffinity(0))


def numa_nodes(root: Path = ROOT) -> int | None:
    """Return how many NUMA nodes have CPUs; None where the kernel lists none.

    Nodes of memory alone (a Grace GPU's, CXL) are not counted: no worker can be bound to them.
    """
    found = re.findall(r"(\d+)(?:-(\d+))?", text_of(root / "sys/devices/system/node/has_cpu") or "")
    return sum(max(0, int(last or first) - int(first)) + 1 for first, last in found) or None


def cgroup_cpu_quota(root: Path = ROOT) -> float | None:
    """Return the CPUs' worth of time that the cgroups grant, the least over ancestors; None if free."""
    quotas = [_v1_quota(folder) for folder in _cgroup_folders(root, 1, "cpu")]
    quotas += [_v2_quota(folder) for folder in _cgroup_folders(root, 2, "cpu")]
    return min((quota for quota in quotas if quota is not None), default=None)


def cgroup_memory_limit_bytes(root: Path = ROOT) -> int | None:
    """Return the memory that the cgroups grant, the least over ancestors; None if free.

    Above `memory.high` the kernel kills no process but stalls them all until memory is given back, so
    training can't use more than that either.
    """
    return min((group.limit_bytes for group in _memory_groups(root)), default=None)


def oom_kills(root: Path = ROOT) -> int | None:
    """Return how many processes the kernel has killed for want of memory; only the rise says something.

    In this cgroup, else on the whole machine. None where the kernel does not count them.
    """
    for version, name in ((2, "memory.events"), (1, "memory.oom_control")):
        folder = next(_cgroup_folders(root, version, "memory"), None)
        if folder is not None and (count := counter(folder / name, "oom_kill")) is not None:
            return count
    return counter(root / "proc/vmstat", "oom_kill")


def ram_total_bytes(root: Path = ROOT) -> int:
    """Return the machine's memory."""
    total_kib = counter(root / "proc/meminfo", "MemTotal:")
    return total_kib * KIB if total_kib else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def ram_limit_bytes(root: Path = ROOT) -> int:
    """Return the memory that this process may use: the least of the machine's and the cgroups'."""
    total_bytes = ram_total_bytes(root)
    limit_bytes = cgroup_memory_limit_bytes(root)
    return total_bytes if limit_bytes is None else min(total_bytes, limit_bytes)


def ram_available_bytes(root: Path = ROOT) -> int | None:
    """Return the memory that this process may still take: the least of the machine's and the cgroups'.

    Inactive page cache counts as free, as the kernel gives it back first. None where neither is known.
    """
    available_kib = counter(root / "proc/meminfo", "MemAvailable:")
    free = [] if available_kib is None else [available_kib * KIB]
    free += [group.limit_bytes - group.used_bytes for group in _memory_groups(root)]
    return max(0, min(free)) if free else None


def shm_bytes(root: Path = ROOT) -> int | None:
    """Return the size of /dev/shm, None without one; mounted without a size, it ends with the memory."""
    try:
        status = os.statvfs(root / "dev/shm")
    except OSError:
        return None
    return status.f_frsize * status.f_blocks or ram_limit_bytes(root)


def shm_used_bytes(root: Path = ROOT) -> int | None:
    """Return how much of /dev/shm is taken; None without one, or where it is mounted without a size."""
    try:
        status = os.statvfs(root / "dev/shm")
    except OSError:
        return None
    return status.f_frsize * (status.f_blocks - status.f_bfree) if status.f_blocks else None


def open_files_limit() -> int | None:
    """Return how many files this process may have open before it asks for more; None if it is free."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft in (resource.RLIM_INFINITY, 0) else soft


def load_average(root: Path = ROOT) -> float | None:
    """Return how many processes wanted a CPU in the last minute, None where the kernel does not tell."""
    found = re.match(r"\d+\.\d+", text_of(root / "proc/loadavg") or "")
    return float(found[0]) if found else None


def busy_share(sample_s: float = _SAMPLE_S) -> float:
    """Return the share of its CPUs' time that programs used, over a sample that this waits for.

    Between trials tunekit itself does nothing, so all of it is other programs'.

    Args:
        sample_s: how long to look, in seconds.
    """
    shares: list[float] = psutil.cpu_percent(interval=sample_s, percpu=True)
    own = [shares[cpu] for cpu in os.sched_getaffinity(0) if cpu < len(shares)] or shares
    return sum(own) / len(own) / 100


def text_of(path: Path) -> str | None:
    """Return what a file of the kernel's says, None where there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def counter(path: Path, name: str) -> int | None:
    """Return the whole number after a name at the beginning of a line, None where there is none."""
    found = re.search(rf"^{name}\s+(\d+)\b", text_of(path) or "", re.MULTILINE)
    return int(found[1]) if found else None


def _memory_groups(root: Path) -> Iterator[_MemoryGroup]:
    for version, (limits, used, reclaimable) in _MEMORY_FILES.items():
        for folder in _cgroup_folders(root, version, "memory"):
            numbers = [_number(folder / name) for name in limits]
            known = [number for number in numbers if number is not None and 0 < number < _UNLIMITED_BYTES]
            if known:
                cache_bytes = counter(folder / "memory.stat", reclaimable) or 0
                yield _MemoryGroup(min(known), max(0, (_number(folder / used) or 0) - cache_bytes))


def _cgroup_folders(root: Path, version: int, controller: str) -> Iterator[Path]:
    """Yield the folder of the process's cgroup and of each ancestor that a mount shows."""
    path = _cgroup_path(root, version, controller)
    if path is None:
        return
    kind = "cgroup2" if version == 2 else "cgroup"
    mounts = [mount for mount in mounts_of(root) if mount.filesystem == kind]
    if version == 1:
        mounts = [mount for mount in mounts if controller in mount.options.split(",")]
    is_visible = ".." not in path.parts
    holding = [mount for mount in mounts if is_visible and path.is_relative_to(mount.root)]
    for mount in holding:
        inside = path.relative_to(mount.root)
        for part in (inside, *inside.parents):
            yield root / str(mount.point).lstrip("/") / part
    if not holding:
        # A container may see its own cgroup at the mount point under a path that only the host knows.
        yield from (root / str(mount.point).lstrip("/") for mount in mounts)


def _cgroup_path(root: Path, version: int, controller: str) -> PurePosixPath | None:
    for line in (text_of(root / "proc/self/cgroup") or "").splitlines():
        hierarchy, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        is_v2 = hierarchy == "0" and not controllers
        if (version == 2 and is_v2) or (version == 1 and controller in controllers.split(",")):
            return PurePosixPath(path or "/")
    return None


def _v1_quota(folder: Path) -> float | None:
    quota_us = _number(folder / "cpu.cfs_quota_us")
    period_us = _number(folder / "cpu.cfs_period_us") or _DEFAULT_PERIOD_US
    return quota_us / period_us if quota_us is not None and quota_us > 0 and period_us > 0 else None


def _v2_quota(folder: Path) -> float | None:
    found = re.fullmatch(r"(\d+)(?: (\d+))?\n?", text_of(folder / "cpu.max") or "")
    quota_us, period_us = (int(found[1]), int(found[2] or _DEFAULT_PERIOD_US)) if found else (0, 0)
    return quota_us / period_us if quota_us > 0 and period_us > 0 else None


def _number(path: Path) -> int | None:
    try:
        return int(text_of(path) or "")
    except ValueError:
        return None
