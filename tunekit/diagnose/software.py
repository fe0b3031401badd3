"""Checks the training command, its Python's torch, and the environment that training would inherit."""

import re

from tunekit.diagnose.machine import Machine
from tunekit.diagnose.registry import ERROR, INFO, WARNING, Hit, Hits, check
from tunekit.records.measurement import Threads
from tunekit.units import count_text


@check("command-absent", ERROR, "the training command can't be run as it was given")
def _command_absent(machine: Machine) -> Hits:
    if machine.checkup.why_no_command is not None:
        yield Hit(machine.checkup.why_no_command, "give the command as you would type it")


@check("other-tunekit", WARNING, "another project's package `tunekit` is installed next to this one")
def _other_tunekit(machine: Machine) -> Hits:
    if (version := machine.checkup.other_tunekit) is not None:
        seen = f"tunekit {version} of the package index has the same command and files"
        yield Hit(seen, "pip uninstall tunekit tunekit-torch, then install this one again from its clone")


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
    # A missing program is reported by command-absent.
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
    """Return whether a torch build has code that a GPU can run.

    Machine code ("sm_86") runs on GPUs of the same major version and the same or a higher minor one, unless
    it is bound to an architecture ("sm_90a") or to its family ("sm_100f"); PTX ("compute_80") is compiled by
    the driver for anything as new or newer. Source: NVIDIA, CUDA C++ Programming Guide, "Binary
    Compatibility" and "PTX Compatibility".

    Args:
        architectures: as returned by torch.cuda.get_arch_list().
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
    known = {gpu.compute_capability or "": gpu.name for gpu in machine.nvidia_gpus}
    capabilities = (one for one in known if re.fullmatch(r"[0-9]+\.[0-9]+", one))
    old = [one for one in capabilities if not has_code_for(build.architectures, one)]
    if old:
        yield Hit(
            f"{known[old[0]]}: {old[0]}; torch {build.version} has {', '.join(build.architectures)}",
            "install a build of torch that supports it: pytorch.org/get-started",
        )


@check(
    "no-gpu-telemetry", WARNING, "the driver's library does not show the GPU: no utilization, power or clocks"
)
def _no_gpu_telemetry(machine: Machine) -> Hits:
    build = machine.host.torch
    unseen = [gpu.name for gpu in machine.host.accelerators if gpu.seen_by == ("torch",)]
    if unseen and build is not None and build.cuda_version is not None:
        remedy = (
            "make libnvidia-ml.so.1 visible in the container (NVIDIA_DRIVER_CAPABILITIES=compute,utility)"
        )
        yield Hit(f"only torch sees {unseen[0]}", remedy)


@check("tf32-off", INFO, "fp32 matrix products don't use the tensor cores unless the script says so")
def _tf32_off(machine: Machine) -> Hits:
    build, has_tf32 = machine.host.torch, machine.has_tf32
    if has_tf32 and build and build.devices and build.float32_matmul_precision == "highest":
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
    asked = int(omp) if re.fullmatch("[0-9]{1,9}", omp) else 0
    threads = max(asked, build.threads if build else 0)
    if threads > cpus:
        seen = f"{threads} threads; affinity and quota allow {count_text(cpus, 'CPU')}"
        yield Hit(seen, f"export OMP_NUM_THREADS={cpus}", threads)


# --- other variables and tools --------------------------------------------------------------


_SLOWING = {
    "CUDA_LAUNCH_BLOCKING": ("1", "every kernel launch blocks"),
    # CUDACachingAllocator only checks whether it is set.
    "PYTORCH_NO_CUDA_MEMORY_CACHING": (".*", "the driver allocates every tensor"),
    "TORCH_DISTRIBUTED_DEBUG": ("(?i)detail", "every collective is checked"),
    "NCCL_P2P_DISABLE": ("1", "GPUs don't talk to each other directly"),
    "NCCL_IB_DISABLE": ("1", "InfiniBand is not used"),
    "NVIDIA_TF32_OVERRIDE": ("0", "TF32 is off whatever the script sets"),
    "TORCH_COMPILE_DISABLE": ("1", "torch.compile is off"),
    "TORCHDYNAMO_DISABLE": ("1", "torch.compile is off"),
    # Any non-empty text turns it on, even "0": see python(1).
    "PYTHONDEVMODE": (".+", "Python checks itself"),
    "PYTHONMALLOC": (".*debug", "Python checks its memory"),
}
"""Variables that slow training down, each with the pattern of the values that turn it on, and why."""
VARIABLES = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "CUDA_VISIBLE_DEVICES"),
    *("CUDA_DEVICE_ORDER", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"),
    *("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "NCCL_DEBUG", "LD_PRELOAD", *_SLOWING),
)
"""Variables that a checkup reads; those without a finding serve to compare the checkups of two machines."""
_OF_NVIDIA = ("CUDA", "PYTORCH_NO_CUDA", "NCCL")


@check("slow-environment", WARNING, "the environment slows training down")
def _slow_environment(machine: Machine) -> Hits:
    on = {}
    for name, (pattern, why) in _SLOWING.items():
        value = machine.environment.get(name)
        matters = machine.nvidia_gpus or not name.startswith(_OF_NVIDIA)
        if name == "NVIDIA_TF32_OVERRIDE":
            matters = machine.has_tf32
        if value is not None and matters and re.fullmatch(pattern, value):
            on[name] = f"{name}={value}: {why}"
    if on:
        yield Hit("; ".join(on.values()), f"unset {' '.join(on)}")


@check("gpus-hidden", WARNING, "CUDA_VISIBLE_DEVICES hides every GPU there may be")
def _gpus_hidden(machine: Machine) -> Hits:
    chosen = machine.environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None and not machine.host.accelerators:
        remedy = "unset CUDA_VISIBLE_DEVICES, or name a GPU that `nvidia-smi -L` lists"
        yield Hit(f"CUDA_VISIBLE_DEVICES={chosen!r}", remedy)


@check("no-compiler", WARNING, "torch.compile needs a C compiler on a GPU, C++ on a CPU; none was found")
def _no_compiler(machine: Machine) -> Hits:
    can_compile = machine.profile is None or machine.profile.compile_supported is not False
    if machine.checkup.compiler is None and can_compile:
        variable, name = ("CC", "gcc") if machine.host.compiles_with_triton else ("CXX", "g++")
        remedy = f"install one (apt install {name}), or let ${variable} name yours"
        yield Hit(f"PATH has no {name}, or lacks the program that ${variable} names", remedy)
