"""Reads the CPUs, memory and /dev/shm that affinity and cgroups let this process use, and their current load.

Functions that read /proc, /sys and /dev take the `root` folder that contains them, so tests can pass a copy.
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
"""For each version of cgroups, the files with memory limits, the file with the memory in use, and the entry
of memory.stat that is reclaimable."""

_DEFAULT_PERIOD_US = 100_000

_SAMPLE_S = 1.0
"""How long the CPU load is sampled by default."""


class _MemoryGroup(NamedTuple):
    limit_bytes: int
    used_bytes: int
    """Excludes the page cache that the kernel reclaims first; 0 where the kernel does not report it."""


def cpus_allowed(root: Path = ROOT) -> int:
    """Return how many CPUs affinity and quota let this process use, rounded down but at least 1."""
    affinity = cpus_in_affinity()
    quota = cgroup_cpu_quota(root)
    return affinity if quota is None else max(1, min(affinity, int(quota)))


def cpu_cores() -> int:
    """Return how many physical cores this process may use; hyperthreading makes two CPUs of a core."""
    return min(cpus_allowed(), psutil.cpu_count(logical=False) or cpus_allowed())


def cpus_in_affinity() -> int:
    """Return how many CPUs this process may be scheduled on; cpusets and taskset restrict them."""
    return len(os.sched_getaffinity(0))


def numa_nodes(root: Path = ROOT) -> int | None:
    """Return how many NUMA nodes have CPUs; None where the kernel lists none.

    Memory-only nodes (a Grace GPU's, CXL) are not counted: no worker can be bound to them.
    """
    found = re.findall(r"(\d+)(?:-(\d+))?", text_of(root / "sys/devices/system/node/has_cpu") or "")
    return sum(max(0, int(last or first) - int(first)) + 1 for first, last in found) or None


def cgroup_cpu_quota(root: Path = ROOT) -> float | None:
    """Return the cgroups' CPU quota in CPUs, the lowest among ancestors; None if there is no quota."""
    quotas = [_v1_quota(folder) for folder in _cgroup_folders(root, 1, "cpu")]
    quotas += [_v2_quota(folder) for folder in _cgroup_folders(root, 2, "cpu")]
    return min((quota for quota in quotas if quota is not None), default=None)


def cgroup_memory_limit_bytes(root: Path = ROOT) -> int | None:
    """Return the cgroups' memory limit, the lowest among ancestors; None if there is no limit.

    Above `memory.high` the kernel does not kill processes but stalls them until memory is freed, so training
    can't use more than that either.
    """
    return min((group.limit_bytes for group in _memory_groups(root)), default=None)


def oom_kills(root: Path = ROOT) -> int | None:
    """Return how many processes the kernel has OOM-killed so far; only an increase is meaningful.

    The count is this cgroup's, else the whole machine's; None where the kernel does not count them.
    """
    for version, name in ((2, "memory.events"), (1, "memory.oom_control")):
        folder = next(_cgroup_folders(root, version, "memory"), None)
        if folder is not None and (count := counter(folder / name, "oom_kill")) is not None:
            return count
    return counter(root / "proc/vmstat", "oom_kill")


def ram_total_bytes(root: Path = ROOT) -> int:
    """Return the machine's RAM."""
    total_kib = counter(root / "proc/meminfo", "MemTotal:")
    return total_kib * KIB if total_kib else os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def ram_limit_bytes(root: Path = ROOT) -> int:
    """Return the memory that this process may use: the machine's RAM or the lowest cgroup limit."""
    total_bytes = ram_total_bytes(root)
    limit_bytes = cgroup_memory_limit_bytes(root)
    return total_bytes if limit_bytes is None else min(total_bytes, limit_bytes)


def ram_available_bytes(root: Path = ROOT) -> int | None:
    """Return the memory that this process can still allocate: the least free in the machine and its cgroups.

    Inactive page cache counts as free, as the kernel reclaims it first. None if neither is known.
    """
    available_kib = counter(root / "proc/meminfo", "MemAvailable:")
    free = [] if available_kib is None else [available_kib * KIB]
    free += [group.limit_bytes - group.used_bytes for group in _memory_groups(root)]
    return max(0, min(free)) if free else None


def shm_bytes(root: Path = ROOT) -> int | None:
    """Return the size of /dev/shm; None without one. If mounted without a size, the RAM limit bounds it."""
    try:
        status = os.statvfs(root / "dev/shm")
    except OSError:
        return None
    return status.f_frsize * status.f_blocks or ram_limit_bytes(root)


def shm_used_bytes(root: Path = ROOT) -> int | None:
    """Return how much of /dev/shm is used; None without one, or if it is mounted without a size."""
    try:
        status = os.statvfs(root / "dev/shm")
    except OSError:
        return None
    return status.f_frsize * (status.f_blocks - status.f_bfree) if status.f_blocks else None


def open_files_limit() -> int | None:
    """Return the soft limit on open files; None if there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return None if soft in (resource.RLIM_INFINITY, 0) else soft


def load_average(root: Path = ROOT) -> float | None:
    """Return the load average of the last minute; None where the kernel does not report it."""
    found = re.match(r"\d+\.\d+", text_of(root / "proc/loadavg") or "")
    return float(found[0]) if found else None


def busy_share(sample_s: float = _SAMPLE_S) -> float:
    """Sample the CPU load, blocking meanwhile; return the busy share of this process's CPUs.

    Between trials tunekit itself is idle, so all of the load comes from other programs.

    Args:
        sample_s: how long to sample, in seconds.
    """
    shares: list[float] = psutil.cpu_percent(interval=sample_s, percpu=True)
    own = [shares[cpu] for cpu in os.sched_getaffinity(0) if cpu < len(shares)] or shares
    return sum(own) / len(own) / 100


def text_of(path: Path) -> str | None:
    """Return the text of a kernel file; None if it can't be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def counter(path: Path, name: str) -> int | None:
    """Return the integer that follows a name at the start of a line; None if there is none."""
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
    """Yield the folders of the process's cgroup and of each ancestor that is mounted."""
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
        # A container may see its own cgroup at the mount point while its path is valid only on the host.
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
