"""A machine in words: what is here, what is wrong with it, what a GPU's memory holds of its own. Pure."""

from collections.abc import Sequence

from tunekit.diagnose.registry import CODES
from tunekit.plain_text import printable
from tunekit.predict.ram import buffer_bytes
from tunekit.records.checkup import Checkup, LoaderPlan, Storage, StorageKind
from tunekit.records.finding import WORST_FIRST, Finding, Severity
from tunekit.records.host import Accelerator, GpuState, Host, TorchBuild
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
    fitted_table,
    found_blocks,
)
from tunekit.report.text import SEVERITY_WORDS, sandbox_text
from tunekit.units import bytes_text, count_text


def doctor_report(checkup: Checkup, silenced: Sequence[str] = ()) -> Report:
    """Return everything that is shown of a checkup, and the codes of findings that were left out."""
    return Report(
        "This machine",
        (
            Lead(_answer(checkup.findings)),
            Section("facts", "What is here", "Machine"),
            Facts(tuple((label, printable(text)) for label, text in _facts(checkup)), gap=1),
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
    if counts[Severity.ERROR]:
        return f"Training will fail here, or miss the GPU: {', '.join(parts)}."
    if counts[Severity.WARNING]:
        return f"Training will run here, but look at this first: {', '.join(parts)}."
    return f"Nothing stands in the way of training here{': ' + ', '.join(parts) if parts else ''}."


def _facts(checkup: Checkup) -> list[tuple[str, str]]:
    host = checkup.host
    facts = [("GPU", _gpu_text(gpu)) for gpu in host.accelerators] or [("GPU", "none")]
    facts += [("CPU", _cpu_text(host)), ("memory", _memory_text(host)), ("/dev/shm", _shm_text(host))]
    facts.append(("torch", _torch_text(host.torch) if host.torch else checkup.why_no_torch or "not asked"))
    if host.sandbox is not None:
        facts.append(("trials", sandbox_text(host.sandbox.kind)))
    facts += [("storage", _storage_text(storage)) for storage in checkup.storage]
    if checkup.loader is not None:
        facts.append(("loader", _loader_text(checkup.loader, checkup.host.ram_limit_bytes)))
    return facts


def _loader_text(loader: LoaderPlan, ram_limit_bytes: int) -> str:
    text = count_text(loader.num_workers, "worker")
    if loader.num_workers:
        ranks = f" in each of {loader.processes} processes" if loader.processes > 1 else ""
        text += f" x prefetch {loader.prefetch_factor}{ranks}"
        if loader.batch_bytes:
            held = loader.held_batch_bytes
            pinned = f" ({bytes_text(held)} pinned)" if held else ""
            size = f"{bytes_text(loader.batch_bytes)}{pinned}"
            text += f", batches of {size}: {_buffer_text(loader, ram_limit_bytes)}"
    return text + (f" ({loader.taken_from})" if loader.taken_from else "")


def _buffer_text(loader: LoaderPlan, ram_limit_bytes: int) -> str:
    buffered_bytes = loader.processes * buffer_bytes(loader, loader.waiting_bytes or 0)
    share = buffered_bytes / ram_limit_bytes
    share_text = f"{share:.0%}" if share >= 0.01 else "less than 1%"
    return f"buffer {bytes_text(buffered_bytes)} (predicted), {share_text} of the RAM limit"


def _gpu_text(gpu: Accelerator) -> str:
    parts = [f"{gpu.index}: {gpu.name}", bytes_text(gpu.memory_bytes)]
    if gpu.compute_capability:
        parts.append(f"compute capability {gpu.compute_capability}")
    if gpu.pcie is not None and gpu.pcie.lanes is not None:
        best = f" of {gpu.pcie.max_lanes}" if gpu.pcie.max_lanes else ""
        parts.append(f"PCIe x{gpu.pcie.lanes}{best}")
    if gpu.driver:
        parts.append(f"driver {gpu.driver}")
    if gpu.state is not None:
        parts += _state_parts(gpu.state)
    parts.append(f"profile {gpu.profile_id}" if gpu.profile_id else "no profile")
    parts.append(f"seen by {' and '.join('the driver' if by == 'nvml' else by for by in gpu.seen_by)}")
    return ", ".join(parts)


def _state_parts(state: GpuState) -> list[str]:
    parts = []
    if state.temperature_c is not None:
        parts.append(f"{state.temperature_c:.0f} C")
    if state.sm_clock_mhz is not None:
        best = f" of {state.max_sm_clock_mhz:.0f}" if state.max_sm_clock_mhz else ""
        parts.append(f"{state.sm_clock_mhz:.0f}{best} MHz")
    if state.power_w is not None:
        limit = f" of {state.power_limit_w:.0f}" if state.power_limit_w else ""
        parts.append(f"{state.power_w:.0f}{limit} W")
    return parts


def _cpu_text(host: Host) -> str:
    limits = []
    if host.cpus_affinity is not None and host.cpus_affinity < host.cpus_total:
        limits.append(f"affinity {host.cpus_affinity}")
    if host.cpu_quota is not None:
        limits.append(f"quota {host.cpu_quota:g}")
    why = f" ({', '.join(limits)})" if limits else ""
    load = "" if host.load_average is None else f", load average {host.load_average:.1f}"
    name = host.cpu_name or "unknown model"
    nodes = f", {host.numa_nodes} NUMA nodes" if (host.numa_nodes or 1) > 1 else ""
    return f"{host.cpus} of {host.cpus_total} may be used{why}: {name}{nodes}{load}"


def _memory_text(host: Host) -> str:
    is_limited = host.ram_limit_bytes < host.ram_total_bytes
    limit = f" that the cgroup grants of {bytes_text(host.ram_total_bytes)}" if is_limited else ""
    free = "" if host.ram_available_bytes is None else f", {bytes_text(host.ram_available_bytes)} available"
    return f"{bytes_text(host.ram_limit_bytes)}{limit}{free}"


def _shm_text(host: Host) -> str:
    if host.shm_bytes is None:
        return "none"
    used = "" if host.shm_used_bytes is None else f", {bytes_text(host.shm_used_bytes)} used"
    return f"{bytes_text(host.shm_bytes)}{used}"


def _torch_text(build: TorchBuild) -> str:
    if build.cuda_version:
        made_for = f"CUDA {build.cuda_version}"
    else:
        made_for = f"ROCm {build.hip_version}" if build.hip_version else "CPU build"
    cudnn = f", cuDNN {build.cudnn_version}" if build.cudnn_version else ""
    return f"{build.version} ({made_for}{cudnn}), Python {build.python_version}, {build.python}"


def _storage_text(storage: Storage) -> str:
    if storage.kind is StorageKind.NONE:
        return f"{storage.path}: {storage.filesystem}, no storage: the kernel makes up its files"
    more = "" if storage.is_walk_complete else " or more"
    size = f"{count_text(storage.files, 'file')}{more}, {bytes_text(storage.total_bytes)}{more}"
    return "; ".join([f"{storage.path}: {_lies_on(storage)}", size, *_reading(storage)])


def _lies_on(storage: Storage) -> str:
    disk = [f"disk {storage.device}"] if storage.device else []
    kind = "kind unknown" if storage.kind is StorageKind.UNKNOWN else storage.kind.value
    return ", ".join([*disk, kind, storage.filesystem or "unknown file system"])


def _reading(storage: Storage) -> list[str]:
    if storage.kind is StorageKind.MEMORY:
        return ["needs no measurement"]
    if storage.sequential_mb_per_s is None and storage.random_mb_per_s is None:
        return ["not measured"]
    how = {True: "read cold", False: "read from the page cache", None: "read"}[storage.measured_cold]
    cached = storage.cached_share_before
    before = "" if cached is None else f" (before: {cached:.0%} in the page cache)"
    lines = [f"{how}: {storage.rates_text}{before}"]
    if storage.is_virtual:
        lines.append("a virtual disk: its host may cache")
    elif storage.kind is StorageKind.UNKNOWN:
        lines.append("what lies below is not known: it may cache")
    return lines


# --- calibration -----------------------------------------------------------------------------

_SEEN_BY = {
    "process": "the driver's figure of the process, less what torch had reserved",
    "device": "what the whole GPU had more than before, less what torch had reserved: the driver does not "
    "tell of processes here",
}


def calibration_blocks(calibration: Calibration, path: str | None, width: int) -> tuple[Table | Passage, ...]:
    """Return the figures of a calibration and its file; a path of None is one that could not be saved."""
    kept = "stay" if calibration.blas_is_kept else "are given back after each matmul"
    torch = f"torch {calibration.torch_version}, cuDNN {calibration.cudnn_version or 'n/a'}"
    saved = (f"Saved in {path}; predictions for this GPU go by it from now on.",) if path else ()
    lines = (
        f"{torch}, driver {calibration.driver or 'n/a'}.",
        f"Context: {_SEEN_BY[calibration.context_seen_by]}.",
        f"cuBLAS's workspaces {kept}.",
        *saved,
    )
    most = [bytes_text((calibration.workspaces_bytes(bench) or (None, None))[1]) for bench in (False, True)]
    rows = (
        ("CUDA context and libraries", bytes_text(calibration.context_bytes)),
        ("cuBLAS workspace, forward thread", bytes_text(calibration.blas_forward_bytes)),
        ("cuBLAS workspace, backward thread", bytes_text(calibration.blas_backward_bytes)),
        ("cuDNN workspace, at most", most[0]),
        ("  with cudnn.benchmark", most[1]),
    )
    title = printable(f"{calibration.device_name}: memory beside torch's tensors (measured)")
    convolutions = "Convolutions beyond their tensors (measured)"
    return (
        Table(title, ("", ""), rows, (1,)),
        fitted_table(convolutions, _CONVOLUTIONS, calibration.convolutions, width),
        Passage("", tuple(map(printable, lines)), is_apart=True),
    )


_CONVOLUTIONS: tuple[Column[ConvolutionSeen], ...] = (
    Column("shape", lambda one: printable(one.shape), is_numeric=False),
    Column("dtype", lambda one: printable(one.dtype), is_numeric=False),
    Column("benchmark", lambda one: "on" if one.benchmark else "off", is_numeric=False),
    Column("forward", lambda one: bytes_text(one.forward_bytes)),
    Column("backward", lambda one: bytes_text(one.backward_bytes)),
)
