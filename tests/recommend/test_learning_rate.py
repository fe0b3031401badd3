import pytest
from build_records import config, discovery, options, trial_record
from hypothesis import given
from hypothesis import strategies as st

from tunekit.recommend.learning_rate import (
    BaseLearningRate,
    base_learning_rate,
    follows_batch,
    global_batch,
    recommended,
    rule_for,
    rule_of,
)
from tunekit.records.recommendation import LearningRate, LearningRateRule
from tunekit.records.target import OptimizerSeen

LINEAR, SQRT = LearningRateRule.LINEAR, LearningRateRule.SQRT

lrs = st.floats(1e-8, 10.0)
batches = st.integers(1, 1 << 20)


LINEAR_NAMES = "SGD FusedSGD SGD8bit NesterovSGD MomentumSGD"
SQRT_NAMES = """Adam AdamW RMSprop FusedAdam AdamW8bit PagedAdamW PagedAdamW8bit DeepSpeedCPUAdam RMSprop8bit
Adam32bit AdamW4bit AdamWFp8 _AdamW"""
NO_NAMES = """LARS LAMB FusedLAMB NAdam RAdam Adamax Adagrad Adadelta Lion SparseAdam Adafactor AdamP SGDP
Muon LBFGS AdamWScheduleFree MyAdam 8bit"""


@pytest.mark.parametrize(("names", "rule"), [(LINEAR_NAMES, LINEAR), (SQRT_NAMES, SQRT), (NO_NAMES, None)])
def test_only_optimizers_that_a_source_covers_have_a_rule(names, rule):
    assert {name: rule_for(name) for name in names.split()} == dict.fromkeys(names.split(), rule)


@given(lrs, batches, st.sampled_from(LearningRateRule))
def test_an_unchanged_batch_leaves_the_learning_rate(lr, batch, rule):
    assert BaseLearningRate(lr, batch, "flags").scaled(batch, rule) == lr


@given(lrs, batches, batches, batches, st.sampled_from(LearningRateRule))
def test_scaling_in_two_steps_equals_one(lr, first, second, third, rule):
    base = BaseLearningRate(lr, first, "flags")
    stepwise = BaseLearningRate(base.scaled(second, rule), second, "flags").scaled(third, rule)
    assert stepwise == pytest.approx(base.scaled(third, rule), rel=1e-12)


def test_the_global_batch_counts_devices_and_accumulation():
    assert global_batch(config(batch_size=32, accumulate_grad_batches=4), gpus=2) == 256


def test_the_baseline_optimizer_gives_base_and_rule():
    found = recommended(discovery("SGD", 0.1), options(), config(batch_size=64), 256)
    assert found == LearningRate(value=0.4, rule=LINEAR, base_lr=0.1, base_batch=64, source="baseline")
    found = recommended(discovery("AdamW", 3e-4), options(), config(batch_size=64), 256)
    assert found.value == pytest.approx(6e-4, rel=1e-12)
    assert found.rule is SQRT


def test_a_learning_rate_has_no_digits_of_rounding():
    assert 6 * 0.1 != 0.6
    assert recommended(discovery("SGD", 0.1), options(), config(batch_size=16), 96).value == 0.6


def test_flags_come_before_what_was_seen():
    asked = options(base_lr=0.2, base_batch=256)
    found = recommended(discovery("SGD", 0.1), asked, config(batch_size=64), 128)
    assert found == LearningRate(value=0.1, rule=LINEAR, base_lr=0.2, base_batch=256, source="flags")


def test_a_flag_that_is_missing_is_filled_from_the_baseline():
    baseline = config(batch_size=64, accumulate_grad_batches=2)
    base = base_learning_rate(discovery("SGD", 0.1), options(base_lr=0.2), baseline)
    assert (base.lr, base.batch, base.source) == (0.2, 128, "flags")
    base = base_learning_rate(discovery("SGD", 0.1), options(base_batch=512), baseline)
    assert (base.lr, base.batch, base.source) == (0.1, 512, "flags")


@pytest.mark.parametrize(
    ("seen", "baseline"),
    [
        (None, config()),
        (discovery(None), config()),
        (discovery("SGD", None), config()),
        (discovery("SGD", 0.0), config()),
        (discovery("LAMB", 0.1), config()),
        (discovery("SGD", 0.1), None),
        (discovery("SGD", 1e308), config(batch_size=1)),
    ],
)
def test_an_unknown_base_or_rule_gives_no_learning_rate(seen, baseline):
    assert recommended(seen, options(), baseline, 1 << 20) is None


def optimizers(*seen):
    records = tuple(OptimizerSeen(class_name=name, base_lr=lr) for name, lr in seen)
    return discovery().model_copy(update={"optimizers": records})


def test_several_optimizers_count_when_they_agree():
    same = optimizers(("Adam", 1e-3), ("AdamW", 1e-3))
    assert rule_of(same) is SQRT
    assert recommended(same, options(), config(), 512).value == pytest.approx(2e-3, rel=1e-12)
    assert rule_of(optimizers(("Adam", 1e-3), ("SGD", 1e-3))) is None
    assert recommended(optimizers(("Adam", 1e-3), ("Adam", 2e-3)), options(), config(), 512) is None


@pytest.mark.parametrize(
    ("rates", "follows"),
    [
        ({128: 0.1, 256: 0.2}, True),
        ({128: 0.1, 256: 0.1414}, True),
        ({128: 0.1, 256: 0.1}, False),
        ({128: None, 256: 0.2}, False),
        ({128: 0.1}, False),
        ({}, False),
    ],
)
def test_a_script_that_scales_its_learning_rate_is_noticed_at_two_batches(rates, follows):
    trials = [
        trial_record(number, of=config(batch_size=batch), overrides={"learning_rate": lr})
        for number, (batch, lr) in enumerate(rates.items())
    ]
    assert follows_batch(trials) is follows


def test_a_trial_that_failed_says_nothing_of_the_learning_rate():
    failed = trial_record(1, None, of=config(batch_size=256), overrides={"learning_rate": 0.2})
    assert not follows_batch([trial_record(0, overrides={"learning_rate": 0.1}), failed])
