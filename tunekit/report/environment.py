"""Where and how a run was measured, and how to do it again. Pure."""

from tunekit.plain_text import printable
from tunekit.records.run import Run
from tunekit.report.table import Table
from tunekit.report.text import host_text, own_precision_text, sandbox_text, target_text
from tunekit.units import bytes_text, count_text, duration_text


def environment_table(run: Run) -> Table:
    """Return what the figures belong to: machine, software, script."""
    host, torch, target = run.host, run.host.torch, run.target
    rows = [
        ("target", f"built-in workload {target.builtin}" if target.builtin else target_text(target)),
        ("script", _script(run)),
        ("asked for", run.profile.id),
        ("measured on", run.measured_on),
        ("machine", host_text(host)),
        ("CPU", host.cpu_name or "n/a"),
        ("GPU driver", ", ".join(sorted({gpu.driver for gpu in host.accelerators if gpu.driver})) or "n/a"),
        ("processes that train together", str(run.world_size)),
        ("RAM limit of each", bytes_text(run.rank_host.ram_limit_bytes)),
        ("platform", host.platform),
        ("Python", torch.python_version if torch else host.python_version),
        ("torch", torch_text(run)),
        ("precision of the script", _own_precision(run)),
        ("trials", sandbox_text(host.sandbox.kind) if host.sandbox else "n/a"),
        ("tunekit", run.tunekit_version),
        ("started", run.created_at),
    ]
    return Table("Environment", ("", ""), tuple((name, printable(text)) for name, text in rows))


def torch_text(run: Run) -> str:
    """Return the training environment's torch with what it computes by; "n/a" where it was not asked."""
    torch = run.host.torch
    if torch is None:
        return "n/a"
    told = [torch.version]
    if torch.hip_version:
        told.append(f"ROCm {torch.hip_version}")
    else:
        told.append(f"CUDA {torch.cuda_version}" if torch.cuda_version else "no CUDA")
    if torch.cudnn_version:
        told.append(f"cuDNN {torch.cudnn_version}")
    return ", ".join(told)


def _own_precision(run: Run) -> str:
    return own_precision_text(run.baseline_config, run.discovery) if run.baseline_config else "n/a"


def _script(run: Run) -> str:
    if run.target.script is None:
        return "n/a"
    digest = run.target.script_sha256
    return run.target.script + (f", SHA-256 {digest[:16]}..." if digest else "")


def method_lines(run: Run) -> tuple[str, ...]:
    """Return how the figures came about, a sentence each."""
    asked = run.options
    rounds = count_text(asked.confirm_rounds, "round")
    lines = [
        "Every trial is a process of its own that runs the command as it is; knobs are set from inside, and "
        f"a steady window of about {duration_text(asked.window_s)} is measured after warm-up.",
        "Rates are samples/s consumed by optimizer steps over whole epochs, epoch boundaries included.",
        f"What is recommended was run again in at most {rounds} of fresh processes, interleaved with the "
        "baseline. Ranges are 95% intervals of log ratios; a difference counts only beyond the noise floor "
        "of baseline against baseline.",
        "Measured figures are drawn solid; predicted ones are dashed or hatched, and say so.",
    ]
    if run.why_stopped:
        lines.append(printable(f"Why the search ended: {run.why_stopped}."))
    if run.cut_short:
        lines.append(printable(f"What the budget could not hold: {run.cut_short}."))
    return tuple(lines)
