"""Which device `--gpu` asks for, and which one the measurements are made on."""

from collections.abc import Callable, Mapping

from tunekit.machine.gpu.visible import is_same_uuid
from tunekit.machine.profiles import device_slug, find_profile, profile_from_device
from tunekit.records.host import Accelerator, Host
from tunekit.records.measurement import DeviceSeen
from tunekit.records.profile import Profile

AUTO = "auto"
CPU = "cpu"

_LESS_MEMORY_SHARE = 0.97
"""Of what its kind has, below which a device has less: a virtual GPU's share, or what others leave of it."""


def device_profile(gpu_option: str, host: Host, profiles: Mapping[str, Profile]) -> tuple[Profile, str]:
    """Return the profile that `--gpu` asks for, and the id of the profile of the device that is really here.

    The two differ when the GPU asked for is not here: then measurements are made on this host's device, and
    whatever concerns the other is a prediction. Of a device that is here its own memory counts where it has
    less than its kind, or others hold some. `cpu` is here on every machine; who asks for it beside a GPU must
    hide the GPU from the target.

    Args:
        gpu_option: "auto" for whatever is here, or the id or alias of a profile, in any case.
        host: the machine that measures; its first accelerator is the device that is here.
        profiles: the profiles to look in.

    Raises:
        UnknownGpuError: no profile has the name.
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
    """Return the profile of the device that trials really run on: the CPU's, or the first accelerator's."""
    return device_profile(CPU if measured_on == CPU else AUTO, host, profiles)[0]


def with_first(host: Host, device: DeviceSeen) -> Host:
    """Return the machine with the GPU first that a training loop ran on; as it is where that is not known.

    The driver's and CUDA's order may differ, and a script may train on any of its GPUs. The UUID tells, else
    the place on the bus, else the name, by which two of a kind are as good as one.
    """
    ways: tuple[Callable[[Accelerator], bool], ...] = (
        lambda gpu: is_same_uuid(device.uuid, gpu.uuid),
        lambda gpu: _is_same(device.pci_bus_id, gpu.pci_bus_id),
        lambda gpu: _is_same(device.name, gpu.name),
    )
    return _with_first(host, next((gpu for is_it in ways for gpu in host.accelerators if is_it(gpu)), None))


def with_named_first(host: Host, measured_on: str) -> Host:
    """Return the machine with the first GPU of that kind, by its profile's id, before the others."""
    return _with_first(host, next((gpu for gpu in host.accelerators if _id_of(gpu) == measured_on), None))


def memory_cap_bytes(asked: Profile, measured_on: str, host: Host) -> int | None:
    """Return what torch may reserve here in trials for another, smaller GPU; None for all that there is.

    The GPU itself has less to give than that by its context, which is not torch's.

    Args:
        asked: the profile of the GPU that `--gpu` asks for.
        measured_on: the device that is really here, see `device_profile`.
        host: the machine that measures.
    """
    if measured_on in (asked.id, CPU) or asked.is_cpu or not host.accelerators:
        return None
    asked_bytes = asked.capacity_bytes
    # What torch sees here is a little less than this: the trial itself leaves a cap out that is no cap.
    here_bytes = host.accelerators[0].memory_bytes
    is_smaller = asked_bytes is not None and (here_bytes is None or asked_bytes < here_bytes)
    return asked_bytes if is_smaller else None


def usual_profile(device: Accelerator, profiles: Mapping[str, Profile]) -> Profile:
    """Return the profile of a device's kind; of one that none knows, what it says of itself."""
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
