"""Lists the GPUs that a training process sees: the driver's in CUDA's order, completed by torch's."""

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tunekit.machine.gpu.nvml import Nvml, NvmlDevice
from tunekit.machine.profiles import match_device
from tunekit.records.host import Accelerator, GpuState, TorchBuild, TorchDevice
from tunekit.records.profile import Profile

_PCI_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])", re.IGNORECASE)


def accelerators_of_driver(
    nvml: Nvml, profiles: Mapping[str, Profile], ram_total_bytes: int, root: Path, torch: TorchBuild | None
) -> tuple[tuple[Accelerator, ...], tuple[str, ...]]:
    """Return the GPUs that CUDA shows, and the model names of all GPUs that the driver lists.

    Args:
        nvml: the driver.
        profiles: the profiles to match the GPUs with.
        ram_total_bytes: the memory to assume for a GPU without dedicated memory.
        root: the folder under which /sys is read.
        torch: what the training environment's torch reported, if it was asked.
    """
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
                    state=_state(nvml.state(device.index), device if is_partition else None),
                )
            )
    return tuple(accelerators), tuple(sorted({gpu.name for gpu in gpus}))


def visible_devices(gpus: Sequence[NvmlDevice], chosen: str | None) -> tuple[NvmlDevice, ...]:
    """Return the devices that CUDA shows to a process, in CUDA's order.

    This follows CUDA's rules: the list ends at the first entry that matches no device, and after a MIG
    partition, as CUDA shows only one; naming a device twice empties the list; a GPU under MIG stands for its
    first partition.

    Args:
        gpus: the driver's GPUs in the driver's order; CUDA uses the same order unless the models differ and
            CUDA_DEVICE_ORDER is not PCI_BUS_ID: then it puts the fastest first.
        chosen: the value of CUDA_VISIBLE_DEVICES; None if it is not set.
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
    """Return whether CUDA certainly uses the driver's order of GPUs; by default it puts the fastest first.

    Args:
        models: the distinct model names of all GPUs that the driver lists.
        environment: environment variables; CUDA_DEVICE_ORDER and CUDA_VISIBLE_DEVICES are read.
    """
    if len(models) < 2 or environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
        return True
    chosen = environment.get("CUDA_VISIBLE_DEVICES")
    return chosen is not None and not re.search(r"(^|,)\s*[0-9]", chosen)  # UUIDs don't depend on the order


def merged(
    accelerators: Sequence[Accelerator],
    build: TorchBuild | None,
    profiles: Mapping[str, Profile],
    ram_total_bytes: int,
) -> tuple[Accelerator, ...]:
    """Return the GPUs that the driver or torch sees, without duplicates, in the driver's order.

    GPUs are matched by UUID, else by name in the order of both lists. GPUs that only torch sees (AMD's,
    Apple's, or any GPU when the driver library is broken) come last, in torch's order.

    Args:
        accelerators: the GPUs that the driver shows to a process of this environment.
        build: what torch reported there; None if it was not asked.
        profiles: the profiles to match with GPUs that only torch sees.
        ram_total_bytes: the memory to assume for a GPU without dedicated memory.
    """
    alone = dict(enumerate(() if build is None else build.devices))
    of_driver = []
    for gpu in accelerators:
        same = [place for place, one in alone.items() if is_same_uuid(gpu.uuid, one.uuid)]
        same += [place for place, one in alone.items() if _may_be_same(gpu, one)]
        of_driver.append(_seen_by_both(gpu, alone.pop(same[0])) if same else gpu)
    of_torch = (_seen_by_torch(place, one, profiles, ram_total_bytes) for place, one in alone.items())
    return (*of_driver, *of_torch)


def is_same_uuid(one: str | None, other: str | None) -> bool:
    """Return whether two UUIDs are known and denote one device, whether written by the driver or by torch."""
    return one is not None and other is not None and _bare_uuid(one) == _bare_uuid(other)


def numa_node(bus_id: str, root: Path) -> int | None:
    """Return the NUMA node whose CPUs are nearest to a PCI device; None if the kernel does not know it.

    Args:
        bus_id: the device's address, such as "00000000:65:00.0"; the kernel's has a four-digit domain.
        root: the folder under which /sys is read.
    """
    found = _PCI_ADDRESS.fullmatch(bus_id)
    if found is None:
        return None
    address = f"{int(found[1], 16):04x}:{found[2].lower()}"
    try:
        node = int((root / "sys/bus/pci/devices" / address / "numa_node").read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return node if node >= 0 else None


def _as_torch_has_them(gpus: Sequence[NvmlDevice], torch: TorchBuild | None) -> tuple[NvmlDevice, ...]:
    """Return the driver's devices in torch's order; empty unless torch reports all their UUIDs."""
    seen = () if torch is None else torch.devices
    every = {_bare_uuid(device.uuid): device for gpu in gpus for device in gpu.partitions or (gpu,)}
    found = [every.get(_bare_uuid(device.uuid)) if device.uuid else None for device in seen]
    known = tuple(device for device in found if device is not None)
    return known if len(known) == len(found) else ()


def _state(state: GpuState | None, partition: NvmlDevice | None) -> GpuState | None:
    """Adapt the whole GPU's state to a partition: heat and clocks apply to it, memory and load don't."""
    if state is None or partition is None:
        return state
    return state.changed(used_bytes=partition.used_bytes, utilization_percent=None, processes=None)


def _named(gpus: Sequence[NvmlDevice], entry: str) -> NvmlDevice | None:
    if re.fullmatch(r"[0-9]{1,9}", entry):
        return next((_computing(gpu) for gpu in gpus if gpu.index == int(entry)), None)
    if entry.startswith("GPU-"):
        gpu = _beginning_with(entry, gpus)
        return None if gpu is None else _computing(gpu)
    if entry.startswith("MIG-"):
        return _beginning_with(entry, [partition for gpu in gpus for partition in gpu.partitions or ()])
    return None


def _beginning_with(entry: str, devices: Sequence[NvmlDevice]) -> NvmlDevice | None:
    """Return the device whose UUID starts with the entry: CUDA accepts any unambiguous prefix."""
    fitting = [device for device in devices if device.uuid.startswith(entry)]
    return fitting[0] if len(fitting) == 1 else None


def _computing(gpu: NvmlDevice) -> NvmlDevice | None:
    """Return the device that computes if this GPU is chosen: itself, or under MIG its first partition."""
    if gpu.partitions is None:
        return gpu
    return gpu.partitions[0] if gpu.partitions else None


def _may_be_same(accelerator: Accelerator, device: TorchDevice) -> bool:
    # For a MIG partition, some versions of torch report the UUID of the whole GPU.
    is_told_apart = accelerator.uuid is not None and device.uuid is not None and not accelerator.is_partition
    return not is_told_apart and accelerator.name.casefold() == device.name.casefold()


def _bare_uuid(uuid: str) -> str:
    """Return a UUID as torch writes it, without the driver's prefix "GPU-" or "MIG-"."""
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-")


def _seen_by_both(accelerator: Accelerator, device: TorchDevice) -> Accelerator:
    return accelerator.changed(
        memory_bytes=accelerator.memory_bytes or device.memory_bytes,
        compute_capability=accelerator.compute_capability or device.compute_capability,
        uuid=accelerator.uuid or device.uuid,
        seen_by=("nvml", "torch"),
    )


def _seen_by_torch(
    index: int, device: TorchDevice, profiles: Mapping[str, Profile], ram_total_bytes: int
) -> Accelerator:
    profile = match_device(device.name, profiles)
    return Accelerator(
        index=index,
        name=device.name,
        memory_bytes=device.memory_bytes or ram_total_bytes,
        compute_capability=device.compute_capability,
        driver=None,
        profile_id=None if profile is None else profile.id,
        seen_by=("torch",),
        uuid=device.uuid,
        is_partition=" MIG " in device.name,
    )
