"""What the agent is asked to set: the difference from the script as it is, and nothing else."""

from build_records import config, configs, unhurried
from hypothesis import given

from tunekit.records.config import Precision, TrainConfig
from tunekit.trial.bindings import INJECTED_KNOBS, MODEL_KNOBS, knobs_to_inject


@given(configs(), configs())
@unhurried
def test_only_what_differs_is_set(wanted: TrainConfig, baseline: TrainConfig):
    asked = knobs_to_inject(wanted, baseline).model_dump()
    for knob in INJECTED_KNOBS:
        value = getattr(wanted, knob)
        assert asked[knob] == (None if value == getattr(baseline, knob) else value)


@given(configs())
@unhurried
def test_the_baselines_own_config_asks_for_nothing(knobs: TrainConfig):
    assert all(value is None for value in knobs_to_inject(knobs, knobs).model_dump().values())


def test_no_workers_is_a_value_and_not_the_lack_of_one():
    asked = knobs_to_inject(config(num_workers=0), config(num_workers=2))
    assert asked.num_workers == 0
    assert asked.prefetch_factor is None
    assert asked.persistent_workers is False


def test_switches_can_be_switched_off():
    asked = knobs_to_inject(config(pin_memory=False), config(pin_memory=True))
    assert asked.pin_memory is False


def test_precision_goes_by_its_name():
    asked = knobs_to_inject(config(precision=Precision.BF16), config())
    assert asked.model_dump(mode="json")["precision"] == "bf16"


def test_accumulation_is_the_scripts_own():
    asked = knobs_to_inject(config(accumulate_grad_batches=4), config())
    assert all(value is None for value in asked.model_dump().values())


def test_model_knobs_are_injected_knobs():
    assert set(MODEL_KNOBS) <= set(INJECTED_KNOBS)
