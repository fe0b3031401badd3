"""A tuned config is trained with only where its learning rate and precision are taken care of."""

import pytest
from build_records import baseline_record, config, confirm_records, discovery, recommendation, run, target

from tunekit.errors import UsageError
from tunekit.recommend.compatibility import (
    expected_it_per_s,
    learning_rate_to_bind,
    loader_only_text,
    recommendation_of,
    refuse_unscaled_fp16,
)
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.interval import Interval
from tunekit.records.target import Binding, BindingKind, OptionForm, ScriptOption, Target

SAME = config(num_workers=4)
LARGER = config(batch_size=4 * config().batch_size)
SEARCHED = run(trials=(baseline_record(of=config()),))


def bound_to_flag(knob: str) -> Target:
    return target(bindings=(Binding(knob=knob, kind=BindingKind.ARG, words=(f"--{knob}", "{}")),))


BATCH_OPTION = ScriptOption(name="bs", form=OptionForm.FLAG, flags=("--bs",), value=8)


@pytest.mark.parametrize(
    ("wanted", "bound", "options", "told"),
    [
        (SAME, target(), (BATCH_OPTION,), None),
        (LARGER, bound_to_flag("batch_size"), (BATCH_OPTION,), None),
        (LARGER, target(), (), "only the loader is changed"),
        (
            LARGER,
            target(),
            (BATCH_OPTION,),
            "only the loader is changed; values computed from --bs do not follow",
        ),
    ],
)
def test_a_batch_that_reaches_the_loader_alone_is_told(
    wanted: TrainConfig, bound: Target, options: tuple[ScriptOption, ...], told: str | None
):
    baseline = baseline_record(of=config()).changed(discovery=discovery(options=options))
    assert loader_only_text(run(trials=(baseline,), target=bound), wanted) == told


def test_the_same_global_batch_keeps_the_scripts_learning_rate():
    assert learning_rate_to_bind(SEARCHED, SAME, None, target(), keep=False) is None


def test_another_global_batch_takes_the_configs_learning_rate_where_it_is_bound():
    assert learning_rate_to_bind(SEARCHED, LARGER, 0.4, bound_to_flag("lr"), keep=False) == 0.4


def test_a_learning_rate_that_the_config_names_is_set_even_for_the_same_batch():
    assert learning_rate_to_bind(SEARCHED, SAME, 0.02, bound_to_flag("lr"), keep=False) == 0.02


@pytest.mark.parametrize(
    ("lr", "known", "told"),
    [
        (0.4, target(), r"lr has no binding \(recommended: 0.4\)"),
        (None, target(), "lr has no binding;"),
        (None, bound_to_flag("lr"), "the config has no lr"),
    ],
)
def test_another_global_batch_is_refused_without_a_learning_rate(lr: float | None, known: Target, told: str):
    with pytest.raises(UsageError, match=told):
        learning_rate_to_bind(SEARCHED, LARGER, lr, known, keep=False)
    assert learning_rate_to_bind(SEARCHED, LARGER, lr, known, keep=True) is None


def test_a_script_that_scales_its_own_learning_rate_needs_none():
    scaling = SEARCHED.model_copy(update={"script_scales_lr": True})
    assert learning_rate_to_bind(scaling, LARGER, None, target(), keep=False) is None
    assert learning_rate_to_bind(scaling, LARGER, None, bound_to_flag("lr"), keep=False) is None
    assert learning_rate_to_bind(scaling, LARGER, 0.3, bound_to_flag("lr"), keep=False) == 0.3


def test_fp16_is_refused_unless_the_script_scales_or_sets_it():
    half = config(precision=Precision.FP16)
    with pytest.raises(UsageError, match="needs a GradScaler"):
        refuse_unscaled_fp16(SEARCHED, half, target())
    refuse_unscaled_fp16(SEARCHED, half, bound_to_flag("precision"))
    scaling = baseline_record().model_copy(update={"discovery": discovery(scales_gradients=True)})
    refuse_unscaled_fp16(run(trials=(scaling,)), half, target())
    refuse_unscaled_fp16(run(trials=(baseline_record(of=half),)), half, target())
    refuse_unscaled_fp16(SEARCHED, config(precision=Precision.BF16), target())


def test_an_edited_config_belongs_to_no_recommendation_and_is_not_watched():
    finished = run(recommendations=(recommendation(of=LARGER),))
    assert recommendation_of(finished, LARGER) == finished.recommendations[0]
    assert recommendation_of(finished, SAME) is None
    assert expected_it_per_s(finished, None) is None


def test_the_watched_range_reaches_up_to_the_steady_rate_within_an_epoch():
    confirmed = confirm_records([1000.0, 1010.0], LARGER)
    promise = recommendation(
        of=LARGER,
        it_per_s=Interval(value=9.0, low=8.0, high=10.0),
        confirm_trials=tuple(r.number for r in confirmed),
    )
    finished = run(recommendations=(promise,), trials=tuple(confirmed), noise_floor=None)
    low, high = expected_it_per_s(finished, promise) or (0.0, 0.0)
    steady = [1 / r.measurement.loop.step_time_s for r in confirmed if r.measurement]
    assert low == 8.0
    assert high == max(10.0, *steady)
