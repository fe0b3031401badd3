"""The device that trials really run on: a guess before the first of them, then the one that it used."""

from typing import TypeVar

from tunekit.hardware.device import AUTO, CPU, device_profile, profile_here, with_first
from tunekit.hardware.profiles import load_profiles
from tunekit.records.profile import Profile
from tunekit.records.run import TargetRecord
from tunekit.records.trial import TrialRecord

AnyRun = TypeVar("AnyRun", bound=TargetRecord)


def on_device_of(run: AnyRun, record: TrialRecord, here: Profile, gpu: str = AUTO) -> tuple[AnyRun, Profile]:
    """Return a run as measured on the device that a trial trained on, and that device's profile.

    The device comes first among the machine's from then on. Where `--gpu` names none, it is also the one that
    is asked for, unless it is the CPU beside a GPU.

    Args:
        run: as far as it is known.
        record: of the trial; one that measured nothing changes nothing.
        here: the profile of the device that the run was thought to be measured on.
        gpu: what `--gpu` says.

    Raises:
        DamagedRecordError: a file among the profiles is no profile.
        UsageError: $TUNEKIT_PROFILES names something that is no folder.
    """
    measured = record.measurement or record.dry
    if measured is None:
        return run, here
    device = measured.loop.device
    if device.type == CPU:
        if run.measured_on == CPU:
            return run, here
        return run.changed(measured_on=CPU), profile_here(CPU, run.host, load_profiles())
    host = with_first(run.host, device)
    if host == run.host:
        return run, here
    profiles = load_profiles()
    asked, measured_on = device_profile(gpu, host, profiles)
    run = run.changed(host=host, profile=asked, measured_on=measured_on)
    return run, profile_here(measured_on, host, profiles)
