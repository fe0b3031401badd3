"""What this machine offers: its GPUs, CPU, memory and the limits on them."""

import os
import platform
import re
import shutil
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tunekit.hardware import limits
from tunekit.hardware.merge import bare_uuid, merged
from tunekit.hardware.nvml import Nvml, NvmlDevice
from tunekit.hardware.nvml_library import NvmlLibrary
from tunekit.hardware.pci import numa_node
from tunekit.hardware.profiles import load_profiles, match_device
from tunekit.records.host import Accelerator, GpuState, Host, TorchBuild
from tunekit.records.profile import Profile

_BF16_FLAGS = frozenset({"avx512_bf16", "amx_bf16", "bf16"})
"""Of x86 the first two, of Arm the third."""


def detect_host(
    nvml: Nvml | None = None,
    profiles: Mapping[str, Profile] | None = None,
    root: Path = limits.ROOT,
    torch: TorchBuild | None = None,
) -> Host:
    """Return what this process may use of the machine it runs on.

    GPUs come in the order in which CUDA numbers them under CUDA_VISIBLE_DEVICES; those that torch alone sees
    come last. Torch is not imported; of GPUs of several kinds it alone knows the order (`is_order_known`).

    Args:
        nvml: the driver to ask; the real one by default.
        profiles: the profiles that name the GPUs; every one that `load_profiles` finds by default.
        root: the folder under which /proc, /sys and /dev are read.
        torch: what the training environment's torch sees, where it was asked.

    Raises:
        DamagedRecordError: a file among the profiles is no profile.
        UsageError: $TUNEKIT_PROFILES names something that is no folder.
    """
    known = load_profiles() if profiles is None else profiles
    ram_total_bytes = limits.ram_total_bytes(root)
    accelerators, models = _accelerators(
        NvmlLibrary() if nvml is None else nvml, known, ram_total_bytes, root, torch
    )
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
        cpu_governor=limits.cpu_governor(root),
        accelerators=merged(accelerators, torch, known, ram_total_bytes),
        gpu_models=models,
        platform=platform.platform(),
        python_version=platform.python_version(),
        torch=torch,
    )


def visible_devices(gpus: Sequence[NvmlDevice], chosen: str | None) -> tuple[NvmlDevice, ...]:
    """Return the devices that CUDA shows to a process, in CUDA's order.

    As CUDA does: the first entry that names nothing ends the list, and so does a MIG partition, of which it
    shows one; a device named twice empties it; of a GPU under MIG the first partition shows unless another is
    named.

    Args:
        gpus: the driver's GPUs in the driver's order; CUDA numbers them alike unless the models differ and
            CUDA_DEVICE_ORDER is not PCI_BUS_ID: then the fastest is its first.
        chosen: the text of CUDA_VISIBLE_DEVICES, None if it is not set.
    """
    if chosen is None:
        whole = (_computing(gpu) for gpu in gpus)
        return tuple(device for device in whole if device is not None)
    shown: list[NvmlDevice] = []
    for entry in chosen.split(","):
        device = _named(gpus, entry.strip())
        if device is None:
            break
        if device in shown:
            return ()
        shown.append(device)
        if entry.strip().startswith("MIG-"):
            break
    return tuple(shown)


def is_order_known(models: Sequence[str], environment: Mapping[str, str]) -> bool:
    """Return whether CUDA surely numbers the GPUs as the driver does: it puts the fastest kind first.

    Args:
        models: of all GPUs that the driver shows, each once.
        environment: its CUDA_DEVICE_ORDER and CUDA_VISIBLE_DEVICES count.
    """
    if len(models) < 2 or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return True
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    return chosen is not None and not re.search(r"(^|,)\s*[0-9]", chosen)  # UUIDs mean one GPU in any order


def cpu_name(root: Path = limits.ROOT) -> str | None:
    """Return the CPU's model name, None where the kernel does not tell it (most Arm machines)."""
    return _cpu_field(root, "model name")


def has_gpu_file(root: Path = limits.ROOT) -> bool:
    """Return whether a GPU's driver has left its mark in /dev: NVIDIA's, AMD's, or Windows' below WSL."""
    return any((root / "dev" / name).exists() for name in ("nvidiactl", "nvidia0", "kfd", "dxg"))


def c_compiler(environment: Mapping[str, str]) -> str | None:
    """Return the C compiler that Triton finds, which compiles for GPUs: $CC, else the usual ones."""
    return _compiler(environment, "CC", ("gcc", "clang", "cc"))


def cpp_compiler(environment: Mapping[str, str]) -> str | None:
    """Return the C++ compiler that Inductor finds, which compiles for CPUs: $CXX, else the system's own."""
    return _compiler(environment, "CXX", ("clang++" if sys.platform == "darwin" else "g++",))


