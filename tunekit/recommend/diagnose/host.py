"""CPUs, memory and /dev/shm: what the container grants against what training asks for."""

from tunekit.memory.ram import (
    SAFE_BUFFER_SHARE,
    RamVerdict,
    buffer_bytes,
    buffer_verdict,
    fits_shm,
    queue_bytes,
    shm_text,
)
from tunekit.records.checkup import Checkup
from tunekit.records.finding import Finding, Severity
from tunekit.records.host import Host
from tunekit.records.profile import Profile
from tunekit.units import GIB, MIB, bytes_text, count_text

_DOCKER_SHM_BYTES = 64 * MIB
"""Docker's default for /dev/shm."""
_SMALL_SHM_BYTES = 512 * MIB
"""One batch of 256 ImageNet pictures in fp32 is 147 MiB, and a queue holds several."""
_FULL_SHM_SHARE = 0.5
_LOW_RAM_SHARE = 0.2
_ALL_RAM_SHARE = 0.98
"""A cgroup that grants this much of the machine's memory limits nothing that matters."""
_BUSY_SHARE = 0.5
_BUSY_LOAD = 1.5
"""One process that has just ended, such as a training of tunekit's own, still makes a load of about 1."""
_USUAL_OPEN_FILES = 1024
_MANY_WORKERS = 8
_USUAL_SHM_GIB = 8
"""What a container is usually given when Docker's default is too small."""


def host_findings(checkup: Checkup, profile: Profile | None) -> list[Finding]:
    """Return what is wrong with the CPUs, the memory and /dev/shm."""
    host = checkup.host
    found = [
        _shm_against_buffer(checkup),
        _buffer_against_ram(checkup),
        _shm_in_use(host),
        _workers_against_cpus(checkup),
        _fewer_cpus_than_seen(host),
        _ram_below_host(host),
        _little_ram_free(host),
        _ram_below_gpus(host),
        _busy(host),
        _numa(host),
        _open_files(checkup),
        _governor(host),
        _sandbox(host),
    ]
    return [finding for finding in found if finding is not None]


def _shm_against_buffer(checkup: Checkup) -> Finding | None:
    size_bytes, loader = checkup.host.shm_bytes, checkup.loader
    if loader is not None and loader.num_workers == 0:
        return None
    if size_bytes is None:
        return Finding(
            code="no-shm",
            severity=Severity.ERROR if loader else Severity.WARNING,
            message="there is no /dev/shm, through which loader workers hand over their batches",
            evidence="/dev/shm is not mounted",
            remedy="mount a tmpfs at /dev/shm, or load with num_workers 0",
        )
    if loader is not None and loader.batch_bytes is not None:
        queued_bytes = loader.processes * queue_bytes(loader, loader.batch_bytes)
        if fits_shm(queued_bytes, checkup.host):
            return None
        queues = f"{count_text(loader.num_workers, 'worker')} x prefetch {loader.prefetch_factor} + 1"
        ranks = f" x {loader.processes} processes" if loader.processes > 1 else ""
        return Finding(
            code="small-shm",
            severity=Severity.ERROR,
            message="/dev/shm has too little room for the loader's full queue: workers die with a bus error",
            evidence=(
                f"({queues}){ranks} batches of {bytes_text(loader.batch_bytes)} are "
                f"{bytes_text(queued_bytes)} (predicted); /dev/shm has {shm_text(checkup.host)}"
            ),
            remedy=_bigger_shm(queued_bytes + (checkup.host.shm_used_bytes or 0)),
            value=queued_bytes,
        )
    if size_bytes >= _SMALL_SHM_BYTES:
        return None
    usual = ", Docker's default" if size_bytes == _DOCKER_SHM_BYTES else ""
    return Finding(
        code="small-shm",
        severity=Severity.WARNING,
        message="/dev/shm is small: loader workers that fill it die with a bus error",
        evidence=f"/dev/shm has {bytes_text(size_bytes)}{usual}",
        remedy=_bigger_shm(0),
        value=size_bytes,
    )


