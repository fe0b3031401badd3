"""Loop profiles as whole reports, and what their parts say."""

from collections.abc import Callable
from pathlib import Path

import pytest
from build_loop_profiles import looked_into, profiled
from build_loops import threads
from build_records import failure, trial_record
from read_report import drawn as drawn_blocks
from scripted_profile import against, loop_profile, walk_in

from tunekit.records.details import Details
from tunekit.records.interval import Interval
from tunekit.records.run import AblationStep, LoopProfile, ProfileOptions, RunStatus
from tunekit.records.trial import TrialRecord
from tunekit.report.loop_profile import profile_report
from tunekit.session.ablation import contender

Golden = Callable[[str], object]


def drawn(shown: LoopProfile, width: int = 80) -> str:
    return drawn_blocks(profile_report(shown, "reports/train-profile").blocks, width)


def ablated(folder: Path, **more: object) -> LoopProfile:
    return walk_in(folder, ProfileOptions(ablate=True, rounds=3), **more)[0]


def compared(folder: Path) -> LoopProfile:
    beside = against(lambda own: own.model_copy(update={"num_workers": 6}))
    return walk_in(folder, ProfileOptions(rounds=3), beside)[0]


def unchanged(step: AblationStep) -> AblationStep:
    within = Interval(value=1.02, low=0.78, high=1.3)
    return step.model_copy(
        update={"alone": step.alone.model_copy(update={"factor": within, "verdict": "inconclusive"})}
    )


def of_trial(record: TrialRecord) -> LoopProfile:
    assert record.config is not None
    alone = contender("as it is", record.config, (record,))
    return profiled(trials=(record,), contenders=(alone,))


def barely_seen() -> LoopProfile:
    """A trial that was not looked into: no batch, no telemetry, no floors."""
    record = looked_into(batch=None)
    assert record.measurement is not None
    bare = record.measurement.changed(details=Details(faults=("floors: the loop ended",)))
    return profiled(trials=(record.changed(measurement=bare, telemetry=None),))


def failed() -> LoopProfile:
    broken = trial_record(0, None, overrides={"failure": failure()})
    return loop_profile(status=RunStatus.FAILED, trials=(broken,))


def within_noise(whole: LoopProfile, together: Interval) -> LoopProfile:
    assert whole.ablation is not None
    steps = tuple(unchanged(step) for step in whole.ablation.steps)
    return whole.changed(ablation=whole.ablation.changed(steps=steps, together=together))


BREAKS = {"failing": lambda knobs, spec: failure() if knobs.compile else None}
PROFILES: dict[str, Callable[[Path], LoopProfile]] = {
    "one": lambda folder: profiled(),
    "threads": lambda folder: of_trial(looked_into(threads=threads(2, OMP_NUM_THREADS="2"))),
    "uncertain": lambda folder: of_trial(looked_into(rate_interval_relative=0.97)),
    "barely-seen": lambda folder: barely_seen(),
    "failed": lambda folder: failed(),
    "nothing": lambda folder: loop_profile(status=RunStatus.INTERRUPTED),
    "compared": compared,
    "ablated": ablated,
    "ablated-failing": lambda folder: ablated(folder, executor_options=BREAKS),
    "within-noise": lambda folder: within_noise(ablated(folder), Interval(value=1.4, low=1.3, high=1.5)),
}


@pytest.mark.parametrize("name", PROFILES)
def test_a_loop_profile(name: str, tmp_path: Path, golden: Golden):
    assert drawn(PROFILES[name](tmp_path)) == golden(f"profile-{name}.txt")
