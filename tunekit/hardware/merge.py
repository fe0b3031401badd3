"""One list of GPUs from two that do not know of each other: the driver's and torch's."""

from collections.abc import Callable, Mapping, Sequence

from tunekit.hardware.profiles import match_device
from tunekit.records.host import Accelerator, TorchBuild, TorchDevice
from tunekit.records.profile import Profile


def merged(
    accelerators: Sequence[Accelerator],
    build: TorchBuild | None,
    profiles: Mapping[str, Profile],
    ram_total_bytes: int,
) -> tuple[Accelerator, ...]:
    """Return the GPUs that the driver or torch sees, those of both once, in the driver's order.

    Two are one if their UUIDs say so, else by name in the order of both lists. GPUs that torch alone sees (an
    AMD one, an Apple one, any one beside a broken driver library) come last, in torch's order.

    Args:
        accelerators: what the driver shows to a process of this environment.
        build: what torch sees there; None where nobody asked.
        profiles: the profiles that name a GPU which torch alone sees.
        ram_total_bytes: the memory of a GPU that has none of its own.
    """
    devices = () if build is None else build.devices
    pairs = _pairs(accelerators, devices)
    taken = set(pairs.values())
    both = [
        _seen_by_both(accelerator, devices[pairs[place]]) if place in pairs else accelerator
        for place, accelerator in enumerate(accelerators)
    ]
    alone = [
        _seen_by_torch(index, device, profiles, ram_total_bytes)
        for index, device in enumerate(devices)
        if index not in taken
    ]
    return (*both, *alone)


def _pairs(accelerators: Sequence[Accelerator], devices: Sequence[TorchDevice]) -> dict[int, int]:
    """Return for the place of an accelerator that of the torch device which is the same."""
    pairs: dict[int, int] = {}
    for is_same in (_has_same_uuid, _may_be_same):
        _pair(pairs, accelerators, devices, is_same)
    return pairs


def _pair(
    pairs: dict[int, int],
    accelerators: Sequence[Accelerator],
    devices: Sequence[TorchDevice],
    is_same: Callable[[Accelerator, TorchDevice], bool],
) -> None:
    for place, accelerator in enumerate(accelerators):
        free = (index for index in range(len(devices)) if index not in pairs.values())
        found = next((index for index in free if is_same(accelerator, devices[index])), None)
        if place not in pairs and found is not None:
            pairs[place] = found


def _has_same_uuid(accelerator: Accelerator, device: TorchDevice) -> bool:
    return is_same_uuid(accelerator.uuid, device.uuid)


def _may_be_same(accelerator: Accelerator, device: TorchDevice) -> bool:
    # Of a MIG partition some versions of torch tell the UUID of the whole GPU.
    is_told_apart = accelerator.uuid is not None and device.uuid is not None and not accelerator.is_partition
    return not is_told_apart and accelerator.name.casefold() == device.name.casefold()


def bare_uuid(uuid: str) -> str:
    """Return a UUID as torch writes it: only the driver puts "GPU-" or "MIG-" before it."""
    return uuid.lower().removeprefix("gpu-").removeprefix("mig-")


def is_same_uuid(one: str | None, other: str | None) -> bool:
    """Return whether two UUIDs are surely of one device, whoever wrote them."""
    return one is not None and other is not None and bare_uuid(one) == bare_uuid(other)


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
