"""Which optimisations apply, in which order, and why the others don't."""

from typing import Any

import pytest
from build_records import config, host, profile, root, target
from scripted_search import surroundings

from tunekit.records.config import KnobValue, Precision, TrainConfig
from tunekit.records.target import Binding, BindingKind
from tunekit.search.ablation import AblationPlan, plan_ablation


def planned(of: TrainConfig | None = None, **around: Any) -> AblationPlan:
    knobs = of or config()
    return plan_ablation(knobs, surroundings(knobs, **around))


def names(plan: AblationPlan) -> list[str]:
    return [one.name for one in plan.optimisations]


def changes(plan: AblationPlan, name: str) -> dict[str, KnobValue]:
    (one,) = [one for one in plan.optimisations if one.name == name]
    return {change.knob: change.value for change in one.changes}


def test_all_apply_to_a_plain_script_on_a_gpu():
    plan = planned(config(num_workers=0))
    assert names(plan) == ["loader workers", "pin_memory", "tf32", "bf16", "channels_last", "compile"]
    assert changes(plan, "loader workers") == {
        "num_workers": 4,
        "prefetch_factor": 2,
        "persistent_workers": True,
    }
    assert plan.left_out == ()


def test_a_cpu_has_less_to_try_and_says_why():
    plan = planned(device_type="cpu", profile=profile("cpu", native_precisions=("fp32",)), native_bf16=False)
    assert names(plan) == ["loader workers", "channels_last", "compile"]
    assert plan.left_out == (
        "pin_memory: no effect on cpu",
        "tf32: cpu does not compute natively in it",
        "bf16: cpu does not compute natively in it",
    )


def test_as_many_workers_as_are_tried_are_left_alone():
    assert "loader workers: there are 4 already, with 8 CPUs" in planned(config(num_workers=4)).left_out


@pytest.mark.parametrize(("cpus", "tried"), [(1, 1), (2, 1), (3, 1), (64, 32)])
def test_half_the_cpus_load_but_at_least_one(cpus: int, tried: int):
    plan = planned(config(num_workers=0), host=host(cpus=cpus, cpus_total=64))
    assert changes(plan, "loader workers")["num_workers"] == tried


def test_workers_that_a_measurement_asks_for_are_tried_whatever_the_cpus():
    own = config(num_workers=0)
    plan = plan_ablation(own, surroundings(own, host=host(cpus=2, cpus_total=2)), workers=6)
    assert changes(plan, "loader workers")["num_workers"] == 6


def test_a_scripts_own_prefetch_stays():
    plan = planned(config(num_workers=1, prefetch_factor=8))
    assert "prefetch_factor" not in changes(plan, "loader workers")


def test_what_is_on_already_is_left_out():
    plan = planned(config(pin_memory=True, compile=True, precision=Precision.BF16))
    assert names(plan) == ["loader workers", "channels_last"]
    assert "compile: it is on already" in plan.left_out
    assert "bf16: it computes in bf16 already" in plan.left_out
    assert "tf32: it computes in bf16 already" in plan.left_out


def test_a_knob_that_the_user_keeps_is_left_out():
    kept = target(bindings=(Binding(knob="num_workers", kind=BindingKind.FIXED),))
    assert "loader workers: bound as fixed" in planned(target=kept).left_out


def test_a_model_without_images_has_no_channels_last():
    plan = planned(roots=(root(has_4d_weights=False),))
    assert "channels_last: no 4-D weights, so no effect" in plan.left_out


def test_the_same_config_is_counted_once():
    only = planned(
        config(num_workers=4, pin_memory=True, channels_last=True, compile=True),
        native_bf16=True,
    )
    assert names(only) == ["tf32", "bf16"]
    plain = config(num_workers=4, pin_memory=True, channels_last=True, compile=True)
    assert len(only.configs_at_most(plain)) == 3, "bf16 takes tf32's place, so adding it is bf16 alone"
