"""The training command, its Python's torch and the environment that training would inherit."""

import re
from typing import NamedTuple

from tunekit.diagnose.machine import Machine
from tunekit.diagnose.registry import ERROR, INFO, WARNING, Hit, Hits, check
from tunekit.records.measurement import Threads
from tunekit.units import count_text

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


@check("command-absent", ERROR, "the training command can't be run as it was given")
def _command_absent(machine: Machine) -> Hits:
    if machine.checkup.why_no_command is not None:
        yield Hit(machine.checkup.why_no_command, "give the command as you would type it")


@check("other-tunekit", WARNING, "another project's package `tunekit` is installed beside this one")
def _other_tunekit(machine: Machine) -> Hits:
    if machine.checkup.other_tunekit is not None:
        yield Hit(
            f"tunekit {machine.checkup.other_tunekit} of the package index has the same command and files",
            "pip uninstall tunekit tunekit-torch, then install this one again from its clone",
        )


# --- torch ----------------------------------------------------------------------------------


@check("torch-absent", ERROR, "the command's Python has no torch that works: training can't start")
def _torch_absent(machine: Machine) -> Hits:
    seen = machine.checkup
    if seen.host.torch is None and seen.why_no_torch is not None and seen.has_python_answered:
        yield Hit(seen.why_no_torch, "install torch there, or give a command whose Python has it")


@check("torch-unknown", INFO, "the training environment's torch is unknown, so it was not checked")
def _torch_unknown(machine: Machine) -> Hits:
    seen = machine.checkup
    is_known = seen.host.torch is not None or seen.has_python_answered
    # A program that is not there runs no Python.
    if not is_known and seen.why_no_torch is not None and seen.why_no_command is None:
        yield Hit(seen.why_no_torch, "name its Python: tunekit doctor -- /path/to/env/bin/python train.py")


@check("torch-cpu-build", ERROR, "this torch is built without CUDA: it will train on the CPU")
def _torch_cpu_build(machine: Machine) -> Hits:
    build, gpus = machine.host.torch, machine.nvidia_gpus
    if build is not None and gpus and not build.devices and build.cuda_version is None:
        yield Hit(
            f"torch {build.version} in {build.python}; the driver shows {gpus[0].name}",
            "install the CUDA build for your driver: pytorch.org/get-started",
        )


@check("torch-sees-no-gpu", ERROR, "torch can't use the GPU that the driver shows")
def _torch_sees_no_gpu(machine: Machine) -> Hits:
    build, gpus = machine.host.torch, machine.nvidia_gpus
    if build is not None and gpus and not build.devices and build.cuda_version is not None:
        yield Hit(
            f"torch {build.version} for CUDA {build.cuda_version}, driver {gpus[0].driver or 'n/a'}: "
            + (build.problem or "torch.cuda.is_available() is False and says no more"),
            "update the driver, or install a torch built for an older CUDA",
        )


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
    known = (re.fullmatch(r"(sm|compute)_([0-9]+)([0-9])([af]?)", name) for name in architectures)
    for kind, has_major, has_minor, bound in (one.groups() for one in known if one):
        has = (int(has_major), int(has_minor))
        is_same_major = has[0] == major or (kind == "compute" and bound == "")
        if has <= (major, minor) and is_same_major and (bound != "a" or has == (major, minor)):
            return True
    return False


@check("torch-lacks-architecture", ERROR, "this torch holds no code for the GPU: the first kernel will fail")
def _torch_lacks_architecture(machine: Machine) -> Hits:
    build = machine.host.torch
    if build is None or build.cuda_version is None or not build.architectures:
        return
    for gpu in machine.nvidia_gpus:
        capability = gpu.compute_capability or ""
        is_known = re.fullmatch(r"[0-9]+\.[0-9]+", capability)
        if is_known and not has_code_for(build.architectures, capability):
            yield Hit(
                f"{gpu.name} is sm_{capability.replace('.', '')}; torch {build.version} has "
                + ", ".join(build.architectures),
                "install a build of torch that supports it: pytorch.org/get-started",
            )
            return  # the others are of the same kind, or also need another build


@check(
    "no-gpu-telemetry", WARNING, "the driver's library does not show the GPU: no utilization, power or clocks"
)
def _no_gpu_telemetry(machine: Machine) -> Hits:
    build = machine.host.torch
    unseen = [gpu for gpu in machine.host.accelerators if gpu.seen_by == ("torch",)]
    if not unseen or build is None or build.hip_version is not None:
        return
    if all(device.type != "mps" for device in build.devices):
        yield Hit(
            f"{unseen[0].name} is seen by torch alone",
            "make libnvidia-ml.so.1 visible in the container (NVIDIA_DRIVER_CAPABILITIES=compute,utility)",
        )


