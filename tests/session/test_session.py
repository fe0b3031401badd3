"""Which device a run is of, once a trial has told where it trained."""

from typing import Any

import pytest
from build_records import host, run, trial_record

from tunekit.machine.device import device_profile
from tunekit.machine.profiles import load_profiles
from tunekit.records.host import Accelerator
from tunekit.records.measurement import DeviceSeen
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
from tunekit.session.session import on_device_of

PROFILES = load_profiles()


def gpu(index: int, profile_id: str) -> Accelerator:
    known = PROFILES[profile_id]
    return Accelerator(
        index=index,
        name=known.device_names[0],
        memory_bytes=known.memory_bytes,
        compute_capability=known.compute_capability,
        driver=None,
        profile_id=profile_id,
        uuid=f"GPU-{index}",
    )


def before(option: str = "auto") -> Run:
    """A run on a machine whose first GPU is a T4 and whose second an A10G."""
    machine = host(accelerators=(gpu(0, "t4"), gpu(1, "a10g")))
    profile, measured_on = device_profile(option, machine, PROFILES)
    return run(host=machine, profile=profile, measured_on=measured_on)


def trained(**device: Any) -> TrialRecord:
    seen = DeviceSeen.model_validate(
        {"type": "cuda", "name": "NVIDIA A10G", "memory_bytes": 22 << 30, **device}
    )
    return trial_record(0, device=seen)


def test_a_run_is_of_the_gpu_that_trained_and_of_its_profile() -> None:
    after, here = on_device_of(before(), trained(uuid="1"), PROFILES["t4"])
    assert (after.measured_on, after.profile.id, here.id) == ("a10g", "a10g", "a10g")
    assert [one.index for one in after.host.accelerators] == [1, 0]
    assert on_device_of(after, trained(uuid="1"), here) == (after, here)


def test_a_gpu_that_was_asked_for_stays_asked_for() -> None:
    after, here = on_device_of(before("h200"), trained(uuid="1"), PROFILES["t4"], "h200")
    assert (after.measured_on, after.profile.id, here.id) == ("a10g", "h200", "a10g")
    after, here = on_device_of(before("a10g"), trained(uuid="1"), PROFILES["t4"], "a10g")
    assert (after.measured_on, after.profile.id, after.is_emulated) == ("a10g", "a10g", False)


@pytest.mark.parametrize("record", [trained(uuid="0", name="Tesla T4"), trained(name="Some GPU")])
def test_the_first_gpu_and_one_that_nobody_knows_change_nothing(record: TrialRecord) -> None:
    assert on_device_of(before(), record, PROFILES["t4"]) == (before(), PROFILES["t4"])


def test_a_trial_that_trained_on_the_cpu_is_of_the_cpu_beside_whatever_gpu() -> None:
    on_cpu = trained(type="cpu", name="x86_64", memory_bytes=None)
    after, here = on_device_of(before(), on_cpu, PROFILES["t4"])
    assert (after.measured_on, after.profile.id, here.id) == ("cpu", "t4", "cpu")


def test_a_trial_that_measured_nothing_tells_nothing() -> None:
    assert on_device_of(before(), trial_record(0, None), PROFILES["t4"]) == (before(), PROFILES["t4"])
