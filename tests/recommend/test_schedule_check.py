"""Whether step numbers follow the batch, and what becomes of a config whose numbers do not."""

from typing import Any

import pytest
from build_records import baseline_record, config, confirm_records, discovery, trial_record
from scripted_search import loader

from tunekit.recommend.data_check import data_checks
from tunekit.recommend.schedule_check import schedule_differences
from tunekit.recommend.tiers import same_training
from tunekit.records.config import TrainConfig
from tunekit.records.data_check import DifferenceCode, Sameness
from tunekit.records.details import DataSeen, Details
from tunekit.records.target import StepNumber
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import Trials

OWN, LARGER = config(batch_size=16), config(batch_size=64)


def number(steps: int, source: str = "OneCycleLR", name: str = "total_steps") -> StepNumber:
    return StepNumber(source=source, name=name, steps=steps, is_option=source.startswith("--"))


def numbers(*steps: StepNumber) -> dict[str, Any]:
    return {"step_numbers": steps}


def differences(before: StepNumber, now: StepNumber, config: TrainConfig = LARGER) -> list[float]:
    """Return the numbers that steps should have become, with 200 batches of 16 in an epoch."""
    own = baseline_record(of=OWN, epoch_batches=200, overrides=numbers(before))
    trial = trial_record(of=config, epoch_batches=50, overrides=numbers(now))
    return [one.affected for one in schedule_differences(own, trial)]


WARM_UP = number(100, "LinearLR", "total_iters")
OF_EPOCHS = number(600, "StepLR", "step_size")
NO_EPOCHS = OF_EPOCHS.changed(steps=610)  # a decay's own pace
LIMIT = number(1000, "--max-steps", "max_steps")


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        (number(8000), number(8000), [2000]),
        (number(8000), number(2000), []),
        (number(8010), number(2003), []),
        (WARM_UP, WARM_UP, []),
        (OF_EPOCHS, OF_EPOCHS, [150]),
        (NO_EPOCHS, NO_EPOCHS, []),
        (LIMIT, LIMIT, [250]),
        (LIMIT, LIMIT.changed(steps=250), []),
    ],
)
def test_numbers_follow_the_batch(before: StepNumber, now: StepNumber, expected: list[float]) -> None:
    assert differences(before, now) == expected
    assert differences(before, before, OWN.changed(num_workers=4)) == []


def test_a_training_that_would_end_in_its_warm_up_is_another() -> None:
    rises = StepNumber(source="--warmup_iters", name="warmupiters", steps=300)
    own = baseline_record(of=OWN, overrides=numbers(LIMIT, rises))
    for steps, expected in ((250, [75]), (500, [])):
        trial = trial_record(of=LARGER, overrides=numbers(LIMIT.changed(steps=steps), rises))
        assert [one.affected for one in schedule_differences(own, trial)] == expected


@pytest.mark.parametrize(("epoch_samples", "expected"), [(12_800, []), (12_640, []), (11_600, [64])])
def test_loaders_that_are_read_together_keep_their_ratio(epoch_samples: int, expected: list[float]) -> None:
    """Of an epoch of 100 steps, with 112 samples of the one and 16 of the other."""
    loaders = (loader(step_samples=112), loader(training=False, step_samples=16))
    own = config(batch_size=112)
    found = {"discovery": discovery(loaders=loaders)}
    before = baseline_record(of=own, epoch_samples=12_800, epoch_batches=100, overrides=found)
    larger = own.changed(batch_size=448)
    now = trial_record(of=larger, epoch_samples=epoch_samples, epoch_batches=25)
    assert [one.affected for one in schedule_differences(before, now)] == expected


def looked(one: TrialRecord, **seen: Any) -> TrialRecord:
    assert one.measurement is not None
    return one.changed(measurement=one.measurement.changed(details=Details(data=DataSeen(**seen))))


def test_a_config_whose_schedule_stays_is_excluded_by_its_search_trial() -> None:
    own = looked(baseline_record(of=OWN, overrides=numbers(LIMIT)))
    stays = trial_record(1, 900.0, LARGER, overrides=numbers(LIMIT))
    follows = trial_record(1, 900.0, LARGER, overrides=numbers(LIMIT.changed(steps=250)))
    checks = data_checks(Trials((own, stays)))
    assert [one.code for one in checks[LARGER].differences] == [DifferenceCode.STEPS]
    assert same_training([own, stays], Trials((own, stays))) == [own]
    assert same_training([own, follows], Trials((own, follows))) == [own, follows]


def test_without_the_data_check_nobody_looks_at_schedules() -> None:
    own = baseline_record(of=OWN, overrides=numbers(LIMIT))
    assert data_checks(Trials((own, trial_record(1, 900.0, LARGER, overrides=numbers(LIMIT))))) == {}


def test_a_confirming_process_says_more_than_the_search_trial() -> None:
    own = looked(baseline_record(of=OWN, overrides=numbers(LIMIT)))
    searched = trial_record(1, 900.0, LARGER, overrides=numbers(LIMIT))
    (confirm,) = confirm_records([900.0], LARGER)
    confirm = looked(confirm, faults=("no time",)).changed(step_numbers=(LIMIT,))
    (check,) = data_checks(Trials((own, searched, confirm))).values()
    assert check.verdict is Sameness.DIFFERS
    assert check.why_not


def test_where_the_baselines_look_failed_the_config_is_marked_and_its_steps_are_checked() -> None:
    own = baseline_record(of=OWN, overrides=numbers(LIMIT))
    assert own.measurement is not None
    own = own.changed(measurement=own.measurement.changed(details=Details(faults=("data: it broke",))))
    (follows,) = confirm_records([900.0], LARGER)
    follows = looked(follows).changed(step_numbers=(LIMIT.changed(steps=250),))
    check = data_checks(Trials((own, follows)))[LARGER]
    assert (check.verdict, check.why_not) == (Sameness.NOT_CHECKED, "data: it broke")
    stays = trial_record(1, 900.0, LARGER, overrides=numbers(LIMIT))
    assert same_training([stays], Trials((own, stays))) == []
