"""The whole plan: order, filters, findings, and that no facts can break it."""

from datetime import date

import pytest
from build_plans import (
    exactly,
    gpu_profiles,
    instance,
    instances,
    plan_of,
    plan_request,
    row_on,
    spot_price,
    twice_as_fast,
    without_bf16,
)
from build_records import GIB, profile, unhurried
from hypothesis import given
from hypothesis import strategies as st

from tunekit.errors import UsageError
from tunekit.hardware.profiles import load_profiles
from tunekit.plan.plan import known_providers, make_plan
from tunekit.records.codec import from_json, to_json
from tunekit.records.finding import Finding
from tunekit.records.plan import How, Plan, PlanAssumptions
from tunekit.records.profile import Profile


def codes(plan: Plan) -> set[str]:
    return {finding.code for finding in plan.findings}


def finding(plan: Plan, code: str) -> Finding:
    return next(one for one in plan.findings if one.code == code)


def machines() -> tuple[Profile, Profile]:
    """An A10G at two prices, and a GPU twice as fast at one."""
    dear, cheap = instance(name="dear", usd_per_h=2.0), instance(name="cheap", provider="gcp")
    return profile(instances=(dear, cheap)), twice_as_fast(instances=(instance(name="two", usd_per_h=5.0),))


@given(
    gpu_profiles("a10g"),
    gpu_profiles("other"),
    st.integers(1, 10**9),
    st.floats(0.1, 1e9),
    st.booleans(),
    st.sampled_from([None, 30.0, 1e6]),
    st.floats(1.0, 1e7),
)
@unhurried
def test_any_machines_make_a_plan_that_can_be_written_and_read(
    one: Profile,
    other: Profile,
    samples: int,
    rate: float,
    spot: bool,
    cost_s: float | None,
    every_s: float,
):
    assumed = PlanAssumptions(
        checkpoint_cost_s=cost_s, interrupted_every_s=every_s, max_session_s=every_s, restart_cost_s=60.0
    )
    asked = plan_request(
        samples_per_epoch=samples,
        epochs=1,
        rate_samples_per_s=exactly(rate),
        may_use_spot=spot,
        peak_reserved_bytes=20 * GIB,
        assumptions=assumed,
    )
    plan = plan_of(one, other, request=asked)
    assert from_json(to_json(plan), Plan) == plan
    assert all(plan.rows[choice.row].can_be_chosen for choice in plan.choices)


@given(st.lists(instances(), max_size=6))
@unhurried
def test_rows_stand_by_dollars_and_every_machine_has_one(offered: list[object]):
    plan = plan_of(profile(instances=offered))
    assert len(plan.rows) == 1 + len(offered)
    dollars = [row.usd_on_demand.value for row in plan.rows if row.usd_on_demand and not row.obstacle]
    assert dollars == sorted(dollars)


def test_the_shipped_profiles_make_a_plan():
    profiles = load_profiles()
    plan = make_plan(plan_request(), profiles, date(2026, 11, 21))
    offered = sum(len(one.instances) for one in profiles.values())
    assert len([row for row in plan.rows if row.provider]) == offered
    assert {row.how for row in plan.rows if row.provider and row.profile_id == "a10g"} == {
        How.MEASURED,
        How.PREDICTED,
    }
    assert len(plan.choices) == 3
    assert "stale-price" in codes(plan)


def test_only_the_wanted_machines_are_in_it():
    both = machines()
    assert {row.instance for row in plan_of(*both, request=plan_request(providers=("gcp",))).rows} == {
        None,
        "cheap",
    }
    assert {row.instance for row in plan_of(*both, request=plan_request(only=("a10g-twice",))).rows} == {
        None,
        "two",
    }


def test_what_takes_too_long_is_left_out_and_counted():
    plan = plan_of(*machines(), request=plan_request(max_hours=100.0))
    assert [row.instance for row in plan.rows] == [None, "two"]
    left_out = finding(plan, "too-slow")
    assert left_out.message == "2 machines that need more than 100 h are left out"
    assert left_out.remedy == "give a higher --max-hours to see them"


def test_a_provider_without_a_machine_is_an_error_that_lists_those_with_one():
    with pytest.raises(UsageError, match=r"'nowhere'.*known: aws, gcp"):
        plan_of(*machines(), request=plan_request(providers=("nowhere",)))
    assert known_providers({one.id: one for one in machines()}) == ("aws", "gcp")


def test_a_training_that_never_ends_is_an_error():
    with pytest.raises(UsageError, match=r"take 3\.56e\+10 h"):
        plan_of(*machines(), request=plan_request(rate_samples_per_s=exactly(9e-7)))


def test_a_rate_that_may_be_nothing_is_too_uncertain():
    rate = exactly(180.0).model_copy(update={"low": 1e-9})
    with pytest.raises(UsageError, match="too uncertain to plan with"):
        plan_of(*machines(), request=plan_request(rate_samples_per_s=rate))


def test_a_plan_without_trouble_has_no_finding():
    assert codes(plan_of(profile(instances=(instance(),)))) == set()


@pytest.mark.parametrize(
    ("code", "gpu", "asked"),
    [
        ("stale-price", profile(instances=(instance(as_of="2025-01"),)), {}),
        ("stale-price", profile(instances=(instance(spot=spot_price(as_of="2024")),)), {}),
        ("no-price", profile(instances=(instance(usd_per_h=None),)), {}),
        ("loader-not-counted", twice_as_fast(instances=(instance(),)), {}),
        ("rates-unknown", twice_as_fast(bandwidth_gb_per_s=None), {}),
        ("rates-unknown", twice_as_fast(), {"measured_on": "cpu"}),
        ("other-precision", without_bf16(), {}),
        ("no-torch-build", twice_as_fast(compute_capability="3.7"), {}),
        ("memory-too-small", twice_as_fast(), {"peak_reserved_bytes": 100 * GIB}),
        (
            "spot-refused",
            profile(instances=(instance(spot=spot_price()),)),
            {"assumptions": PlanAssumptions(checkpoint_cost_s=None)},
        ),
        (
            "session-too-short",
            profile(instances=(instance(provider="colab", compute_units_per_h=5.0),)),
            {"assumptions": PlanAssumptions(checkpoint_cost_s=None)},
        ),
    ],
)
def test_what_should_be_known_is_a_finding_with_a_remedy(code: str, gpu: Profile, asked: dict[str, object]):
    quiet = profile(instances=(instance(name="quiet"),))
    found = plan_of(*((gpu,) if gpu.id == "a10g" else (quiet, gpu)), request=plan_request(**asked))
    assert code in codes(found)
    assert finding(found, code).remedy


def test_one_source_of_two_chosen_prices_is_named_once():
    plan = plan_of(
        profile(instances=(instance(),)), twice_as_fast(instances=(instance(name="2x", usd_per_h=9),))
    )
    assert plan.sources[0] == "aws g5.xlarge, aws 2x: a price list"


def test_a_loader_with_too_few_cpus_is_named():
    asked = plan_request(measured_vcpus_per_gpu=8)
    plan = plan_of(profile(instances=(instance(vcpus=4),)), request=asked)
    found = finding(plan, "loader-not-counted")
    assert found.severity == "warning"
    assert "aws g5.xlarge" in found.message
    assert row_on(plan, "g5.xlarge").how is How.PREDICTED


def test_many_machines_are_counted_after_the_first_four():
    offered = tuple(instance(name=f"m{number}", usd_per_h=None) for number in range(7))
    message = finding(plan_of(profile(instances=offered)), "no-price").message
    assert message == "No price is known of 7 machines: aws m0, aws m1, aws m2, aws m3 and 3 more"
