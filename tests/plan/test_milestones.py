"""Milestones: each on the cheapest machine of its own plan, and their sum."""

from typing import Any

import pytest
from build_plans import TODAY, instance, plan_request, twice_as_fast
from build_records import profile

from tunekit.errors import UsageError
from tunekit.plan.milestones import Limits, plan_milestones
from tunekit.plan.plan import make_plan
from tunekit.records.codec import from_json, to_json
from tunekit.records.milestones import Milestone, MilestonePlan
from tunekit.records.profile import UnitPack

PACK = UnitPack(units=100, usd=10, as_of="2026-02-01", source="a page")
PROFILES = {
    one.id: one
    for one in (
        profile(
            instances=(
                instance(name="one", usd_per_h=1.0),
                instance(name="four", gpus=4, vcpus=16, usd_per_h=5.0),
                instance(
                    name="A10G", provider="colab", usd_per_h=0.1, compute_units_per_h=1.0, unit_packs=(PACK,)
                ),
                instance(name="free", provider="kaggle", usd_per_h=0, hours_per_week=30),
            )
        ),
        twice_as_fast(instances=(instance(name="twice", provider="gcp", usd_per_h=3.0),)),
    )
}


def milestone(name: str = "pilot", **overrides: Any) -> Milestone:
    """Thirty hours of work on the measured A10G, in ten epochs."""
    values: dict[str, Any] = {"samples_per_epoch": 180 * 3600 * 3, "epochs": 10, "hardware": "one"}
    return Milestone(name=name, **(values | overrides))


def planned(*milestones: Milestone, limits: Limits = Limits(), **asked: Any) -> MilestonePlan:  # noqa: B008
    return plan_milestones(plan_request(**asked), milestones, PROFILES, TODAY, limits)


def test_a_milestone_costs_what_a_plan_of_its_data_and_epochs_says():
    (found,) = planned(milestone()).milestones
    asked = plan_request(samples_per_epoch=180 * 3600 * 3, epochs=10)
    (row,) = [one for one in make_plan(asked, PROFILES, TODAY).rows if one.instance == "one"]
    assert (found.row, found.hours, found.usd) == (row, row.hours, row.usd_on_demand)
    assert found.hours.value == pytest.approx(30)


@pytest.mark.parametrize(
    ("asked", "instance_name", "machines", "hours", "usd"),
    [
        ({"runs": 3}, "one", 3, 30, 90),
        ({"runs": 3, "hardware": "colab"}, "A10G", 1, None, 10),  # 3 x 30.6 h of one unit: one pack
        ({"hardware": "a10g-twice"}, "twice", 1, 15, 45),
        ({"hardware": "gcp"}, "twice", 1, 15, 45),
        ({"hardware": "aws", "gpus": 4}, "four", 1, None, None),
        ({"hardware": "here", "runs": 2}, None, 1, 60, None),
        ({"hardware": None}, "A10G", 1, None, 10),
    ],
)
def test_hardware_and_runs(
    asked: dict[str, Any], instance_name: str, machines: int, hours: float | None, usd: float | None
):
    (found,) = planned(milestone(**asked)).milestones
    assert (found.row.instance, found.machines) == (instance_name, machines)
    assert hours is None or found.hours.value == pytest.approx(hours, rel=0.01)
    assert usd is None or (found.usd is not None and found.usd.value == pytest.approx(usd, rel=0.01))
    assert (found.usd is None) == (instance_name is None)


def test_the_sum_is_that_of_the_milestones():
    plan = planned(milestone(), milestone("full", epochs=30), milestone("own", hardware="here"))
    assert plan.hours.value == pytest.approx(sum(one.hours.value for one in plan.milestones))
    assert plan.usd is not None
    assert plan.usd.value == pytest.approx(sum(one.usd.value for one in plan.milestones if one.usd))
    assert from_json(to_json(plan), MilestonePlan) == plan


def test_a_rate_of_a_cpu_has_its_own_machine():
    (found,) = planned(milestone(hardware=None), measured_on="cpu").milestones
    assert (found.row.is_measured_machine, found.usd) == (True, None)


@pytest.mark.parametrize(
    ("one", "asked", "said"),
    [
        (milestone(gpus=2), {}, "no machine with a price can be chosen"),
        (milestone(), {"max_hours": 1.0}, "no machine with a price can be chosen"),
        (milestone(hardware=None), {"only": ("a100-sxm-80",)}, "no machine with a price can be chosen"),
        (milestone(samples_per_epoch=10**15), {}, "check rate, samples and epochs"),
    ],
)
def test_a_milestone_without_a_machine_is_refused_by_its_name(
    one: Milestone, asked: dict[str, Any], said: str
):
    with pytest.raises(UsageError, match=f"milestone 'pilot': .*{said}"):
        planned(one, **asked)