def _bigger_shm(needed_bytes: int) -> str:
    gib = max(_USUAL_SHM_GIB, -(-needed_bytes // GIB))
    return (
        f"start the container with --ipc=host or --shm-size={gib}g (Kubernetes: an emptyDir of medium Memory "
        "at /dev/shm), or load with fewer workers or a smaller prefetch"
    )


def _buffer_against_ram(checkup: Checkup) -> Finding | None:
    loader, limit_bytes = checkup.loader, checkup.host.ram_limit_bytes
    if loader is None or loader.waiting_bytes is None:
        return None
    buffered_bytes = loader.processes * buffer_bytes(loader, loader.waiting_bytes)
    verdict = buffer_verdict(buffered_bytes, 0, limit_bytes)
    if verdict is RamVerdict.SAFE:
        return None
    is_fatal = verdict is RamVerdict.OOM
    return Finding(
        code="large-buffer",
        severity=Severity.ERROR if is_fatal else Severity.WARNING,
        message="the loader's buffer alone is out of memory"
        if is_fatal
        else "the loader's buffer leaves little memory for the page cache, forks and spikes",
        evidence=(
            f"{bytes_text(buffered_bytes)} (predicted) are {buffered_bytes / limit_bytes:.0%} of the "
            f"{bytes_text(limit_bytes)} that may be used; safe is up to {SAFE_BUFFER_SHARE:.0%}"
        ),
        remedy="fewer workers, a smaller prefetch_factor or a smaller batch",
        value=buffered_bytes,
    )


def _shm_in_use(host: Host) -> Finding | None:
    size_bytes, used_bytes = host.shm_bytes, host.shm_used_bytes
    if not size_bytes or used_bytes is None or used_bytes <= _FULL_SHM_SHARE * size_bytes:
        return None
    return Finding(
        code="shm-in-use",
        severity=Severity.WARNING,
        message="much of /dev/shm is taken before training has started",
        evidence=f"{bytes_text(used_bytes)} of {bytes_text(size_bytes)} are used",
        remedy="look at `ls -l /dev/shm`: killed trainings leave torch_* files; remove those of the dead",
        value=used_bytes,
    )


def _workers_against_cpus(checkup: Checkup) -> Finding | None:
    loader, cpus = checkup.loader, checkup.host.cpus
    if loader is None or loader.total_workers <= cpus:
        return None
    ranks = f" in each of {loader.processes} processes" if loader.processes > 1 else ""
    return Finding(
        code="more-workers-than-cpus",
        severity=Severity.WARNING,
        message="more loader workers than CPUs: they wait for each other and for the training process",
        evidence=(
            f"{count_text(loader.num_workers, 'worker')}{ranks}, {count_text(cpus, 'CPU')} that may be used"
        ),
        remedy=(
            f"use at most {count_text(cpus // loader.processes, 'worker')}{ranks}; "
            "`tunekit search` finds the best"
            if cpus >= loader.processes
            else f"start at most {cpus} process{'' if cpus == 1 else 'es'} with 1 worker each, or load with "
            "workers 0"
        ),
        value=loader.total_workers,
    )


def _fewer_cpus_than_seen(host: Host) -> Finding | None:
    if host.cpus >= host.cpus_total:
        return None
    reasons = []
    if host.cpus_affinity is not None and host.cpus_affinity < host.cpus_total:
        reasons.append(f"affinity allows {host.cpus_affinity}")
    if host.cpu_quota is not None and host.cpu_quota < host.cpus_total:
        reasons.append(f"the cgroup's quota is {host.cpu_quota:g}")
    return Finding(
        code="fewer-cpus-than-seen",
        severity=Severity.INFO,
        message=(
            f"{host.cpus} of {host.cpus_total} CPUs may be used; scripts that take os.cpu_count() "
            "for their workers start too many"
        ),
        evidence=", ".join(reasons) or None,
        remedy="take len(os.sched_getaffinity(0)) and the quota instead, or name the workers in the config",
        value=host.cpus,
    )


def _ram_below_host(host: Host) -> Finding | None:
    if host.ram_limit_bytes >= _ALL_RAM_SHARE * host.ram_total_bytes:
        return None
    return Finding(
        code="cgroup-below-host-ram",
        severity=Severity.INFO,
        message="the container may use less memory than `free` and /proc/meminfo show",
        evidence=(
            f"the cgroup grants {bytes_text(host.ram_limit_bytes)} of {bytes_text(host.ram_total_bytes)}; "
            "beyond it the kernel kills a process"
        ),
        remedy="plan with the limit: tunekit does",
        value=host.ram_limit_bytes,
    )


def _little_ram_free(host: Host) -> Finding | None:
    free_bytes = host.ram_available_bytes
    if free_bytes is None or free_bytes >= _LOW_RAM_SHARE * host.ram_limit_bytes:
        return None
    return Finding(
        code="low-free-ram",
        severity=Severity.WARNING,
        message="little memory is free: the loader's buffer and the page cache will compete for it",
        evidence=f"{bytes_text(free_bytes)} of {bytes_text(host.ram_limit_bytes)} are available",
        remedy="end what else runs here: `ps aux --sort -rss | head`",
        value=free_bytes,
    )


def _ram_below_gpus(host: Host) -> Finding | None:
    own = [gpu.memory_bytes for gpu in host.accelerators if gpu.memory_bytes and "nvml" in gpu.seen_by]
    if not own or host.ram_limit_bytes >= sum(own):
        return None
    return Finding(
        code="ram-below-gpu-memory",
        severity=Severity.INFO,
        message="the machine has less memory than its GPUs: checkpoints may not fit while they are written",
        evidence=(
            f"{bytes_text(host.ram_limit_bytes)} RAM, {bytes_text(sum(own))} on {count_text(len(own), 'GPU')}"
        ),
        remedy="save sharded or per rank, and load with mmap=True",
    )


def _busy(host: Host) -> Finding | None:
    share = _BUSY_SHARE * host.cpus_total
    if host.load_average is None or host.load_average <= share:
        return None
    is_busy = host.load_average > max(_BUSY_LOAD, share)
    return Finding(
        code="busy-cpus",
        severity=Severity.WARNING if is_busy else Severity.INFO,
        message=(
            "the machine is at work already: figures measured now would be noisy and too low"
            if is_busy
            else "the machine may be at work, or just has been: the load average falls slowly"
        ),
        evidence=(
            f"load average {host.load_average:.1f} over the last minute, {count_text(host.cpus_total, 'CPU')}"
        ),
        remedy="measure when it is quiet: `top` shows who is at work",
        value=host.load_average,
    )


def _numa(host: Host) -> Finding | None:
    if (host.numa_nodes or 1) < 2 or not host.accelerators:
        return None
    nodes = {gpu.index: gpu.numa_node for gpu in host.accelerators if gpu.numa_node is not None}
    if not nodes:
        return None
    index, node = next(iter(nodes.items()))
    told = ", ".join(f"GPU {gpu} on node {at}" for gpu, at in nodes.items())
    return Finding(
        code="numa",
        severity=Severity.INFO,
        message="the CPUs are in several NUMA nodes: a loader on the far one feeds the GPU more slowly",
        evidence=f"{host.numa_nodes} nodes; {told}",
        remedy=f"for GPU {index}: numactl --cpunodebind={node} --membind={node} python train.py",
    )


def _open_files(checkup: Checkup) -> Finding | None:
    limit = checkup.host.open_files_limit
    loader, cpus = checkup.loader, checkup.host.cpus
    workers = loader.total_workers if loader else cpus
    if limit is None or limit > _USUAL_OPEN_FILES or workers < _MANY_WORKERS:
        return None
    return Finding(
        code="few-open-files",
        severity=Severity.INFO,
        message="workers pass every tensor as an open file, and few may be open",
        evidence=f"ulimit -n is {limit}; "
        + (f"{workers} workers" if loader else f"a worker for each CPU would be {workers}"),
        remedy="ulimit -n 65536 before training",
        value=limit,
    )


def _governor(host: Host) -> Finding | None:
    if host.cpu_governor != "powersave":
        return None
    return Finding(
        code="cpu-powersave",
        severity=Severity.INFO,
        message="the CPUs may run below their clock",
        evidence="the scaling governor is powersave",
        remedy="cpupower frequency-set -g performance, if the machine is yours",
    )


def _sandbox(host: Host) -> Finding | None:
    sandbox = host.sandbox
    if sandbox is None or sandbox.kind == "overlay":
        return None
    why_not = "; ".join(f"{kind}: {reason}" for kind, reason in sandbox.reasons.items())
    if sandbox.kind == "landlock":
        return Finding(
            code="sandbox-landlock",
            severity=Severity.INFO,
            message="trials can't write outside their folders: programs that are no Python get an error",
            evidence=f"Landlock holds here, an overlay does not ({why_not})",
            remedy="allow user namespaces or CAP_SYS_ADMIN to let every program of a trial write to a layer",
        )
    return Finding(
        code="no-sandbox",
        severity=Severity.WARNING,
        message="only the agent's file guard protects your files: programs that are no Python pass it",
        evidence=f"neither an overlay nor Landlock holds here ({why_not})",
        remedy="allow user namespaces, or Landlock (Linux 5.13) in the container's seccomp profile",
    )
