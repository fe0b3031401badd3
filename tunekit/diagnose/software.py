"""The training command, its Python's torch and the environment that training would inherit."""

import re
from collections.abc import Callable
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

_OMP_NUMBERS = re.compile(r"\s*([0-9]{1,9})(\s*,\s*[0-9]{1,9})*\s*")
"""One number, or one for each level of nested parallelism: OpenMP 5.2, section 21.2.1."""


@check("command-absent", ERROR, "the training command can't be run as it was given")
def _command_absent(machine: Machine) -> Hits:
    if machine.checkup.why_no_command is not None:
        # The reason is an error's words: what is wrong, then "; " and what to do about it.
        reason, _, remedy = machine.checkup.why_no_command.rpartition("; ")
        yield Hit(reason or remedy, remedy if reason else "give the command as you would type it")


# --- torch ----------------------------------------------------------------------------------


@check(
    "torch-absent",
    ERROR,
    "the Python that the command runs has no torch that answers: training can't start with it",
)
def _torch_absent(machine: Machine) -> Hits:
    seen = machine.checkup
    if seen.host.torch is None and seen.why_no_torch is not None and seen.has_python_answered:
        yield Hit(seen.why_no_torch, "install torch there, or give a command whose Python has it")


@check(
    "torch-unknown",
    INFO,
    "the training environment's torch is not known, so it was not held against this machine",
)
def _torch_unknown(machine: Machine) -> Hits:
    seen = machine.checkup
    is_known = seen.host.torch is not None or seen.has_python_answered
    # A program that is not there runs no Python.
    if not is_known and seen.why_no_torch is not None and seen.why_no_command is None:
        yield Hit(
            seen.why_no_torch,
            "give the training environment's Python after --, as in: "
            "tunekit doctor -- /path/to/env/bin/python train.py",
        )


@check(
    "torch-cpu-build", ERROR, "this torch is built without CUDA: it will train on the CPU beside an idle GPU"
)
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
                f"the GPU is sm_{capability.replace('.', '')}; torch {build.version} has "
                + ", ".join(build.architectures),
                f"`tunekit gpus {gpu.profile_id}` names the builds that support it"
                if gpu.profile_id
                else "install a build of torch that supports it: pytorch.org/get-started",
                message=f"this torch holds no code for {gpu.name}: the first kernel will fail",
            )
            return  # the others are of the same kind, or also need another build


