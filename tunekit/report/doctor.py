"""The checkup of a machine: what is here, what is wrong with it, what GPU memory holds beside tensors."""

from collections.abc import Sequence

from tunekit.diagnose.registry import CODES
from tunekit.predict.ram import buffer_bytes
from tunekit.records.checkup import Checkup, LoaderPlan, Storage, StorageKind
from tunekit.records.finding import WORST_FIRST, Finding, Severity
from tunekit.records.host import Accelerator, GpuState, Host
from tunekit.records.prediction import Calibration, ConvolutionSeen
from tunekit.report.blocks import (
    Column,
    Facts,
    Lead,
    Line,
    Passage,
    Report,
    Section,
    Table,
    field_text,
    found_blocks,
    table_of,
)
from tunekit.report.text import SEVERITY_WORDS, sandbox_text, torch_text, value_text
from tunekit.units import bytes_text, count_text, percent_text


def doctor_report(checkup: Checkup, silenced: Sequence[str] = ()) -> Report:
    """Return everything that is shown of a checkup, and the codes of findings that were left out."""
    return Report(
        "This machine",
        (
            Lead(_answer(checkup.findings)),
            Section("facts", "What is here", "Machine"),
            Facts(tuple(_facts(checkup)), gap=1),
            Section("findings", "Findings", "Findings"),
            *found_blocks(checkup.findings),
            Line(f"not shown: {', '.join(silenced)}" if silenced else "", is_quiet=True, is_apart=True),
        ),
    )


def codes_facts() -> Facts:
    """Return every code of a finding with its severities and its meaning."""
    return Facts(
        tuple(
            (code, f"{' or '.join(SEVERITY_WORDS[severity] for severity in one.severities)}: {one.message}")
            for code, one in sorted(CODES.items())
        )
    )


def _answer(findings: Sequence[Finding]) -> str:
    counts = {severity: sum(one.severity is severity for one in findings) for severity in Severity}
    parts = [
        count_text(count, SEVERITY_WORDS[severity]) for severity in WORST_FIRST if (count := counts[severity])
    ]
    start = "Training will fail or miss the GPU" if counts[Severity.ERROR] else "Ready to train"
    return f"{start}: {', '.join(parts)}." if parts else f"{start}."


def _facts(checkup: Checkup) -> list[tuple[str, str]]:
    host = checkup.host
    torch = f"{torch_text(host.torch)}, {host.torch.python}" if host.torch else ""
    facts = [("GPU", _gpu_text(gpu)) for gpu in host.accelerators] or [("GPU", "none")]
    facts += [("CPU", _cpu_text(host)), ("memory", _memory_text(host)), ("/dev/shm", _shm_text(host))]
    facts.append(("torch", torch if host.torch else checkup.why_no_torch or "not asked"))
    if host.sandbox is not None:
        facts.append(("trials", sandbox_text(host.sandbox.kind)))
    facts += [("storage", _storage_text(storage)) for storage in checkup.storage]
    if checkup.loader is not None:
        facts.append(("loader", _loader_text(checkup.loader, checkup.host.ram_limit_bytes)))
    return facts


def _parts(*parts: tuple[str, object]) -> str:
    """Return values in their forms, such as ("driver {}", "580.65"), without those that are unknown."""
    return ", ".join(form.format(value) for form, value in parts if value is not None and value != "")


def _of(now: float | None, most: float | None) -> str | None:
    """Return a figure with the most that it can be, such as "8 of 16"; None where it is unknown."""
    if now is None:
        return None
    return f"{now:.0f} of {most:.0f}" if most else f"{now:.0f}"


def _loader_text(loader: LoaderPlan, ram_limit_bytes: int) -> str:
    taken = f" ({loader.taken_from})" if loader.taken_from else ""
    if not loader.num_workers:
        return f"0 workers{taken}"
    buffered_bytes = loader.processes * buffer_bytes(loader, loader.waiting_bytes or 0)
    share = percent_text(buffered_bytes / ram_limit_bytes)
    return (
        _parts(
            ("{}", f"{count_text(loader.num_workers, 'worker')} x prefetch {loader.prefetch_factor}"),
            ("{} processes", loader.processes if loader.processes > 1 else None),
            ("batches of {}", bytes_text(loader.batch_bytes) if loader.batch_bytes else None),
            ("{} of it pinned", bytes_text(loader.held_batch_bytes) if loader.held_batch_bytes else None),
            ("buffer {}", f"{bytes_text(buffered_bytes)} (predicted)" if loader.batch_bytes else None),
            ("{} of the RAM limit", share if loader.batch_bytes else None),
        )
        + taken
    )


