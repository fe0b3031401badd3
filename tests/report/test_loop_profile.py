"""Loop profiles as whole reports, and what their parts say."""

from collections.abc import Callable
from pathlib import Path

import pytest
from build_loop_profiles import looked_into, profiled
from build_loops import threads
from build_records import failure, target, trial_record
from read_report import Read
from read_report import drawn as drawn_blocks
from scripted_profile import against, fix, loop_profile, walk_in

from tunekit.records.details import Details
from tunekit.records.interval import Interval
from tunekit.records.run import AblationStep, LoopProfile, ProfileOptions, RunStatus
from tunekit.records.trial import TrialRecord
from tunekit.report.loop_profile import profile_report
from tunekit.report.loop_time import step_text
from tunekit.session.ablation import contender
from tunekit.trial.binding_syntax import parse_binding

Golden = Callable[[str, str], None]


def loop_profile_view(shown: LoopProfile, folder: str = "FOLDER") -> Read:
    return Read(profile_report(shown, folder))


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


def with_wide_rates(whole: LoopProfile) -> LoopProfile:
    wide = Interval(value=131.0, low=0.1, high=4000.0)
    contenders = tuple(one.changed(rate_samples_per_s=wide) for one in whole.contenders)
    return whole.changed(contenders=contenders)


BREAKS = {"failing": lambda knobs, spec: failure() if knobs.compile else None}
PROFILES: dict[str, Callable[[Path], LoopProfile]] = {
    "one": lambda folder: profiled(),
    "threads": lambda folder: of_trial(looked_into(threads=threads(2, OMP_NUM_THREADS="2"))),
    "without-interval": lambda folder: of_trial(looked_into(rate_interval_relative=None)),
    "uncertain": lambda folder: of_trial(looked_into(rate_interval_relative=0.97)),
    "barely-seen": lambda folder: barely_seen(),
    "failed": lambda folder: failed(),
    "nothing": lambda folder: loop_profile(status=RunStatus.INTERRUPTED),
    "compared": compared,
    "compared-too-wide": lambda folder: with_wide_rates(compared(folder)),
    "ablated": ablated,
    "ablated-failing": lambda folder: ablated(folder, executor_options=BREAKS),
    "within-noise": lambda folder: within_noise(ablated(folder), Interval(value=1.4, low=1.3, high=1.5)),
}


@pytest.mark.parametrize("name", PROFILES)
def test_a_loop_profile(name: str, tmp_path: Path, golden: Golden):
    golden(f"profile-{name}.txt", drawn(PROFILES[name](tmp_path)))


@pytest.mark.parametrize(
    ("step_s", "text"), [(0.00089, "0.89 ms"), (0.0413, "41.3 ms"), (0.09996, "100 ms"), (2.5, "2,500 ms")]
)
def test_a_step_is_told_with_three_digits(step_s: float, text: str):
    assert step_text(step_s) == text


def test_commands_keep_what_reaches_the_script():
    bound = target(
        bindings=(parse_binding("num_workers=--workers {}"), parse_binding("batch_size=env:BS")),
        samples_per_step=32,
    )
    asked = ProfileOptions(gpu="cpu", fixed=fix(num_workers=1, pin_memory=True))
    kept = (
        "--bind 'num_workers=--workers {}' --bind batch_size=env:BS --samples-per-step 32 -- python train.py"
    )
    assert loop_profile_view(profiled(target=bound, options=asked), "my runs/a").next_steps == (
        f"tunekit profile --ablate --gpu cpu --fix num_workers=1 --fix pin_memory=true {kept}",
        f"tunekit search --gpu cpu {kept}",
        "tunekit report 'my runs/a'  (this again)",
    )