@check(
    "no-gpu-telemetry",
    WARNING,
    "torch sees the GPU but the driver's library is silent: no utilisation, power or clocks",
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


def _omp_text(machine: Machine) -> str:
    return machine.environment.get("OMP_NUM_THREADS", "").strip()


def _omp_threads(machine: Machine) -> int | None:
    """Return the threads of the outermost level, None where the variable names none."""
    numbers = _OMP_NUMBERS.fullmatch(_omp_text(machine))
    return int(numbers[1]) if numbers else None


def threads_text(seen: Threads) -> str:
    """Return thread counts and the variables that were set: "2 intra-op, 1 inter-op (OMP_NUM_THREADS=2)"."""
    variables = ", ".join(f"{name}={value}" for name, value in seen.variables.items())
    return f"{seen.intra_op} intra-op, {seen.inter_op} inter-op" + (f" ({variables})" if variables else "")


@check(
    "threads-above-cpus",
    WARNING,
    "torch or OMP_NUM_THREADS asks for more threads than usable CPUs: they contend for them",
)
def _threads_above_cpus(machine: Machine) -> Hits:
    build, cpus, omp_threads = machine.host.torch, machine.host.cpus, _omp_threads(machine)
    if build is not None and build.threads > cpus:
        threads, asked = build.threads, f"torch.get_num_threads() is {build.threads}"
        who = "torch starts"
    elif omp_threads is not None and omp_threads > cpus:
        threads, asked = omp_threads, f"OMP_NUM_THREADS={omp_threads}"
        who = "OMP_NUM_THREADS asks for"
    else:
        return
    yield Hit(
        f"{asked}; affinity and quota allow {count_text(cpus, 'CPU')}",
        f"export OMP_NUM_THREADS={cpus}",
        threads,
        message=f"{who} more threads than usable CPUs: they contend for them",
    )


@check(
    "omp-threads", INFO, "in each loader worker OpenMP libraries other than torch start threads of their own"
)
def _omp_threads_times_workers(machine: Machine) -> Hits:
    loader, cpus, threads = machine.loader, machine.host.cpus, _omp_threads(machine)
    workers = loader.total_workers if loader else 0
    if workers < 2:
        return
    if threads is None:
        if not _omp_text(machine) and cpus > 1:
            yield Hit(
                f"OMP_NUM_THREADS is not set; {count_text(workers, 'worker')} on {cpus} CPUs",
                "if the data set uses them, in worker_init_fn: cv2.setNumThreads(0) and "
                "threadpoolctl.threadpool_limits(1)",
                message="in each loader worker torch uses one thread, but OpenCV, NumPy's BLAS and others "
                "start as many as there are CPUs",
            )
    elif threads * workers > cpus:
        yield Hit(
            f"OMP_NUM_THREADS={threads} x {count_text(workers, 'worker')} = {threads * workers}, "
            f"{count_text(cpus, 'CPU')}",
            "if the data set uses such libraries, in worker_init_fn: threadpoolctl.threadpool_limits"
            f"({max(1, cpus // workers)})",
            threads * workers,
            message="in each loader worker torch uses one thread, but other OpenMP libraries start "
            "OMP_NUM_THREADS: together more than the CPUs",
        )


@check(
    "omp-ignored", WARNING, "OMP_NUM_THREADS is not a number: OpenMP ignores it and starts a thread per CPU"
)
def _omp_ignored(machine: Machine) -> Hits:
    text = _omp_text(machine)
    if text and _omp_threads(machine) is None:
        yield Hit(f"OMP_NUM_THREADS={text!r}", "unset OMP_NUM_THREADS, or export it as a number")


# --- other variables and tools --------------------------------------------------------------


class _Slowing(NamedTuple):
    """A variable that slows training down while it is on."""

    why: str
    is_on: Callable[[str], bool]
    """Whether the variable's text switches it on."""
    needs_nvidia: bool = False


def _is_one(text: str) -> bool:
    return text == "1"


_SLOWING = {
    "CUDA_LAUNCH_BLOCKING": _Slowing("every kernel launch blocks", _is_one, needs_nvidia=True),
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


@check("slow-environment", WARNING, "the environment slows training down")
def _slow_environment(machine: Machine) -> Hits:
    on = {
        name: f"{name}={machine.environment[name]}: {slowing.why}"
        for name, slowing in _SLOWING.items()
        if name in machine.environment and slowing.is_on(machine.environment[name])
        if machine.nvidia_gpus or not slowing.needs_nvidia
    }
    if on:
        yield Hit("; ".join(on.values()), f"unset {' '.join(on)}")


@check("compile-disabled", WARNING, "the environment switches torch.compile off")
def _compile_disabled(machine: Machine) -> Hits:
    switches = ("TORCH_COMPILE_DISABLE", "TORCHDYNAMO_DISABLE")
    on = [name for name in switches if machine.environment.get(name) == "1"]
    if on:
        yield Hit(", ".join(f"{name}=1" for name in on), f"unset {' '.join(on)}")


@check("gpus-hidden", WARNING, "CUDA_VISIBLE_DEVICES hides every GPU there may be")
def _gpus_hidden(machine: Machine) -> Hits:
    chosen = machine.environment.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None and not machine.host.accelerators:
        yield Hit(
            f"CUDA_VISIBLE_DEVICES={chosen!r}",
            "unset CUDA_VISIBLE_DEVICES, or name a GPU that `nvidia-smi -L` lists",
        )


@check(
    "expandable-segments-off",
    INFO,
    "where batches vary in size, the GPU's memory may fragment more than it has to",
)
def _expandable_segments_off(machine: Machine) -> Hits:
    names = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
    name = next((name for name in names if machine.environment.get(name)), names[1])
    text = machine.environment.get(name, "")
    if machine.nvidia_gpus and "expandable_segments:true" not in text.lower():
        kept = re.sub(r",?\s*expandable_segments:\w*", "", text).strip(", ")
        yield Hit(
            f"{name} is {text!r}" if text else f"{name} is not set",
            f"export {name}={kept + ',' if kept else ''}expandable_segments:True",
        )


@check("tf32-forbidden", WARNING, "the environment forbids TF32, whatever the script sets")
def _tf32_forbidden(machine: Machine) -> Hits:
    has_tf32 = machine.profile is not None and "tf32" in machine.profile.native_precisions
    if has_tf32 and machine.environment.get("NVIDIA_TF32_OVERRIDE") == "0":
        yield Hit("NVIDIA_TF32_OVERRIDE=0", "unset NVIDIA_TF32_OVERRIDE")


@check("no-compiler", WARNING, "torch.compile needs a C compiler on a GPU, C++ on the CPU, and there is none")
def _no_compiler(machine: Machine) -> Hits:
    profile = machine.profile
    if machine.checkup.compiler is not None or (profile is not None and profile.compile_supported is False):
        return
    if machine.host.compiles_with_triton:
        yield Hit(
            "PATH holds neither gcc nor clang nor cc, or not what $CC names",
            "install one (apt install gcc), or let $CC name yours",
            message="torch.compile needs a C compiler on this GPU, and there is none",
        )
    else:
        yield Hit(
            "PATH does not hold g++, or not what $CXX names",
            "install one (apt install g++), or let $CXX name yours",
            message="torch.compile needs a C++ compiler on the CPU, and there is none",
        )
