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
    twice_as_fast,
)
from build_records import GIB, profile
from hypothesis import given
from hypothesis import strategies as st

from tunekit.errors import UsageError
from tunekit.machine.profiles import load_profiles
from tunekit.plan.plan import make_plan
from tunekit.records.codec import from_json, to_json
from tunekit.records.finding import Finding
from tunekit.records.plan import Plan, PlanAssumptions, RateSource
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
def test_any_machines_make_a_plan_that_can_be_written_and_read(
    one: Profile, other: Profile, samples: int, rate: float, spot: bool, cost_s: float | None, every_s: float
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
    for row in plan.rows:
        if row.hours is not None and row.rate_samples_per_s is not None and row.sessions is None:
            assert row.hours.value * 3600 * row.rate_samples_per_s.value == pytest.approx(samples)


@given(st.lists(instances(), max_size=6))
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
        RateSource.MEASURED,
        RateSource.PREDICTED,
    }
    assert len(plan.choices) == 3
    assert "stale-price" in codes(plan)


def test_what_takes_too_long_is_left_out_and_counted():
    plan = plan_of(*machines(), request=plan_request(max_hours=100.0))
    assert [row.instance for row in plan.rows] == [None, "two"]
    assert finding(plan, "too-slow").evidence == "2 machines"


def test_smaller_gpus_are_named_until_the_memory_need_is_known():
    small = twice_as_fast(memory_bytes=16 * GIB, torch_memory_bytes=None, instances=(instance(name="2x"),))
    gpus = (profile(instances=(instance(),)), small)
    unknown = plan_of(*gpus)
    assert finding(unknown, "memory-unknown").evidence == "need unknown, less memory than a10g: a10g-twice"
    assert {unknown.rows[one.row].profile_id for one in unknown.choices} == {"a10g"}
    assert "memory-unknown" not in codes(plan_of(gpus[0], small.changed(compute_capability="3.7")))
    known = plan_of(*gpus, request=plan_request(peak_reserved_bytes=8 * GIB))
    assert "memory-unknown" not in codes(known)
    assert {known.rows[one.row].profile_id for one in known.choices} == {"a10g-twice"}
    large = plan_request(peak_reserved_bytes=20 * GIB)
    assert "memory-too-small" in codes(plan_of(*gpus, request=large))


def test_what_keeps_the_most_machines_out_comes_first_where_none_is_left():
    nameless = twice_as_fast(bandwidth_gb_per_s=None)
    plan = plan_of(*machines(), nameless.model_copy(update={"id": "x"}), request=plan_request(max_hours=1.0))
    assert plan.choices == ()
    assert [one.code for one in plan.findings][:2] == ["too-slow", "rates-unknown"]


def test_a_provider_without_a_machine_is_an_error_that_lists_those_with_one():
    with pytest.raises(UsageError, match=r"'nowhere'.*known: aws, gcp"):
        plan_of(*machines(), request=plan_request(providers=("nowhere",)))


def test_a_training_that_never_ends_is_an_error():
    with pytest.raises(UsageError, match=r"take 3\.56e\+10 h"):
        plan_of(*machines(), request=plan_request(rate_samples_per_s=exactly(9e-7)))


def test_a_rate_that_may_be_nothing_never_ends_either():
    rate = exactly(180.0).model_copy(update={"low": 1e-9})
    with pytest.raises(UsageError, match="check rate"):
        plan_of(*machines(), request=plan_request(rate_samples_per_s=rate))


@pytest.mark.parametrize(
    ("asked", "kept"),
    [({"providers": ("gcp",)}, {None, "cheap"}), ({"only": ("a10g-twice",)}, {None, "two"})],
)
def test_only_the_wanted_machines_are_in_it(asked: dict[str, tuple[str]], kept: set[str | None]):
    assert {row.instance for row in plan_of(*machines(), request=plan_request(**asked)).rows} == kept
