"""The training environment's torch, held against the machine that it is to run on."""

import re

from tunekit.records.checkup import Checkup
from tunekit.records.finding import Finding, Severity
from tunekit.records.host import Accelerator, TorchBuild
from tunekit.records.profile import Profile
from tunekit.units import count_text


def torch_findings(checkup: Checkup, profile: Profile | None) -> list[Finding]:
    """Return what is wrong with torch: absent, built for other hardware, or blind to the GPU."""
    build = checkup.host.torch
    if build is None:
        if checkup.why_no_torch is None:
            return []
        if checkup.why_no_command is not None and not checkup.has_python_answered:
            return []  # a program that is not there runs no Python
        return [
            _absent(checkup.why_no_torch) if checkup.has_python_answered else _unknown(checkup.why_no_torch)
        ]
    gpus = tuple(gpu for gpu in checkup.host.accelerators if "nvml" in gpu.seen_by)
    found = [
        _blind(build, gpus),
        _without_architecture(build, gpus),
        _no_telemetry(checkup),
        _threads(checkup, build),
        _tf32_off(build, profile),
    ]
    return [finding for finding in found if finding is not None]


def has_code_for(architectures: tuple[str, ...], capability: str) -> bool:
    """Return whether a torch build holds code that a GPU can run.

    Machine code ("sm_86") runs on GPUs of the same major version and the same or a higher minor one, unless
    it is bound to an architecture ("sm_90a") or to its family ("sm_100f"); PTX ("compute_80") is compiled by
    the driver for anything as new or newer. Source: NVIDIA, CUDA C++ Programming Guide, "Binary
    Compatibility" and "PTX Compatibility".

    Args:
        architectures: as torch.cuda.get_arch_list() has them.
        capability: the GPU's compute capability, such as "8.9".
    """
    major, minor = (int(part) for part in capability.split("."))
    for name in architectures:
        found = re.fullmatch(r"(sm|compute)_([0-9]+)([0-9])([af]?)", name)
        if found is None:
            continue
        has_major, has_minor = int(found[2]), int(found[3])
        if found[4] == "a":
            fits = (has_major, has_minor) == (major, minor)
        elif found[1] == "sm" or found[4] == "f":
            fits = has_major == major and has_minor <= minor
        else:
            fits = (has_major, has_minor) <= (major, minor)
        if fits:
            return True
    return False


def _absent(reason: str) -> Finding:
    return Finding(
        code="torch-absent",
        severity=Severity.ERROR,
        message="the Python that the command runs has no torch that answers: training can't start with it",
        evidence=reason,
        remedy="install torch there, or give a command whose Python has it",
    )


def _unknown(reason: str) -> Finding:
    return Finding(
        code="torch-unknown",
        severity=Severity.INFO,
        message="the training environment's torch is not known, so it was not held against this machine",
        evidence=reason,
        remedy=(
            "give the training environment's Python after --, as in: "
            "tunekit doctor -- /path/to/env/bin/python train.py"
        ),
    )


def _blind(build: TorchBuild, gpus: tuple[Accelerator, ...]) -> Finding | None:
    if not gpus or build.devices:
        return None
    if build.cuda_version is None:
        return Finding(
            code="torch-cpu-build",
            severity=Severity.ERROR,
            message="this torch is built without CUDA: it will train on the CPU beside an idle GPU",
            evidence=f"torch {build.version} in {build.python}; the driver shows {gpus[0].name}",
            remedy="install the CUDA build for your driver: pytorch.org/get-started",
        )
    return Finding(
        code="torch-sees-no-gpu",
        severity=Severity.ERROR,
        message="torch can't use the GPU that the driver shows",
        evidence=(
            f"torch {build.version} for CUDA {build.cuda_version}, driver {gpus[0].driver or 'n/a'}: "
            + (build.problem or "torch.cuda.is_available() is False and says no more")
        ),
        remedy="update the driver, or install a torch built for an older CUDA",
    )


def _without_architecture(build: TorchBuild, gpus: tuple[Accelerator, ...]) -> Finding | None:
    if build.cuda_version is None or not build.architectures:
        return None
    lacking = [
        gpu
        for gpu in gpus
        if re.fullmatch(r"[0-9]+\.[0-9]+", capability := gpu.compute_capability or "")
        and not has_code_for(build.architectures, capability)
    ]
    if not lacking:
        return None
    gpu = lacking[0]
    return Finding(
        code="torch-lacks-architecture",
        severity=Severity.ERROR,
        message=f"this torch holds no code for {gpu.name}: the first kernel will fail",
        evidence=(
            f"the GPU is sm_{(gpu.compute_capability or '').replace('.', '')}; torch {build.version} has "
            + ", ".join(build.architectures)
        ),
        remedy=f"`tunekit gpus {gpu.profile_id}` names the builds that support it"
        if gpu.profile_id
        else "install a build of torch that supports it: pytorch.org/get-started",
    )


def _no_telemetry(checkup: Checkup) -> Finding | None:
    unseen = [gpu for gpu in checkup.host.accelerators if gpu.seen_by == ("torch",)]
    build = checkup.host.torch
    if not unseen or build is None or build.hip_version is not None:
        return None
    if any(device.type == "mps" for device in build.devices):
        return None
    return Finding(
        code="no-gpu-telemetry",
        severity=Severity.WARNING,
        message="torch sees the GPU but the driver's library is silent: no utilisation, power or clocks",
        evidence=f"{unseen[0].name} is seen by torch alone",
        remedy="make libnvidia-ml.so.1 visible in the container (NVIDIA_DRIVER_CAPABILITIES=compute,utility)",
    )


def _threads(checkup: Checkup, build: TorchBuild) -> Finding | None:
    cpus = checkup.host.cpus
    if build.threads <= cpus:
        return None
    return Finding(
        code="threads-above-cpus",
        severity=Severity.WARNING,
        message="torch starts more threads than CPUs may be used: they fight over them",
        evidence=(
            f"torch.get_num_threads() is {build.threads}; affinity and quota allow {count_text(cpus, 'CPU')}"
        ),
        remedy=f"export OMP_NUM_THREADS={cpus}",
        value=build.threads,
    )


def _tf32_off(build: TorchBuild, profile: Profile | None) -> Finding | None:
    has_tf32 = profile is not None and "tf32" in profile.native_precisions
    if not has_tf32 or not build.devices or build.float32_matmul_precision != "highest":
        return None
    return Finding(
        code="tf32-off",
        severity=Severity.INFO,
        message="fp32 matrix products don't use the tensor cores unless the script says so",
        evidence='torch.get_float32_matmul_precision() is "highest", its default',
        remedy='torch.set_float32_matmul_precision("high") in the script; `tunekit search` tries it as tf32',
    )