@check("tf32-off", INFO, "fp32 matrix products don't use the tensor cores unless the script says so")
def _tf32_off(machine: Machine) -> Hits:
    build, profile = machine.host.torch, machine.profile
    if profile is None or "tf32" not in profile.native_precisions:
        return
    if build is not None and build.devices and build.float32_matmul_precision == "highest":
        yield Hit(
            'torch.get_float32_matmul_precision() is "highest", its default',
            'torch.set_float32_matmul_precision("high") in the script; `tunekit search` tries it as tf32',
        )


# --- threads --------------------------------------------------------------------------------


def threads_text(seen: Threads) -> str:
    """Return thread counts and the variables that were set: "2 intra-op, 1 inter-op (OMP_NUM_THREADS=2)"."""
    variables = ", ".join(f"{name}={value}" for name, value in seen.variables.items())
    return f"{seen.intra_op} intra-op, {seen.inter_op} inter-op" + (f" ({variables})" if variables else "")


@check("threads-above-cpus", WARNING, "torch or OMP_NUM_THREADS asks for more threads than usable CPUs")
def _threads_above_cpus(machine: Machine) -> Hits:
    build, cpus, omp = machine.host.torch, machine.host.cpus, machine.environment.get("OMP_NUM_THREADS", "")
    asked = {"torch.get_num_threads() is ": build.threads if build else 0}
    asked["OMP_NUM_THREADS="] = int(omp) if re.fullmatch("[0-9]{1,9}", omp) else 0
    seen, threads = next(((name, count) for name, count in asked.items() if count > cpus), ("", 0))
    if threads:
        text = f"{seen}{threads}; affinity and quota allow {count_text(cpus, 'CPU')}"
        yield Hit(text, f"export OMP_NUM_THREADS={cpus}", threads)


# --- other variables and tools --------------------------------------------------------------


class _Slowing(NamedTuple):
    """A variable that slows training down while it is on."""

    why: str
    on: str
    """Pattern of the texts that switch it on."""
    needs: str | None = None
    """Only matters on such a machine: "nvidia" or "tf32"."""


_SLOWING = {
    "CUDA_LAUNCH_BLOCKING": _Slowing("every kernel launch blocks", "1", "nvidia"),
    # CUDACachingAllocator looks only whether it is set.
    "PYTORCH_NO_CUDA_MEMORY_CACHING": _Slowing("the driver allocates every tensor", ".*", "nvidia"),
    "TORCH_DISTRIBUTED_DEBUG": _Slowing("every collective is checked", "(?i)detail"),
    "NCCL_P2P_DISABLE": _Slowing("GPUs don't talk to each other directly", "1", "nvidia"),
    "NCCL_IB_DISABLE": _Slowing("InfiniBand is not used", "1", "nvidia"),
    "NVIDIA_TF32_OVERRIDE": _Slowing("TF32 is off whatever the script sets", "0", "tf32"),
    "TORCH_COMPILE_DISABLE": _Slowing("torch.compile is off", "1"),
    "TORCHDYNAMO_DISABLE": _Slowing("torch.compile is off", "1"),
    # Any text that is not empty, "0" too: python(1).
    "PYTHONDEVMODE": _Slowing("Python checks itself", ".+"),
    "PYTHONMALLOC": _Slowing("Python checks its memory", ".*debug"),
}


@check("slow-environment", WARNING, "the environment slows training down")
def _slow_environment(machine: Machine) -> Hits:
    tf32 = machine.profile is not None and "tf32" in machine.profile.native_precisions
    here = {None: True, "nvidia": bool(machine.nvidia_gpus), "tf32": tf32}
    on = {
        name: f"{name}={machine.environment[name]}: {slowing.why}"
        for name, slowing in _SLOWING.items()
        if name in machine.environment and re.fullmatch(slowing.on, machine.environment[name])
        if here[slowing.needs]
    }
    if on:
        yield Hit("; ".join(on.values()), f"unset {' '.join(on)}")


@check("gpus-hidden", WARNING, "CUDA_VISIBLE_DEVICES hides every GPU there may be")
def _gpus_hidden(machine: Machine) -> Hits:
    chosen = machine.environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None and not machine.host.accelerators:
        yield Hit(
            f"CUDA_VISIBLE_DEVICES={chosen!r}",
            "unset CUDA_VISIBLE_DEVICES, or name a GPU that `nvidia-smi -L` lists",
        )


@check("no-compiler", WARNING, "torch.compile needs a C compiler on a GPU, C++ on the CPU, and there is none")
def _no_compiler(machine: Machine) -> Hits:
    profile = machine.profile
    if machine.checkup.compiler is not None or (profile is not None and profile.compile_supported is False):
        return
    uses_triton = machine.host.compiles_with_triton
    programs, variable, package = ("gcc, clang or cc", "CC", "gcc") if uses_triton else ("g++", "CXX", "g++")
    yield Hit(
        f"PATH does not hold {programs}, or not what ${variable} names",
        f"install one (apt install {package}), or let ${variable} name yours",
    )
