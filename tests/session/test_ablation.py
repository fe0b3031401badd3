"""Configs side by side, paired by round; which optimisations apply, and why the others do not."""

from typing import Any

import pytest
from build_records import config, confirm_records, host, profile, target
from scripted_search import search_context

from tunekit.recommend.noise import noise_floor
from tunekit.records.config import KnobValue, Precision, TrainConfig
from tunekit.records.target import Binding, BindingKind
from tunekit.session.ablation import AblationPlan, contender, factor, plan_ablation

PLAIN = confirm_records([100.0, 110.0, 120.0])


def test_rounds_in_which_one_of_them_failed_are_left_out():
    other = confirm_records([200.0, None, 240.0], config(num_workers=4), first_number=10)
    found = contender("four", config(num_workers=4), other, PLAIN)
    assert found.trials == (10, 11, 12)
    assert found.factor is not None
    assert found.factor.value == pytest.approx(2.0)
    assert found.why_missing is None


def test_one_round_has_a_range_only_from_the_noise_floor():
    other = confirm_records([200.0], config(num_workers=4))
    assert factor(other, PLAIN[:1], None) is None
    found = factor(other, PLAIN[:1], noise_floor([100.0, 104.0]))
    assert found is not None
    assert found.low < 2.0 < found.high


def test_what_never_ran_says_why():
    failed = contender("x", config(), confirm_records([None]), PLAIN)
    assert failed.rate_samples_per_s is None
    assert failed.factor is None
    assert failed.why_missing == "device_oom: CUDA out of memory"
    assert contender("x", config(), ()).why_missing == "not run"


# --- optimisations -------------------------------------------------------------------------


def planned(of: TrainConfig | None = None, **context: Any) -> AblationPlan:
    knobs = of or config()
    return plan_ablation(knobs, search_context(knobs, **context))


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
        "tf32: cpu computes natively in fp32 only",
        "bf16: cpu computes natively in fp32 only",
    )


def test_as_many_workers_as_are_tried_are_left_alone():
    assert "loader workers: there are 4 already, with 8 CPUs" in planned(config(num_workers=4)).left_out


@pytest.mark.parametrize(("cpus", "tried"), [(1, 1), (2, 1), (3, 1), (64, 32)])
def test_half_the_cpus_load_but_at_least_one(cpus: int, tried: int):
    plan = planned(config(num_workers=0), host=host(cpus=cpus, cpus_total=64))
    assert changes(plan, "loader workers")["num_workers"] == tried


def test_workers_that_a_measurement_asks_for_are_tried_whatever_the_cpus():
    own = config(num_workers=0)
    plan = plan_ablation(own, search_context(own, host=host(cpus=2, cpus_total=2)), workers=6)
    assert changes(plan, "loader workers")["num_workers"] == 6


def test_what_is_on_already_is_left_out():
    plan = planned(config(pin_memory=True, compile=True, precision=Precision.BF16))
    assert names(plan) == ["loader workers", "channels_last"]
    assert [one.split(":")[0] for one in plan.left_out] == ["pin_memory", "tf32", "bf16", "compile"]


def test_a_knob_that_the_user_keeps_is_left_out():
    kept = target(bindings=(Binding(knob="num_workers", kind=BindingKind.FIXED),))
    assert "loader workers: bound as fixed" in planned(target=kept).left_out


def test_the_same_config_is_counted_once():
    only = planned(
        config(num_workers=4, pin_memory=True, channels_last=True, compile=True),
        native_bf16=True,
    )
    assert names(only) == ["tf32", "bf16"]
    plain = config(num_workers=4, pin_memory=True, channels_last=True, compile=True)
    assert len(only.configs_at_most(plain)) == 3, "bf16 takes tf32's place, so adding it is bf16 alone"
