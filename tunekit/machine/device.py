"""Resolves which device `--gpu` asks for, and which one the measurements run on."""

from collections.abc import Callable, Mapping

from tunekit.machine.gpu.visible import is_same_uuid
from tunekit.machine.profiles import device_slug, find_profile, profile_from_device
from tunekit.records.host import Accelerator, Host
from tunekit.records.measurement import DeviceSeen
from tunekit.records.profile import Profile

AUTO = "auto"
CPU = "cpu"

_LESS_MEMORY_SHARE = 0.97
"""A device with less than this share of its profile's memory counts as smaller, for instance a virtual GPU
or one that other processes use."""


def device_profile(gpu_option: str, host: Host, profiles: Mapping[str, Profile]) -> tuple[Profile, str]:
    """Return the profile that `--gpu` asks for, and the profile id of the device that is actually present.

    The two differ if the requested GPU is not present: measurements are then made on this host's device, and
    every figure for the requested one is a prediction. If the present device has less free memory than its
    profile says, the device's figure is used. `cpu` is present on every machine; a caller that gets it on a
    machine with a GPU must hide the GPU from the target.

    Args:
        gpu_option: "auto" for the device that is present, or the id or alias of a profile, in any case.
        host: the machine that measures; its first accelerator is the device that is present.
        profiles: the profiles to search.

    Raises:
        UnknownGpuError: no profile has this name.
    """
    wanted = gpu_option.strip().lower()
    here = host.accelerators[0] if host.accelerators else None
    if here is None:
        return find_profile(CPU if wanted == AUTO else wanted, profiles), CPU
    here_id = _id_of(here)
    if wanted == CPU:
        return find_profile(CPU, profiles), CPU
    if wanted == AUTO or device_slug(wanted) == here_id:
        return _with_own_memory(usual_profile(here, profiles), here), here_id
    return find_profile(gpu_option, profiles), here_id


def profile_here(measured_on: str, host: Host, profiles: Mapping[str, Profile]) -> Profile:
    """Return the profile of the device that trials run on: the CPU's, or the first accelerator's."""
    return device_profile(CPU if measured_on == CPU else AUTO, host, profiles)[0]


def with_first(host: Host, device: DeviceSeen) -> Host:
    """Return the host with the GPU that a training loop ran on first; unchanged if that GPU is unknown.

    The driver's and CUDA's order may differ, and a script may train on any of its GPUs. They are matched by
    UUID, else by PCI address, else by name, where any GPU of the same model will do.
    """
    ways: tuple[Callable[[Accelerator], bool], ...] = (
        lambda gpu: is_same_uuid(device.uuid, gpu.uuid),
        lambda gpu: _is_same(device.pci_bus_id, gpu.pci_bus_id),
        lambda gpu: _is_same(device.name, gpu.name),
    )
    return _with_first(host, next((gpu for is_it in ways for gpu in host.accelerators if is_it(gpu)), None))


def with_named_first(host: Host, measured_on: str) -> Host:
    """Return the host with the first GPU that has this profile id moved to the front."""
    return _with_first(host, next((gpu for gpu in host.accelerators if _id_of(gpu) == measured_on), None))


def memory_cap_bytes(asked: Profile, measured_on: str, host: Host) -> int | None:
    """Return how much memory torch may reserve in trials that stand in for a smaller GPU; None for no cap.

    On the smaller GPU the CUDA context, which torch does not count, takes some of that memory.

    Args:
        asked: the profile of the GPU that `--gpu` asks for.
        measured_on: the device that is actually present, see `device_profile`.
        host: the machine that measures.
    """
    if measured_on in (asked.id, CPU) or asked.is_cpu or not host.accelerators:
        return None
    asked_bytes = asked.capacity_bytes
    # Torch sees slightly less than this; the trial ignores a cap above what torch sees.
    here_bytes = host.accelerators[0].memory_bytes
    is_smaller = asked_bytes is not None and (here_bytes is None or asked_bytes < here_bytes)
    return asked_bytes if is_smaller else None


def usual_profile(device: Accelerator, profiles: Mapping[str, Profile]) -> Profile:
    """Return the device's profile; for an unknown device, one built from what the driver reports."""
    if device.profile_id is not None and device.profile_id in profiles:
        return profiles[device.profile_id]
    return profile_from_device(device.name, device.memory_bytes, device.compute_capability)


def _id_of(device: Accelerator) -> str:
    return device.profile_id or device_slug(device.name)


def _with_first(host: Host, gpu: Accelerator | None) -> Host:
    if gpu is None or gpu == host.accelerators[0]:
        return host
    return host.changed(accelerators=(gpu, *(other for other in host.accelerators if other != gpu)))


def _is_same(one: str | None, other: str | None) -> bool:
    return one is not None and other is not None and one.casefold() == other.casefold()


def _with_own_memory(profile: Profile, device: Accelerator) -> Profile:
    usual_bytes, own_bytes = profile.capacity_bytes, device.usable_bytes
    if usual_bytes is None or own_bytes is None or own_bytes >= _LESS_MEMORY_SHARE * usual_bytes:
        return profile
    return profile.changed(memory_bytes=own_bytes, torch_memory_bytes=None)
