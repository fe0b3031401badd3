"""The checkup of a machine: what is here, what is wrong with it, what GPU memory holds beside tensors."""

from collections.abc import Sequence

from tunekit.predict.ram import buffer_bytes
from tunekit.records.checkup import Checkup, LoaderPlan, Storage, StorageKind
from tunekit.records.finding import WORST_FIRST, Finding, Severity
from tunekit.records.host import Accelerator, GpuState
from tunekit.records.prediction import Calibration, ConvolutionSeen, OpTime
from tunekit.report.blocks import (
    PREDICTED,
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
from tunekit.report.text import SANDBOXES, SEVERITY_WORDS, torch_text, value_text
from tunekit.units import bytes_text, count_text, percent_text, rate_text


def doctor_report(checkup: Checkup, silenced: Sequence[str] = ()) -> Report:
    """Return the report on a checkup, with the codes of ignored findings."""
    return Report(
        "This machine",
        (
            Lead(_answer(checkup.findings)),
            Section("facts", "What is here", "Machine"),
            Facts(tuple(_facts(checkup))),
            Section("findings", "Findings", "Findings"),
            *found_blocks(checkup.findings),
            Line(f"not shown: {', '.join(silenced)}" if silenced else "", is_quiet=True, is_apart=True),
        ),
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
    facts = [(f"GPU {gpu.index}", _gpu_text(gpu)) for gpu in host.accelerators] or [("GPU", "none")]
    load, used = host.load_average, host.shm_used_bytes
    shm = "none" if host.shm_bytes is None else f"{bytes_text(host.shm_bytes)}, {bytes_text(used)} used"
    facts += [
        ("CPU", f"{host.cpus} of {host.cpus_total} available, {host.cpu_name or 'unknown model'}"),
        ("CPU quota", f"{host.cpu_quota:g}" if host.cpu_quota else ""),
        ("NUMA nodes", str(host.numa_nodes) if host.numa_nodes else ""),
        ("load average", "" if load is None else rate_text(load)),
        ("memory limit", f"{bytes_text(host.ram_limit_bytes)} of {bytes_text(host.ram_total_bytes)}"),
        ("memory free", bytes_text(host.ram_available_bytes)),
        ("/dev/shm", shm),
        ("torch", torch if host.torch else checkup.why_no_torch or "not asked"),
        ("trials", "" if host.sandbox is None else SANDBOXES[host.sandbox.kind]),
        *(("storage", storage_text(storage)) for storage in checkup.storage),
    ]
    if checkup.loader is not None:
        facts.append(("loader", _loader_text(checkup.loader, host.ram_limit_bytes)))
    return [(label, text) for label, text in facts if text]


def _of(now: float | None, most: float | None, unit: str) -> str:
    """Return a figure with its limit, such as "8 of 16 W"; nothing where it is unknown."""
    if now is None:
        return ""
    return f"{now:.0f} of {most:.0f} {unit}" if most else f"{now:.0f} {unit}"


def _loader_text(loader: LoaderPlan, ram_limit_bytes: int) -> str:
    taken = f" ({loader.taken_from})" if loader.taken_from else ""
    workers = f"{count_text(loader.num_workers, 'worker')} x prefetch {loader.prefetch_factor or 0}"
    if loader.processes > 1:
        workers += f" in each of {loader.processes} processes"
    if not loader.batch_bytes or not loader.num_workers:
        return workers + taken
    buffered_bytes = loader.processes * buffer_bytes(loader, loader.waiting_bytes or 0)
    buffer = f"{bytes_text(buffered_bytes)} ({percent_text(buffered_bytes / ram_limit_bytes)} of RAM)"
    return f"{workers}, batches of {bytes_text(loader.batch_bytes)}, buffer {buffer} {PREDICTED}{taken}"


def _gpu_text(gpu: Accelerator) -> str:
    pcie, state = gpu.pcie, gpu.state or GpuState()
    texts = (
        gpu.name,
        bytes_text(gpu.memory_bytes),
        f"compute capability {gpu.compute_capability}" if gpu.compute_capability else "",
        _of(pcie.lanes, pcie.max_lanes, "PCIe lanes") if pcie else "",
        f"driver {gpu.driver}" if gpu.driver else "",
        "" if "nvml" in gpu.seen_by else "not seen by the driver",
        _of(state.temperature_c, None, "C"),
        _of(state.sm_clock_mhz, state.max_sm_clock_mhz, "MHz"),
        _of(state.power_w, state.power_limit_w, "W"),
        f"profile {gpu.profile_id}" if gpu.profile_id else "no profile",
    )
    return ", ".join(filter(None, texts))


_HOW_READ = {True: "", False: "from the page cache: ", None: "perhaps from the page cache: "}


def storage_text(storage: Storage) -> str:
    """Return the storage of a data set, its size and the measured rates."""
    kind = f"{storage.kind} disk" if storage.kind is StorageKind.UNKNOWN else storage.kind.value
    lies_on = ", ".join(filter(None, (storage.device, kind, storage.filesystem)))
    at_least = "" if storage.is_walk_complete else "at least "
    size = f"{at_least}{count_text(storage.files, 'file')}, {bytes_text(storage.total_bytes)}"
    if storage.sequential_mb_per_s is None and storage.random_mb_per_s is None:
        return f"{storage.path}: {lies_on}; {size}; not measured"
    return f"{storage.path}: {lies_on}; {size}; {_HOW_READ[storage.measured_cold]}{storage.rates_text}"


# --- calibration -----------------------------------------------------------------------------

_SEEN_BY = {
    "process": "the driver's figure of the process, less what torch had reserved",
    "device": "growth of the whole GPU, less what torch had reserved",
}


def calibration_blocks(calibration: Calibration, path: str | None) -> tuple[Table | Passage, ...]:
    """Return the figures of a calibration and its file; a path of None is one that could not be saved."""
    kept = "stay" if calibration.blas_is_kept else "are given back after each matmul"
    torch = f"torch {calibration.torch_version}, cuDNN {calibration.cudnn_version or 'n/a'}"
    host_s = calibration.host_op_s
    lines = (
        f"{torch}, driver {calibration.driver or 'n/a'}.",
        f"Context: {_SEEN_BY[calibration.context_seen_by]}.",
        f"cuBLAS's workspaces {kept}.",
        *([f"Host: {1e6 * host_s:.1f} us per op of a training step."] if host_s else []),
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
        table_of("Speed of ops (measured)", _OP_TIMES, calibration.op_times),
        Passage("", lines, is_apart=True),
    )


_CONVOLUTIONS: tuple[Column[ConvolutionSeen], ...] = (
    Column("shape", field_text("shape"), is_numeric=False),
    Column("dtype", field_text("dtype"), is_numeric=False),
    Column("benchmark", field_text("benchmark", value_text), is_numeric=False),
    Column("forward", field_text("forward_bytes", bytes_text)),
    Column("backward", field_text("backward_bytes", bytes_text)),
)

_OP_TIMES: tuple[Column[OpTime], ...] = (
    Column("op", lambda one: one.op.name, is_numeric=False),
    Column("dtype", lambda one: one.op.dtype, is_numeric=False),
    Column("us", lambda one: f"{1e6 * one.seconds:,.1f}"),
    Column("TFLOPS", lambda one: f"{one.op.flops / one.seconds / 1e12:,.1f}" if one.op.flops else "n/a"),
    Column("GB/s", lambda one: f"{one.op.moved_bytes / one.seconds / 1e9:,.0f}"),
)
