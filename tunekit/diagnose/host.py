"""Checks CPUs, memory, /dev/shm and the sandbox: what the machine offers against what training needs."""

from tunekit.diagnose.machine import Machine
from tunekit.diagnose.policy import (
    BUSY_LOAD,
    BUSY_SHARE,
    FULL_SHM_SHARE,
    LOW_RAM_SHARE,
    MANY_WORKERS,
    SMALL_SHM_BYTES,
    USUAL_OPEN_FILES,
    USUAL_SHM_GIB,
)
from tunekit.diagnose.registry import ERROR, INFO, WARNING, Hit, Hits, check
from tunekit.predict.ram import (
    SAFE_BUFFER_SHARE,
    buffer_bytes,
    buffer_verdict,
    fits_shm,
    queue_bytes,
    shm_text,
)
from tunekit.records.recommendation import RamVerdict
from tunekit.units import GIB, bytes_text, count_text


def _may_use_workers(machine: Machine) -> bool:
    return machine.loader is None or machine.loader.num_workers > 0


@check("no-shm", (ERROR, WARNING), "there is no /dev/shm, through which loader workers pass their batches")
def _no_shm(machine: Machine) -> Hits:
    if machine.host.shm_bytes is None and _may_use_workers(machine):
        remedy = "mount a tmpfs at /dev/shm, or load with num_workers 0"
        yield Hit("/dev/shm is not mounted", remedy, severity=ERROR if machine.loader else WARNING)


@check(
    "small-shm",
    (ERROR, WARNING),
    "/dev/shm is too small for the loader's queue: workers die with a bus error",
)
def _small_shm(machine: Machine) -> Hits:
    host, loader = machine.host, machine.loader
    if host.shm_bytes is None or not _may_use_workers(machine):
        return
    if loader is not None and loader.batch_bytes is not None:
        queued_bytes = loader.processes * queue_bytes(loader, loader.batch_bytes)
        if not fits_shm(queued_bytes, host):
            yield Hit(
                f"{loader.total_workers} workers x prefetch {loader.prefetch_factor}, batches of "
                f"{bytes_text(loader.batch_bytes)}: {bytes_text(queued_bytes)} (predicted); "
                f"/dev/shm has {shm_text(host)}",
                _bigger_shm(queued_bytes + (host.shm_used_bytes or 0)),
                queued_bytes,
            )
    elif host.shm_bytes < SMALL_SHM_BYTES:
        has = f"/dev/shm has {bytes_text(host.shm_bytes)}; Docker's default is 64 MiB"
        yield Hit(has, _bigger_shm(0), host.shm_bytes, severity=WARNING)


def _bigger_shm(needed_bytes: int) -> str:
    gib = max(USUAL_SHM_GIB, -(-needed_bytes // GIB))
    return (
        f"start the container with --ipc=host or --shm-size={gib}g (Kubernetes: an emptyDir of medium Memory "
        "at /dev/shm), or load with fewer workers or a smaller prefetch"
    )


@check("large-buffer", (ERROR, WARNING), "the loader's buffer leaves too little RAM for everything else")
def _large_buffer(machine: Machine) -> Hits:
    loader, limit_bytes = machine.loader, machine.host.ram_limit_bytes
    if loader is None or loader.waiting_bytes is None:
        return
    buffered_bytes = loader.processes * buffer_bytes(loader, loader.waiting_bytes)
    verdict = buffer_verdict(buffered_bytes, 0, limit_bytes)
    if verdict is not RamVerdict.SAFE:
        yield Hit(
            f"{bytes_text(buffered_bytes)} (predicted) are {buffered_bytes / limit_bytes:.0%} of the "
            f"{bytes_text(limit_bytes)} that may be used; up to {SAFE_BUFFER_SHARE:.0%} is safe",
            "fewer workers, a smaller prefetch_factor or a smaller batch",
            buffered_bytes,
            severity=ERROR if verdict is RamVerdict.OOM else WARNING,
        )


@check("shm-in-use", WARNING, "much of /dev/shm is taken before training has started")
def _shm_in_use(machine: Machine) -> Hits:
    size_bytes, used_bytes = machine.host.shm_bytes, machine.host.shm_used_bytes
    if size_bytes and used_bytes is not None and used_bytes > FULL_SHM_SHARE * size_bytes:
        remedy = "remove the torch_* files that killed trainings left: `ls -l /dev/shm`"
        yield Hit(f"{bytes_text(used_bytes)} of {bytes_text(size_bytes)} are used", remedy, used_bytes)


@check("low-free-ram", WARNING, "little RAM is free for the loader's buffer and the page cache")
def _low_free_ram(machine: Machine) -> Hits:
    free_bytes, limit_bytes = machine.host.ram_available_bytes, machine.host.ram_limit_bytes
    if free_bytes is not None and free_bytes < LOW_RAM_SHARE * limit_bytes:
        yield Hit(
            f"{bytes_text(free_bytes)} of {bytes_text(limit_bytes)} are available",
            "stop what else runs here: `ps aux --sort -rss | head`",
            free_bytes,
        )


@check(
    "busy-cpus", (WARNING, INFO), "the machine is or just was busy: rates measured now are noisy and too low"
)
def _busy_cpus(machine: Machine) -> Hits:
    load, cpus = machine.host.load_average, machine.host.cpus_total
    if load is not None and load > BUSY_SHARE * cpus:
        seen = f"load average {load:.1f} over the last minute, {count_text(cpus, 'CPU')}"
        severity = WARNING if load > BUSY_LOAD else INFO
        yield Hit(seen, "stop other programs, or use --wait-quiet", load, severity=severity)


@check("numa", INFO, "the CPUs are in several NUMA nodes: a loader on the far one feeds the GPU more slowly")
def _numa(machine: Machine) -> Hits:
    host = machine.host
    nodes = {gpu.index: gpu.numa_node for gpu in host.accelerators if gpu.numa_node is not None}
    if (host.numa_nodes or 1) > 1 and nodes:
        index, node = next(iter(nodes.items()))
        where = ", ".join(f"GPU {gpu} on node {at}" for gpu, at in nodes.items())
        remedy = f"for GPU {index}: numactl --cpunodebind={node} --membind={node} python train.py"
        yield Hit(f"{host.numa_nodes} nodes; {where}", remedy)


@check("few-open-files", INFO, "the limit of open files is low: workers pass every tensor as one")
def _few_open_files(machine: Machine) -> Hits:
    limit, loader = machine.host.open_files_limit, machine.loader
    workers = loader.total_workers if loader else machine.host.cpus
    if limit is not None and limit <= USUAL_OPEN_FILES and workers >= MANY_WORKERS:
        yield Hit(f"ulimit -n is {limit}, for {workers} workers", "ulimit -n 65536 before training", limit)


@check("no-sandbox", (WARNING, INFO), "trials don't have an overlay sandbox that discards their writes")
def _no_sandbox(machine: Machine) -> Hits:
    sandbox = machine.host.sandbox
    if sandbox is not None and sandbox.kind != "overlay":
        yield Hit(
            "; ".join(f"{kind}: {reason}" for kind, reason in sandbox.reasons.items()),
            "allow user namespaces or CAP_SYS_ADMIN, or at least Landlock (Linux 5.13)",
            severity=INFO if sandbox.kind == "landlock" else WARNING,
        )
