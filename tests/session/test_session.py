"""Which device a run is of, once a trial has told where it trained; waiting for a quiet machine."""

from pathlib import Path
from typing import Any

import pytest
from build_records import host, options, run, trial_record
from scripted_search import RecordingListener, ScriptedClock, ScriptedExecutor, start_search

from tunekit.machine.device import device_profile
from tunekit.machine.profiles import load_profiles
from tunekit.records.host import Accelerator
from tunekit.records.measurement import DeviceSeen
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
from tunekit.session.folder import RunFolder
from tunekit.session.session import QuietWait, on_device_of

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


def test_a_trial_that_trained_on_the_cpu_is_of_the_cpu_beside_whatever_gpu() -> None:
    on_cpu = trained(type="cpu", name="x86_64", memory_bytes=None)
    after, here = on_device_of(before(), on_cpu, PROFILES["t4"])
    assert (after.measured_on, after.profile.id, here.id) == ("cpu", "t4", "cpu")


# --- waiting for quiet -----------------------------------------------------------------------


class ScriptedLoad:
    """Shares of the CPUs that others use, a second each; the last holds for ever."""

    def __init__(self, clock: ScriptedClock, *shares: float) -> None:
        self._clock = clock
        self._shares = list(shares)

    def __call__(self) -> float:
        self._clock.now += 1.0
        return self._shares.pop(0) if len(self._shares) > 1 else self._shares[0]


def waited(max_s: float, *shares: float) -> tuple[float, list[str]]:
    """How long it waits on a machine with that load, and what it says."""
    clock, said = ScriptedClock(), list[str]()
    return QuietWait(max_s, ScriptedLoad(clock, *shares), clock).wait(said.append), said


def test_on_a_quiet_machine_it_looks_and_goes_on():
    assert waited(60.0, 0.02) == (1.0, [])


def test_it_waits_until_the_others_are_done_and_says_so():
    seconds, said = waited(60.0, *[0.73] * 9, 0.03)
    assert seconds == 10.0
    assert said == [
        "machine is busy: other programs use 73% of its CPUs; waiting up to 1m 00s",
        "machine is quiet after 10.0 s",
    ]


def test_it_goes_on_when_what_it_may_wait_is_used_up():
    seconds, said = waited(30.0, 0.5)
    assert seconds == 30.0
    assert said[-1] == "machine is still busy (50%) after 30.0 s"


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_a_search_waits_beside_its_budget(tmp_path: Path, share: float):
    listener = RecordingListener()
    with RunFolder(tmp_path / "run") as folder:
        executor = ScriptedExecutor(folder.trials_folder)
        gate = QuietWait(7200.0, ScriptedLoad(executor.clock, share), executor.clock)
        whole = start_search(folder, executor, options(max_trials=4), listener, quiet=gate).run()
    assert whole.recommendations
    assert whole.search_time_s == pytest.approx(sum(record.duration_s for record in whole.trials))
    assert any("machine is busy" in said for said in listener.heard("said")) == (share > 0.1)
