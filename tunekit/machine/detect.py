"""Detects this machine's GPUs, CPU, memory, and the limits on them."""

import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tunekit.machine.gpu.nvml import Nvml
from tunekit.machine.gpu.visible import accelerators_of_driver, merged
from tunekit.machine.host import limits
from tunekit.machine.profiles import load_profiles
from tunekit.records.host import Host, TorchBuild
from tunekit.records.profile import Profile

_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""The first two are x86 features, the third is Arm's."""


def detect_host(
    nvml: Nvml | None = None,
    profiles: Mapping[str, Profile] | None = None,
    root: Path = limits.ROOT,
    torch: TorchBuild | None = None,
) -> Host:
    """Return the resources of this machine that this process may use.

    GPUs come in the order in which CUDA numbers them under CUDA_VISIBLE_DEVICES, followed by those that only
    torch sees. Torch is not imported; if GPU models differ, only torch knows the order (`is_order_known`).

    Args:
        nvml: the driver to ask; the real one by default.
        profiles: the profiles to match the GPUs with; by default all that `load_profiles` finds.
        root: the folder under which /proc, /sys and /dev are read.
        torch: what the training environment's torch reported, if it was asked.

    Raises:
        DamagedRecordError: a profile file is invalid.
        UsageError: $TUNEKIT_PROFILES names something that is not a folder.
    """
    known = load_profiles() if profiles is None else profiles
    ram_total_bytes = limits.ram_total_bytes(root)
    accelerators, models = accelerators_of_driver(nvml or Nvml(), known, ram_total_bytes, root, torch)
    cpus = limits.cpus_allowed(root)
    return Host(
        hostname=socket.gethostname(),
        cpus=cpus,
        cpus_total=max(cpus, os.cpu_count() or 1),
        cpus_affinity=limits.cpus_in_affinity(),
        cpu_quota=limits.cgroup_cpu_quota(root),
        numa_nodes=limits.numa_nodes(root),
        cpu_name=cpu_name(root),
        cpu_bf16_native=cpu_has_native_bf16(root),
        is_virtual=is_virtual_machine(root),
        ram_limit_bytes=limits.ram_limit_bytes(root),
        ram_total_bytes=ram_total_bytes,
        ram_available_bytes=limits.ram_available_bytes(root),
        shm_bytes=limits.shm_bytes(root),
        shm_used_bytes=limits.shm_used_bytes(root),
        open_files_limit=limits.open_files_limit(),
        load_average=limits.load_average(root),
        accelerators=merged(accelerators, torch, known, ram_total_bytes),
        gpu_models=models,
        platform=platform.platform(),
        python_version=platform.python_version(),
        torch=torch,
    )


def has_gpu_file(root: Path = limits.ROOT) -> bool:
    """Return whether /dev has a GPU driver's file: NVIDIA's, AMD's, or that of Windows under WSL."""
    return any((root / "dev" / name).exists() for name in ("nvidiactl", "nvidia0", "kfd", "dxg"))


def c_compiler(environment: Mapping[str, str]) -> str | None:
    """Return the C compiler that Triton, the GPU code generator, would find: $CC, else the usual ones."""
    return _compiler(environment, "CC", ("gcc", "clang", "cc"))


def cpp_compiler(environment: Mapping[str, str]) -> str | None:
    """Return the C++ compiler that Inductor would use for CPU code: $CXX, else the system's default."""
    return _compiler(environment, "CXX", ("clang++" if sys.platform == "darwin" else "g++",))


def cpu_name(root: Path = limits.ROOT) -> str | None:
    """Return the CPU's model name; None where the kernel does not report it (most Arm machines)."""
    return _cpu_field(root, "model name")


def cpu_has_native_bf16(root: Path = limits.ROOT) -> bool | None:
    """Return whether the CPU multiplies bf16 in hardware; None where the kernel lists no features."""
    features = _cpu_field(root, "flags|Features")
    return None if features is None else not _BF16_FLAGS.isdisjoint(features.split())


def is_virtual_machine(root: Path = limits.ROOT) -> bool | None:
    """Return whether the CPU reports a hypervisor; None where the kernel lists no x86 features."""
    features = _cpu_field(root, "flags")
    return None if features is None else "hypervisor" in features.split()


def _compiler(environment: Mapping[str, str], variable: str, usual: Sequence[str]) -> str | None:
    wanted = [environment[variable]] if environment.get(variable) else usual
    found = (shutil.which(name, path=environment.get("PATH")) for name in wanted)
    return next((program for program in found if program), None)


def _cpu_field(root: Path, names: str) -> str | None:
    text = limits.text_of(root / "proc/cpuinfo") or ""
    found = re.search(rf"^(?:{names})[ \t]*:[ \t]*(\S.*?)[ \t]*$", text, re.MULTILINE)
    return found[1] if found else None