def _gpu_text(gpu: Accelerator) -> str:
    pcie, state = gpu.pcie, gpu.state or GpuState()
    return _parts(
        ("{}", f"{gpu.index}: {gpu.name}"),
        ("{}", bytes_text(gpu.memory_bytes)),
        ("compute capability {}", gpu.compute_capability),
        ("PCIe x{}", _of(pcie.lanes, pcie.max_lanes) if pcie else None),
        ("driver {}", gpu.driver),
        ("{} C", _of(state.temperature_c, None)),
        ("{} MHz", _of(state.sm_clock_mhz, state.max_sm_clock_mhz)),
        ("{} W", _of(state.power_w, state.power_limit_w)),
        ("{}", f"profile {gpu.profile_id}" if gpu.profile_id else "no profile"),
        ("seen by {}", " and ".join("the driver" if by == "nvml" else by for by in gpu.seen_by)),
    )


def _cpu_text(host: Host) -> str:
    affinity = host.cpus_affinity if (host.cpus_affinity or host.cpus_total) < host.cpus_total else None
    nodes, load = host.numa_nodes or 1, host.load_average
    limits = _parts(("affinity {}", affinity), ("quota {:g}", host.cpu_quota))
    model = _parts(
        ("{}", host.cpu_name or "unknown model"),
        ("{} NUMA nodes", nodes if nodes > 1 else None),
        ("load average {}", None if load is None else f"{load:.1f}"),
    )
    return f"{host.cpus} of {host.cpus_total} available{f' ({limits})' if limits else ''}: {model}"


def _memory_text(host: Host) -> str:
    is_limited = host.ram_limit_bytes < host.ram_total_bytes
    limit = f" of {bytes_text(host.ram_total_bytes)} (cgroup limit)" if is_limited else ""
    free = host.ram_available_bytes
    return _parts(
        ("{}", bytes_text(host.ram_limit_bytes) + limit),
        ("{} available", None if free is None else bytes_text(free)),
    )


def _shm_text(host: Host) -> str:
    if host.shm_bytes is None:
        return "none"
    used = host.shm_used_bytes
    return _parts(("{}", bytes_text(host.shm_bytes)), ("{} used", None if used is None else bytes_text(used)))


_HOW_READ = {True: "read cold", False: "read from the page cache", None: "read"}


def _storage_text(storage: Storage) -> str:
    more = "" if storage.is_walk_complete else " or more"
    lies_on = _parts(
        ("disk {}", storage.device),
        ("{}", f"kind {storage.kind}" if storage.kind is StorageKind.UNKNOWN else storage.kind.value),
        ("{}", storage.filesystem or "unknown file system"),
    )
    cached = storage.cached_share_before
    before = "" if cached is None else f" (before: {cached:.0%} in the page cache)"
    is_measured = storage.sequential_mb_per_s is not None or storage.random_mb_per_s is not None
    rates = f"{_HOW_READ[storage.measured_cold]}: {storage.rates_text}{before}"
    size = f"{count_text(storage.files, 'file')}{more}, {bytes_text(storage.total_bytes)}{more}"
    return f"{storage.path}: {lies_on}; {size}; {rates if is_measured else 'not measured'}"


# --- calibration -----------------------------------------------------------------------------

_SEEN_BY = {
    "process": "the driver's figure of the process, less what torch had reserved",
    "device": "growth of the whole GPU, less what torch had reserved",
}


def calibration_blocks(calibration: Calibration, path: str | None) -> tuple[Table | Passage, ...]:
    """Return the figures of a calibration and its file; a path of None is one that could not be saved."""
    kept = "stay" if calibration.blas_is_kept else "are given back after each matmul"
    torch = f"torch {calibration.torch_version}, cuDNN {calibration.cudnn_version or 'n/a'}"
    lines = (
        f"{torch}, driver {calibration.driver or 'n/a'}.",
        f"Context: {_SEEN_BY[calibration.context_seen_by]}.",
        f"cuBLAS's workspaces {kept}.",
        *([f"Saved in {path}; predictions for this GPU go by it from now on."] if path else []),
    )
    most = [(calibration.workspaces_bytes(bench) or (None, None))[1] for bench in (False, True)]
    sizes = {
        "CUDA context and libraries": calibration.context_bytes,
        "cuBLAS workspace, forward thread": calibration.blas_forward_bytes,
        "cuBLAS workspace, backward thread": calibration.blas_backward_bytes,
        "cuDNN workspace, at most": most[0],
        "  with cudnn.benchmark": most[1],
    }
    title = f"{calibration.device_name}: memory beside torch's tensors (measured)"
    return (
        Table(title, ("", ""), tuple((name, bytes_text(size)) for name, size in sizes.items()), (1,)),
        table_of("Convolutions beyond their tensors (measured)", _CONVOLUTIONS, calibration.convolutions),
        Passage("", lines, is_apart=True),
    )


_CONVOLUTIONS: tuple[Column[ConvolutionSeen], ...] = (
    Column("shape", field_text("shape"), is_numeric=False),
    Column("dtype", field_text("dtype"), is_numeric=False),
    Column("benchmark", field_text("benchmark", value_text), is_numeric=False),
    Column("forward", field_text("forward_bytes", bytes_text)),
    Column("backward", field_text("backward_bytes", bytes_text)),
)