def cpu_has_native_bf16(root: Path = limits.ROOT) -> bool | None:
    """Return whether the CPU multiplies bf16 in hardware, None where the kernel lists no features."""
    features = _cpu_field(root, "flags|Features")
    return None if features is None else not _BF16_FLAGS.isdisjoint(features.split())


def is_virtual_machine(root: Path = limits.ROOT) -> bool | None:
    """Return whether the CPU says that a hypervisor runs it, None where the kernel lists no x86 features."""
    features = _cpu_field(root, "flags")
    return None if features is None else "hypervisor" in features.split()


def _accelerators(
    nvml: Nvml, profiles: Mapping[str, Profile], ram_total_bytes: int, root: Path, torch: TorchBuild | None
) -> tuple[tuple[Accelerator, ...], tuple[str, ...]]:
    """Return the GPUs that CUDA shows, and the models of all that the driver shows."""
    with nvml:
        driver = nvml.driver_version()
        answers = [nvml.device(index) for index in range(nvml.device_count())]
        gpus = [gpu for gpu in answers if gpu is not None]
        whole = {gpu.uuid for gpu in gpus}
        accelerators = []
        chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
        for device in _as_torch_has_them(gpus, torch) or visible_devices(gpus, chosen):
            profile = match_device(device.name, profiles)
            is_partition = device.uuid not in whole
            bus_id = nvml.pci_bus_id(device.index)
            accelerators.append(
                Accelerator(
                    index=device.index,
                    name=device.name,
                    memory_bytes=device.memory_bytes if device.has_own_memory else ram_total_bytes,
                    compute_capability=device.compute_capability,
                    driver=driver,
                    profile_id=None if profile is None else profile.id,
                    seen_by=("nvml",),
                    uuid=device.uuid,
                    pci_bus_id=bus_id,
                    is_partition=is_partition,
                    numa_node=None if bus_id is None else numa_node(bus_id, root),
                    pcie=nvml.link(device.index),
                    state=_state(nvml.state(device.index), is_partition),
                )
            )
    return tuple(accelerators), tuple(sorted({gpu.name for gpu in gpus}))


def _as_torch_has_them(gpus: Sequence[NvmlDevice], torch: TorchBuild | None) -> tuple[NvmlDevice, ...]:
    """Return the driver's devices that torch sees, in its order; none unless it tells all their UUIDs."""
    seen = () if torch is None else torch.devices
    every = {bare_uuid(device.uuid): device for gpu in gpus for device in gpu.partitions or (gpu,)}
    found = [every.get(bare_uuid(device.uuid)) if device.uuid else None for device in seen]
    known = tuple(device for device in found if device is not None)
    return known if len(known) == len(found) else ()


def _state(state: GpuState | None, is_partition: bool) -> GpuState | None:
    """Return what holds of the device: heat and clocks are the whole GPU's, memory and load are not."""
    if state is None or not is_partition:
        return state
    return state.changed(used_bytes=None, utilization_percent=None, processes=None)


def _named(gpus: Sequence[NvmlDevice], entry: str) -> NvmlDevice | None:
    if re.fullmatch(r"[0-9]{1,9}", entry):
        return next((_computing(gpu) for gpu in gpus if gpu.index == int(entry)), None)
    if entry.startswith("GPU-"):
        gpu = _beginning_with(entry, gpus)
        return None if gpu is None else _computing(gpu)
    older = re.fullmatch(r"MIG-(GPU-[^/]+)/([0-9]{1,3})/([0-9]{1,3})", entry)
    if older:
        gpu = _beginning_with(older[1], gpus)
        instances = (int(older[2]), int(older[3]))
        partitions = (gpu.partitions or ()) if gpu is not None else ()
        return next((partition for partition in partitions if partition.instances == instances), None)
    if entry.startswith("MIG-"):
        return _beginning_with(entry, [partition for gpu in gpus for partition in gpu.partitions or ()])
    return None


def _beginning_with(entry: str, devices: Sequence[NvmlDevice]) -> NvmlDevice | None:
    """Return the one device whose UUID begins so: CUDA takes any beginning that fits one only."""
    fitting = [device for device in devices if device.uuid.startswith(entry)]
    return fitting[0] if len(fitting) == 1 else None


def _computing(gpu: NvmlDevice) -> NvmlDevice | None:
    """Return what computes when the GPU is chosen: itself, or under MIG its first partition if it has one."""
    if gpu.partitions is None:
        return gpu
    return gpu.partitions[0] if gpu.partitions else None


def _compiler(environment: Mapping[str, str], variable: str, usual: Sequence[str]) -> str | None:
    wanted = [environment[variable]] if environment.get(variable) else usual
    found = (shutil.which(name, path=environment.get("PATH")) for name in wanted)
    return next((program for program in found if program), None)


def _cpu_field(root: Path, names: str) -> str | None:
    try:
        text = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    found = re.search(rf"^(?:{names})[ \t]*:[ \t]*(\S.*?)[ \t]*$", text, re.MULTILINE)
    return found[1] if found else None
