"""Environment variables and tools that change how training runs."""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tunekit.records.checkup import Checkup
from tunekit.records.finding import Finding, Severity
from tunekit.records.profile import Profile

VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
    "CUDA_DEVICE_ORDER",
    "PYTORCH_ALLOC_CONF",
    "PYTORCH_CUDA_ALLOC_CONF",
    "PYTORCH_NO_CUDA_MEMORY_CACHING",
    "TORCH_COMPILE_DISABLE",
    "TORCHDYNAMO_DISABLE",
    "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
    "NVIDIA_TF32_OVERRIDE",
    "NCCL_DEBUG",
    "NCCL_P2P_DISABLE",
    "NCCL_IB_DISABLE",
    "PYTHONMALLOC",
    "PYTHONDEVMODE",
    "LD_PRELOAD",
)
"""Those that are read; what they mean is torch's, CUDA's and NCCL's own documentation.

Some have no finding (MKL_NUM_THREADS, OPENBLAS_NUM_THREADS, TORCH_ALLOW_TF32_CUBLAS_OVERRIDE, NCCL_DEBUG,
LD_PRELOAD): they are kept so that the checkups of two machines can be compared.
"""


class _Slowing(NamedTuple):
    """A variable that slows training down while it is on."""

    why: str
    is_on: Callable[[str], bool]
    """Whether the variable's text switches it on."""
    needs_nvidia: bool = False


def _is_one(text: str) -> bool:
    return text == "1"


_SLOWING = {
    "CUDA_LAUNCH_BLOCKING": _Slowing("every kernel is waited for", _is_one, needs_nvidia=True),
    # CUDACachingAllocator looks only whether it is set.
    "PYTORCH_NO_CUDA_MEMORY_CACHING": _Slowing(
        "every tensor is allocated by the driver anew", lambda text: True, needs_nvidia=True
    ),
    # OFF and INFO check nothing.
    "TORCH_DISTRIBUTED_DEBUG": _Slowing("every collective is checked", lambda text: text.upper() == "DETAIL"),
    "NCCL_P2P_DISABLE": _Slowing("GPUs don't talk to each other directly", _is_one, needs_nvidia=True),
    "NCCL_IB_DISABLE": _Slowing("InfiniBand is not used", _is_one, needs_nvidia=True),
    # Any text that is not empty, "0" too: python(1).
    "PYTHONDEVMODE": _Slowing("Python checks itself", lambda text: text != ""),
    "PYTHONMALLOC": _Slowing("Python checks its memory", lambda text: text.endswith("debug")),
}


def environment_findings(checkup: Checkup, profile: Profile | None) -> list[Finding]:
    """Return what is wrong with the environment that training would inherit."""
    environment = checkup.environment
    has_nvidia = any("nvml" in gpu.seen_by for gpu in checkup.host.accelerators)
    found = [
        _slowing(environment, has_nvidia),
        _compile_disabled(environment),
        _hidden_gpus(checkup),
        _segments(environment) if has_nvidia else None,
        _tf32_forced_off(environment, profile),
        _no_compiler(checkup, profile),
    ]
    return [finding for finding in found if finding is not None]


def _slowing(environment: Mapping[str, str], has_nvidia: bool) -> Finding | None:
    on = {
        name: f"{name}={environment[name]}: {slowing.why}"
        for name, slowing in _SLOWING.items()
        if name in environment
        and slowing.is_on(environment[name])
        and (has_nvidia or not slowing.needs_nvidia)
    }
    if not on:
        return None
    return Finding(
        code="slow-environment",
        severity=Severity.WARNING,
        message="the environment slows training down",
        evidence="; ".join(on.values()),
        remedy=f"unset {' '.join(on)}",
    )


def _compile_disabled(environment: Mapping[str, str]) -> Finding | None:
    switches = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")
    names = [name for name in switches if environment.get(name) == "1"]
    if not names:
        return None
    return Finding(
        code="compile-disabled",
        severity=Severity.WARNING,
        message="torch.compile is switched off by the environment: it will compile nothing",
        evidence=", ".join(f"{name}=1" for name in names),
        remedy=f"unset {' '.join(names)}",
    )


def _hidden_gpus(checkup: Checkup) -> Finding | None:
    chosen = checkup.environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is None or checkup.host.accelerators:
        return None
    return Finding(
        code="gpus-hidden",
        severity=Severity.WARNING,
        message="CUDA_VISIBLE_DEVICES hides every GPU there may be",
        evidence=f"CUDA_VISIBLE_DEVICES={chosen!r}",
        remedy="unset CUDA_VISIBLE_DEVICES, or name a GPU that `nvidia-smi -L` lists",
    )


def _segments(environment: Mapping[str, str]) -> Finding | None:
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    name = next((name for name in names if environment.get(name)), names[1])
    text = environment.get(name, "")
    if "expandable_segments:true" in text.lower():
        return None
    kept = re.sub(r",?\s*expandable_segments:\w*", "", text).strip(", ")
    return Finding(
        code="expandable-segments-off",
        severity=Severity.INFO,
        message="where batches vary in size, the GPU's memory may fragment more than it has to",
        evidence=f"{name} is {text!r}" if text else f"{name} is not set",
        remedy=f"export {name}={kept + ',' if kept else ''}expandable_segments:True",
    )


def _tf32_forced_off(environment: Mapping[str, str], profile: Profile | None) -> Finding | None:
    if environment.get("NVIDIA_TF32_OVERRIDE") != "0":
        return None
    if profile is None or "tf32" not in profile.native_precisions:
        return None
    return Finding(
        code="tf32-forbidden",
        severity=Severity.WARNING,
        message="the environment forbids TF32, whatever the script sets",
        evidence="NVIDIA_TF32_OVERRIDE=0",
        remedy="unset NVIDIA_TF32_OVERRIDE",
    )


def _no_compiler(checkup: Checkup, profile: Profile | None) -> Finding | None:
    if checkup.compiler is not None or (profile is not None and profile.compile_supported is False):
        return None
    if checkup.host.compiles_with_triton:
        return Finding(
            code="no-compiler",
            severity=Severity.WARNING,
            message="torch.compile needs a C compiler on this GPU, and there is none",
            evidence="PATH holds neither gcc nor clang nor cc, or not what $CC names",
            remedy="install one (apt install gcc), or let $CC name yours",
        )
    return Finding(
        code="no-compiler",
        severity=Severity.WARNING,
        message="torch.compile needs a C++ compiler on the CPU, and there is none",
        evidence="PATH does not hold g++, or not what $CXX names",
        remedy="install one (apt install g++), or let $CXX name yours",
    )
