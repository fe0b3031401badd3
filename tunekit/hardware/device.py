"""Which device `--gpu` asks for, and which one the measurements are made on."""

from collections.abc import Mapping

from tunekit.hardware.profiles import device_slug, find_profile, profile_from_device
from tunekit.records.host import Accelerator, Host
from tunekit.records.profile import Profile

AUTO = "auto"
CPU = "cpu"


def device_profile(gpu_option: str, host: Host, profiles: Mapping[str, Profile]) -> tuple[Profile, str]:
    """Return the profile that `--gpu` asks for, and the id of the profile of the device that is really here.

    The two differ when the GPU asked for is not here: then measurements are made on this host's device, and
    whatever concerns the other is a prediction. `cpu` is here on every machine; who asks for it beside a GPU
    must hide the GPU from the target.

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
    here_id = here.profile_id or device_slug(here.name)
    if wanted == CPU:
        return find_profile(CPU, profiles), CPU
    if wanted == AUTO or device_slug(wanted) == here_id:
        return _profile_of(here, profiles), here_id
    return find_profile(gpu_option, profiles), here_id


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
    asked_bytes = asked.torch_memory_bytes or asked.memory_bytes
    # What torch sees here is a little less than this: the trial itself leaves a cap out that is no cap.
    is_smaller = asked_bytes is not None and asked_bytes < host.accelerators[0].memory_bytes
    return asked_bytes if is_smaller else None


def _profile_of(device: Accelerator, profiles: Mapping[str, Profile]) -> Profile:
    if device.profile_id is not None and device.profile_id in profiles:
        return profiles[device.profile_id]
    return profile_from_device(device.name, device.memory_bytes, device.compute_capability)
