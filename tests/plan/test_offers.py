"""The training on one machine, with figures worked out by hand."""

from datetime import date

import pytest
from build_plans import (
    TODAY,
    exactly,
    gpu_profiles,
    instance,
    plan_of,
    plan_request,
    row_on,
    spot_price,
    twice_as_fast,
    without_bf16,
)
from build_records import GIB, profile
from hypothesis import given
from hypothesis import strategies as st

from tunekit.machine.profiles import load_profiles
from tunekit.plan.offers import is_stale, offered_machines
from tunekit.predict.scaling import SOURCE
from tunekit.records.codec import from_json, to_json
from tunekit.records.config import Precision
from tunekit.records.interval import Interval
from tunekit.records.plan import ChoiceKind, Plan, PlanAssumptions, PlanRequest, RateSource
from tunekit.records.profile import NO_TORCH_BUILD, Profile, Subscription, UnitPack

H = 3600.0


def a10g(*machines: object, **overrides: object) -> Profile:
    return profile(instances=machines or (instance(),), **overrides)


def test_imagenet_for_90_epochs_at_180_samples_per_s_takes_178_hours_and_179_dollars():
    """1,281,167 x 90 = 115,305,030 samples; / 180 = 640,583.5 s = 177.9 h; x 1.006 = 179.01 dollars."""
    row = row_on(plan_of(a10g()), "g5.xlarge")
    assert row.how is RateSource.MEASURED
    assert row.hours is not None
    assert row.usd_on_demand is not None
    assert row.hours.value == pytest.approx(177.94, abs=0.005)
    assert row.usd_on_demand.value == pytest.approx(179.01, abs=0.005)
    assert row.hours.low == row.hours.value == row.hours.high
    assert not row.is_stale


def test_a_refreshed_price_says_so():
    gpu = profile(instances=(instance(is_refreshed=True), instance(name="shipped")))
    plan = plan_of(gpu)
    assert row_on(plan, "g5.xlarge").is_price_refreshed
    assert not row_on(plan, "shipped").is_price_refreshed


def test_the_measured_machine_has_hours_and_no_price():
    first = plan_of(a10g()).rows[0]
    assert first.is_measured_machine
    assert first.how is RateSource.MEASURED
    assert first.provider is first.usd_on_demand is None
    assert first.hours is not None
    assert first.hours.value == pytest.approx(177.94, abs=0.005)


def test_a_rate_with_a_range_turns_into_hours_with_the_ends_swapped():
    rate = Interval(value=100.0, low=80.0, high=125.0)
    asked = plan_request(samples_per_epoch=360_000, epochs=10, rate_samples_per_s=rate)
    row = row_on(plan_of(a10g(), request=asked), "g5.xlarge")
    assert row.hours == Interval(value=10.0, low=8.0, high=12.5)


def test_on_another_gpu_the_rate_is_a_prediction_with_its_way():
    other = twice_as_fast(instances=(instance(name="two.xlarge"),), achievable_bf16_fraction=0.8)
    row = row_on(plan_of(a10g(achievable_bf16_fraction=0.8), other), "two.xlarge")
    assert row.how is RateSource.PREDICTED
    assert row.basis == "roofline from a10g in bf16: x 2.00 (1.79 to 2.24)"
    assert row.hours is not None
    assert row.hours.value == pytest.approx(177.94 / 2, abs=0.01)
    assert row.hours.low == pytest.approx(177.94 / 2 / 1.118, abs=0.01)
    assert row.hours.high == pytest.approx(177.94 / 2 * 1.118, abs=0.01)


def test_four_gpus_have_between_80_and_100_percent_of_four_rates():
    row = row_on(plan_of(a10g(instance(name="g5.12xlarge", gpus=4, vcpus=48))), "g5.12xlarge")
    assert row.how is RateSource.PREDICTED
    assert row.rate_samples_per_s is not None
    assert row.rate_samples_per_s.low == pytest.approx(576.0)
    assert row.rate_samples_per_s.high == pytest.approx(720.0)
    assert row.scaling == "4 GPUs from 1: rate per GPU x 0.80 to 1.00"


def known_step(**overrides: object) -> PlanRequest:
    """A batch of 180 in a second, with 100 MiB of gradients."""
    return plan_request(**({"samples_per_step": 180, "gradients_bytes": 100 * 1024**2} | overrides))


def four_a10g(pcie_generation: int | None = 4) -> Profile:
    """On PCIe 4.0 with 16 lanes: 12 to 24 GB/s."""
    return a10g(instance(name="four", gpus=4, vcpus=48), pcie_generation=pcie_generation)


def test_gradients_and_link_say_how_a_known_step_scales():
    """The last of four buckets of 25 MiB is exposed: 1.5 x 26.2 MB at 12 to 24 GB/s, 2 to 3 ms."""
    plan = plan_of(four_a10g(), request=known_step())
    row = row_on(plan, "four")
    assert row.scaling_is_predicted
    assert row.scaling == "4 GPUs from 1: rate per GPU x 0.90 to 1.00, predicted over PCIe"
    assert row.rate_samples_per_s is not None
    assert row.rate_samples_per_s.value == pytest.approx(720 / 1.0023, rel=1e-4)
    assert row.rate_samples_per_s.low == pytest.approx(0.9 * 720 / 1.0033, rel=1e-4)
    assert SOURCE in plan.sources


@pytest.mark.parametrize(
    "unknown",
    [
        {"gradients_bytes": None},
        {"samples_per_step": None},
        {"measured_gpus": 2},
        {"assumptions": PlanAssumptions(scaling_is_given=True)},
    ],
)
def test_without_a_known_step_or_against_a_given_share_scaling_is_assumed(unknown: dict[str, object]):
    plan = plan_of(four_a10g(), request=known_step(**unknown))
    row = row_on(plan, "four")
    assert not row.scaling_is_predicted
    assert row.scaling is not None
    assert row.scaling.endswith("rate per GPU x 0.80 to 1.00")
    assert SOURCE not in plan.sources


def test_gpus_of_an_unknown_link_are_assumed_to_scale():
    row = row_on(plan_of(four_a10g(pcie_generation=None), request=known_step()), "four")
    assert row.scaling == "4 GPUs from 1: rate per GPU x 0.80 to 1.00"


def test_a_rate_of_four_gpus_is_measured_on_four_and_predicted_on_one():
    machines = (instance(name="four", gpus=4, vcpus=48), instance(name="one"))
    plan = plan_of(a10g(*machines), request=plan_request(measured_gpus=4, rate_samples_per_s=exactly(640.0)))
    four, one = row_on(plan, "four"), row_on(plan, "one")
    assert four.how is RateSource.MEASURED
    assert four.rate_samples_per_s == exactly(640.0)
    assert one.how is RateSource.PREDICTED
    assert one.rate_samples_per_s is not None
    assert one.rate_samples_per_s.low == pytest.approx(160.0)
    assert one.rate_samples_per_s.high == pytest.approx(200.0)


def test_as_many_gpus_of_another_kind_may_scale_better_or_worse():
    """They speak over other links: 640 x 2, within 11.8% and 80% either way."""
    fast = twice_as_fast(instances=(instance(name="four", gpus=4),), achievable_bf16_fraction=0.8)
    asked = plan_request(measured_gpus=4, rate_samples_per_s=exactly(640.0))
    row = row_on(plan_of(a10g(achievable_bf16_fraction=0.8), fast, request=asked), "four")
    assert row.rate_samples_per_s is not None
    assert row.rate_samples_per_s.value == pytest.approx(1280.0)
    assert row.rate_samples_per_s.low == pytest.approx(1280.0 * 0.8 / 1.118)
    assert row.rate_samples_per_s.high == pytest.approx(1280.0 / 0.8 * 1.118)
    assert row.scaling == "4 GPUs from 4: rate per GPU x 0.80 to 1.25"


def test_fewer_cpus_than_it_was_measured_with_make_a_measured_rate_a_prediction():
    machines = (instance(name="small", vcpus=4), instance(name="large", vcpus=8))
    plan = plan_of(a10g(*machines), request=plan_request(measured_vcpus_per_gpu=8))
    small, large = row_on(plan, "small"), row_on(plan, "large")
    assert (small.how, small.gpu_busy) == (RateSource.PREDICTED, 0.5)
    assert small.rate_samples_per_s == Interval(value=90.0, low=90.0, high=180.0)
    assert (large.how, large.gpu_busy) == (RateSource.MEASURED, None)
    assert "with more CPUs than the 4 here" in small.basis


def test_a_faster_gpu_needs_as_many_times_the_cpus():
    machines = (instance(name="eight", vcpus=8), instance(name="ten", vcpus=10))
    fast = twice_as_fast(instances=machines, achievable_bf16_fraction=0.8)
    known = a10g(achievable_bf16_fraction=0.8)
    plan = plan_of(known, fast, request=plan_request(measured_vcpus_per_gpu=5))
    eight, ten = row_on(plan, "eight"), row_on(plan, "ten")
    assert eight.is_loader_bound and not eight.is_mostly_idle
    assert eight.rate_samples_per_s is not None
    assert eight.rate_samples_per_s.value == pytest.approx(288.0)
    assert not ten.is_loader_bound
    assert ten.rate_samples_per_s is not None
    assert ten.rate_samples_per_s.value == pytest.approx(360.0)


def test_a_measured_loader_bounds_the_rate_at_both_ends():
    """A CPU loads 10 to 40 samples/s, and 22.5 at least as it kept up with 180 on 8."""
    per_cpu = Interval(value=20.0, low=10.0, high=40.0)
    fast = twice_as_fast(instances=(instance(name="four", vcpus=4), instance(name="many", vcpus=64)))
    asked = plan_request(measured_vcpus_per_gpu=8, loader_samples_per_s_per_cpu=per_cpu)
    plan = plan_of(a10g(), fast, request=asked)
    four, many = row_on(plan, "four"), row_on(plan, "many")
    assert four.rate_samples_per_s == four.loader_samples_per_s == Interval(value=90.0, low=40.0, high=160.0)
    assert four.is_mostly_idle
    assert many.gpu_busy == 1.0
    assert many.rate_samples_per_s is not None
    assert many.rate_samples_per_s.value == pytest.approx(360.0)


def test_unknown_cpus_are_those_of_the_gpus_usual_machine():
    machines = (instance(name="usual", vcpus=8), instance(name="unknown", vcpus=None, gpus=2))
    fast = twice_as_fast(instances=machines)
    plan = plan_of(a10g(), fast, request=plan_request(measured_vcpus_per_gpu=18))
    assert row_on(plan, "usual").loader_samples_per_s == exactly(80.0)
    assert row_on(plan, "unknown").loader_samples_per_s == exactly(160.0)
    bare = twice_as_fast(instances=machines[1:])
    plan = plan_of(a10g(), bare, request=plan_request(measured_vcpus_per_gpu=18))
    assert row_on(plan, "unknown").loader_samples_per_s == exactly(360.0)


def test_a_measured_loader_on_the_usual_machines_cpus_is_assumed():
    machines = (instance(name="usual", vcpus=8), instance(name="unknown", vcpus=None))
    asked = plan_request(measured_vcpus_per_gpu=18, loader_samples_per_s_per_cpu=exactly(10.0))
    plan = plan_of(a10g(), twice_as_fast(instances=machines), request=asked)
    assert not row_on(plan, "usual").loader_is_assumed
    assert row_on(plan, "unknown").loader_is_assumed


@pytest.mark.parametrize(
    ("per_cpu", "vcpus", "has_range_only", "rate"),
    [
        (None, 2, True, (90.0, 90.0, 402.48)),
        (None, None, True, (180.0, 180.0, 402.48)),
        (60.0, None, True, (240.0, 240.0, 402.48)),
        (60.0, 2, False, (120.0, 120.0, 120.0)),
        (None, 20, False, (322.0036, 360.0, 402.48)),
    ],
)
def test_a_loader_that_is_only_assumed_leaves_the_rate_a_range_up_to_the_gpus_own(
    per_cpu: float | None, vcpus: int | None, has_range_only: bool, rate: tuple[float, float, float]
):
    """Four CPUs fed 180 samples/s; the GPU alone makes 360, within 11.8%."""
    fast = twice_as_fast(achievable_bf16_fraction=0.8, instances=(instance(name="2x", vcpus=vcpus),))
    loader = None if per_cpu is None else exactly(per_cpu)
    asked = plan_request(measured_vcpus_per_gpu=4, loader_samples_per_s_per_cpu=loader)
    row = row_on(plan_of(a10g(achievable_bf16_fraction=0.8), fast, request=asked), "2x")
    assert row.has_range_only is has_range_only
    assert row.rate_samples_per_s is not None
    shown = row.rate_samples_per_s
    assert (shown.low, shown.value, shown.high) == pytest.approx(rate, abs=0.01)


def test_spot_takes_longer_and_costs_what_the_zone_asks():
    """M = 4 h, C = 30 s: sqrt(2 x 30 x 14,400) - 30 = 899.5 s of work between two checkpoints."""
    row = row_on(plan_of(a10g(instance(spot=spot_price(0.2, 0.8)))), "g5.xlarge")
    assert row.checkpoint_interval_s == pytest.approx(899.516, abs=0.001)
    assert row.spot_hours is not None
    # Pieces of 929.516 s cost 14,400 e^(300/14,400) (e^(929.516/14,400) - 1) = 980.386 s apiece.
    assert row.spot_hours.value == pytest.approx(177.94 * 980.386 / 899.516, rel=1e-4)
    assert row.usd_spot is not None
    assert row.usd_spot.value == pytest.approx(0.4 * row.spot_hours.value)
    assert row.usd_spot.low == pytest.approx(0.2 * row.spot_hours.low)
    assert row.usd_spot.high == pytest.approx(0.8 * row.spot_hours.high)


@pytest.mark.parametrize(("epochs", "refused"), [(1, False), (3, True)])
def test_spot_without_checkpoints_is_refused_for_what_is_longer_than_it_lasts(epochs: int, refused: bool):
    """An epoch takes 1.98 h, an interruption comes every 4 h."""
    asked = plan_request(epochs=epochs, assumptions=PlanAssumptions(checkpoint_cost_s=None))
    row = row_on(plan_of(a10g(instance(spot=spot_price())), request=asked), "g5.xlarge")
    assert (row.spot_refused is not None) is refused
    assert (row.usd_spot is None) is refused
    assert row.usd_on_demand is not None


def test_spot_that_never_gets_anywhere_is_refused():
    restless = PlanAssumptions(interrupted_every_s=10.0, restart_cost_s=3600.0)
    row = row_on(
        plan_of(a10g(instance(spot=spot_price())), request=plan_request(assumptions=restless)), "g5.xlarge"
    )
    assert row.spot_refused == "interruptions come too fast for it to get anywhere"


def test_colab_takes_units_and_sessions():
    """177.94 h and 30 s after every sqrt(2 x 30 x 43,200) - 30 = 1,579.97 s of it are 181.32 h.

    In sessions of 12 h with 330 s between two these are 16 with 15 gaps = 1.375 h.
    """
    colab = instance(
        provider="colab", name="A10G", usd_per_h=0.5, compute_units_per_h=5.0, as_of="2026-02-28"
    )
    row = row_on(plan_of(a10g(colab)), "A10G")
    assert row.sessions == exactly(16.0)
    assert row.hours is not None
    assert row.hours.value == pytest.approx(177.94 * (1 + 30 / 1579.97) + 15 * 330 / H, abs=0.01)
    assert row.compute_units is not None
    assert row.compute_units.value == pytest.approx(5 * row.hours.value)
    assert row.usd_on_demand is not None
    assert row.usd_on_demand.value == pytest.approx(0.5 * row.hours.value)
    assert row.checkpoint_interval_s is not None


def seventy_five_hours(**overrides: object) -> PlanRequest:
    return plan_request(samples_per_epoch=180 * 3600, epochs=75, **overrides)


def test_75_hours_at_30_a_week_take_3_weeks_of_kaggle():
    """With 30 s after every 1,579.97 s they are 76.42 h.

    Three sessions of a week with 330 s after each hold 30 h - 990 s = 29.725 h. 76.42 - 2 x 29.725 h =
    16.97 h are left for the third week: 2 sessions, which end 336 h + 16.97 h + 330 s after the first began.
    """
    kaggle = instance(provider="kaggle", name="A10G", usd_per_h=0, hours_per_week=30, max_session_h=12)
    plan = plan_of(a10g(kaggle), request=seventy_five_hours())
    row = row_on(from_json(to_json(plan), Plan), "A10G")
    assert (row.weeks, row.sessions) == (exactly(3.0), exactly(8.0))
    assert (row.hours_per_week, row.max_session_s) == (30.0, 12 * H)
    work_h = 75 * (1 + 30 / 1579.97)
    assert row.hours is not None
    assert row.hours.value == pytest.approx(work_h + 7 * 330 / H, abs=0.001)
    assert row.elapsed_hours is not None
    assert row.elapsed_hours.value == pytest.approx(336 + work_h - 2 * 29.725 + 330 / H, abs=0.001)
    assert row.usd_on_demand == exactly(0.0)
    assert row.can_be_chosen


@pytest.mark.parametrize(("own_h", "asked_h", "longest_h"), [(9, 12, 9), (12, 6, 6), (None, 40, 30)])
def test_a_session_is_as_long_as_the_shortest_limit_allows(own_h: int | None, asked_h: int, longest_h: int):
    kaggle = instance(provider="kaggle", name="A10G", hours_per_week=30, max_session_h=own_h)
    asked = seventy_five_hours(assumptions=PlanAssumptions(max_session_s=asked_h * H))
    assert row_on(plan_of(a10g(kaggle), request=asked), "A10G").max_session_s == longest_h * H


def test_sessions_without_a_quota_take_no_weeks():
    notebook = instance(provider="kaggle", name="A10G", max_session_h=12)
    row = row_on(plan_of(a10g(notebook), request=seventy_five_hours()), "A10G")
    assert row.sessions == exactly(7.0)
    assert row.weeks is row.elapsed_hours is None
    assert row.done_in_hours == row.hours


def test_the_longest_time_is_the_calendars():
    kaggle = instance(provider="kaggle", name="A10G", hours_per_week=30, max_session_h=12)
    for most_h, is_kept in ((350.0, False), (360.0, True)):
        plan = plan_of(a10g(kaggle), request=seventy_five_hours(max_hours=most_h))
        assert ("A10G" in [row.instance for row in plan.rows]) is is_kept


def test_units_are_whole_months_of_a_subscription():
    """75 h are 77.0 h in 7 sessions, and 385 units: 4 months of 100, and one of 500."""
    pro, plus = (
        Subscription(name=name, usd_per_month=usd, units_per_month=units, as_of=as_of, source="a page")
        for name, usd, units, as_of in (("Pro", 10.0, 100.0, "2026-02-01"), ("Pro+", 50.0, 500.0, "2025"))
    )
    colab = instance(provider="colab", name="A10G", compute_units_per_h=5.0, subscriptions=(pro, plus))
    row = row_on(plan_of(a10g(colab), request=seventy_five_hours()), "A10G")
    assert row.compute_units is not None
    assert row.compute_units.value == pytest.approx(385, abs=1)
    assert [
        (one.count(row.compute_units).value, one.paid(row.compute_units).value, one.is_stale)
        for one in row.purchases
    ] == [(4, 40.0, False), (1, 50.0, True)]
    assert row.usd_on_demand == exactly(40.0)


@pytest.mark.parametrize(("pack_usd", "name"), [(9.0, "pack of 100"), (10.0, "pack of 100"), (11.0, "Pro")])
def test_what_is_paid_are_the_fewest_dollars_that_buy_the_units(pack_usd: float, name: str):
    """Of equals it is the pack: the next month of a subscription has to be waited for."""
    pro = Subscription(name="Pro", usd_per_month=10, units_per_month=100, as_of="2026-02-01", source="a page")
    pack = UnitPack(units=100, usd=pack_usd, as_of="2026-02-01", source="a page")
    colab = instance(
        provider="colab",
        name="A10G",
        usd_per_h=0.5,
        compute_units_per_h=5.0,
        subscriptions=(pro,),
        unit_packs=(pack,),
    )
    row = row_on(plan_of(a10g(colab), request=seventy_five_hours()), "A10G")
    assert row.purchase is not None
    assert row.purchase.name == name
    assert row.usd_on_demand == exactly(4 * min(pack_usd, 10.0))
    assert row.usd_of_units is not None
    assert row.usd_of_units.value == pytest.approx(38.5, abs=0.1)


def test_the_cheapest_goes_by_what_is_really_paid():
    """Five hours of 1 unit are worth cents, and a whole pack has to be bought."""
    pack = UnitPack(units=100, usd=10, as_of="2026-02-01", source="a page")
    colab = instance(
        provider="colab", name="book", usd_per_h=0.1, compute_units_per_h=1.0, unit_packs=(pack,)
    )
    asked = plan_request(samples_per_epoch=180 * 3600, epochs=5)
    plan = plan_of(a10g(colab, instance(name="rented", usd_per_h=1.0)), request=asked)
    (cheapest,) = (one for one in plan.choices if one.kind is ChoiceKind.CHEAPEST)
    assert plan.rows[cheapest.row].instance == "rented"


def test_what_fits_one_session_of_colab_writes_no_checkpoint():
    colab = instance(provider="colab", name="A10G", compute_units_per_h=5.0)
    row = row_on(plan_of(a10g(colab), request=plan_request(epochs=6)), "A10G")
    assert row.sessions == exactly(1.0)
    assert row.checkpoint_interval_s is None
    assert row.hours is not None
    assert row.hours.value == pytest.approx(6 * 1_281_167 / 180 / H)


def test_colab_without_checkpoints_can_not_outlast_a_session():
    colab = instance(provider="colab", name="A10G", compute_units_per_h=5.0)
    asked = plan_request(assumptions=PlanAssumptions(checkpoint_cost_s=None))
    row = row_on(plan_of(a10g(colab), request=asked), "A10G")
    assert row.hours is row.usd_on_demand is None
    assert row.obstacle == "it is longer than a session, and the script writes no checkpoints"
    assert not row.can_be_chosen


@pytest.mark.parametrize(
    ("session_h", "obstacle"),
    [
        (184.0, None),
        (180.0, "it may be longer than a session, and the script writes no checkpoints"),
        (172.0, "it is longer than a session, and the script writes no checkpoints"),
    ],
)
def test_without_checkpoints_the_slowest_rate_has_to_fit_a_session(session_h: float, obstacle: str | None):
    """173 to 183 h: what is cut off at the end of a session begins anew, so no number of them is enough."""
    colab = instance(provider="colab", name="A10G", compute_units_per_h=5.0)
    rate = Interval(value=180.0, low=175.0, high=185.0)
    assumed = PlanAssumptions(checkpoint_cost_s=None, max_session_s=session_h * H)
    row = row_on(
        plan_of(a10g(colab), request=plan_request(rate_samples_per_s=rate, assumptions=assumed)), "A10G"
    )
    assert row.obstacle == obstacle
    assert (row.sessions == exactly(1.0)) is (obstacle is None)


def test_the_sessions_of_an_uncertain_rate_are_a_range():
    colab = instance(provider="colab", name="A10G", compute_units_per_h=5.0)
    rate = Interval(value=180.0, low=175.0, high=185.0)
    asked = plan_request(rate_samples_per_s=rate, assumptions=PlanAssumptions(max_session_s=180 * H))
    row = row_on(plan_of(a10g(colab), request=asked), "A10G")
    assert row.sessions is not None
    assert (row.sessions.low, row.sessions.value, row.sessions.high) == (1.0, 1.0, 2.0)


def test_a_session_that_only_restarts_is_no_session():
    short = PlanAssumptions(max_session_s=200.0)
    colab = instance(provider="colab", name="A10G", compute_units_per_h=5.0)
    row = row_on(plan_of(a10g(colab), request=plan_request(assumptions=short)), "A10G")
    assert row.obstacle == "a session is too short for one restart and one checkpoint"


def test_a_machine_with_a_part_of_its_price_has_hours_and_no_dollars():
    row = row_on(plan_of(a10g(instance(usd_per_h=None))), "g5.xlarge")
    assert row.hours is not None
    assert row.usd_on_demand is None


@pytest.mark.parametrize(
    ("peak_gib", "memory_gib", "fits"), [(20, 22, True), (21, 22, False), (None, 22, None), (20, None, None)]
)
def test_the_measured_peak_is_held_against_95_percent_of_the_memory(
    peak_gib: int | None, memory_gib: int | None, fits: bool | None
):
    memory = None if memory_gib is None else memory_gib * GIB
    other = twice_as_fast(torch_memory_bytes=memory, memory_bytes=None, instances=(instance(name="other"),))
    peak = None if peak_gib is None else peak_gib * GIB
    row = row_on(plan_of(a10g(), other, request=plan_request(peak_reserved_bytes=peak)), "other")
    assert row.fits is fits
    assert (row.obstacle is not None) is (fits is False)


@pytest.mark.parametrize(
    ("peak_gib", "memory_gib", "precision", "doubted"),
    [
        (None, 16, Precision.BF16, True),
        (None, 22, Precision.BF16, True),
        (None, 24, Precision.BF16, False),
        (None, None, Precision.BF16, False),
        (8, 16, Precision.BF16, False),
        (8, 16, Precision.FP32, True),
    ],
)
def test_a_gpu_with_less_memory_may_not_hold_what_nobody_knows(
    peak_gib: int | None, memory_gib: int | None, precision: Precision, doubted: bool
):
    native = ("fp32", "tf32", "fp16") + (("bf16",) if precision is Precision.BF16 else ())
    memory = None if memory_gib is None else memory_gib * GIB
    machines = (instance(name="other"),)
    other = twice_as_fast(
        memory_bytes=memory, torch_memory_bytes=None, native_precisions=native, instances=machines
    )
    peak = None if peak_gib is None else peak_gib * GIB
    plan = plan_of(a10g(), other, request=plan_request(peak_reserved_bytes=peak))
    row = row_on(plan, "other")
    assert row.precision is precision
    assert row.may_not_fit is doubted
    assert not row_on(plan, "g5.xlarge").may_not_fit


def test_a_fallback_says_what_it_trains_in_and_not_that_it_fits():
    old = without_bf16(instances=(instance(name="old.xlarge"),))
    row = row_on(plan_of(a10g(), old, request=plan_request(peak_reserved_bytes=GIB)), "old.xlarge")
    assert row.precision is Precision.FP32
    assert row.fits is None


@pytest.mark.parametrize(
    ("measured_on", "reason"),
    [("cpu", "measured on a CPU"), ("nvidia-unheard-of", "no profile of nvidia-unheard-of")],
)
def test_a_rate_of_another_kind_of_device_gives_no_figures(measured_on: str, reason: str):
    plan = plan_of(a10g(), profile("cpu"), request=plan_request(measured_on=measured_on))
    row = row_on(plan, "g5.xlarge")
    assert row.how is row.hours is row.usd_on_demand is None
    assert reason in row.basis
    assert plan.rows[0].hours is not None
    assert plan.choices == ()


def test_a_gpu_that_nobody_offers_has_hours_on_one_of_it():
    row = row_on(plan_of(a10g(), twice_as_fast()), None)
    assert (row.gpus, row.profile_id, row.how) == (1, "a10g-twice", RateSource.PREDICTED)
    assert not row.can_be_chosen


@given(
    gpu_profiles("a10g"),
    gpu_profiles("other"),
    st.sampled_from(Precision),
    st.tuples(st.floats(1e-3, 1e9), st.floats(1.0, 2.0), st.floats(1.0, 2.0)),
    st.integers(1, 8),
    st.sampled_from([PlanAssumptions(), PlanAssumptions(checkpoint_cost_s=None)]),
)
def test_hours_times_rate_are_the_samples_whatever_the_machines(
    one: Profile,
    other: Profile,
    precision: Precision,
    rate: tuple[float, float, float],
    gpus: int,
    assumed: PlanAssumptions,
):
    middle, below, above = rate
    asked = plan_request(
        samples_per_epoch=50_000,
        precision=precision,
        rate_samples_per_s=Interval(value=middle, low=middle / below, high=middle * above),
        measured_gpus=gpus,
        measured_vcpus_per_gpu=4,
        assumptions=assumed,
    )
    samples = pytest.approx(50_000 * 90, rel=1e-9)
    for row in plan_of(one, other, request=asked).rows:
        if row.hours is None:
            assert row.how is None or row.obstacle is not None
            assert row.usd_on_demand is None
            continue
        hours, per_s = row.hours, row.rate_samples_per_s
        assert per_s is not None
        if row.sessions is None or row.sessions.high == 1:
            assert hours.low * H * per_s.high == samples
            assert hours.value * H * per_s.value == samples
            assert hours.high * H * per_s.low == samples
        else:
            assert hours.value * H * per_s.value >= 50_000 * 90 * (1 - 1e-9)
        if row.spot_hours is not None:
            assert row.spot_hours.value >= hours.value * (1 - 1e-9) or row.sessions is not None


def test_no_order_of_profiles_changes_the_plan():
    machines = [a10g(), twice_as_fast(instances=(instance(name="two"),)), without_bf16()]
    assert plan_of(*machines) == plan_of(*reversed(machines))


def test_a_measured_gpu_that_nobody_offers_is_listed_once():
    assert len(plan_of(profile()).rows) == 1


def test_a_gpu_that_torch_left_behind_can_not_be_chosen_unless_it_was_measured_there():
    old = twice_as_fast(compute_capability="3.7", instances=(instance(name="old"),))
    plan = plan_of(profile(), old)
    assert row_on(plan, "old").obstacle == NO_TORCH_BUILD
    assert plan.choices == ()
    at_home = plan_of(old, request=plan_request(measured_on=old.id))
    assert row_on(at_home, "old").obstacle is None
    assert at_home.choices


def test_the_k80_is_the_one_shipped_gpu_without_a_build_of_torch():
    profiles = load_profiles()
    rows = offered_machines(plan_request(), profiles, TODAY)
    assert {row.profile_id for row in rows if row.obstacle} == {"k80"}


@pytest.mark.parametrize("gpu", ["k80", "p100-pcie-16", "v100-pcie-16", "mps-m1"])
def test_old_gpus_are_predicted_slower_than_an_a10g_within_a_plausible_range(gpu: str):
    asked = plan_request(only=(gpu,))
    (row,) = offered_machines(asked, load_profiles(), TODAY)
    assert row.hours is not None
    assert row.precision is Precision.FP32
    assert 178 < row.hours.value < 20 * 178
    assert row.hours.high / row.hours.low < 15


def test_every_shipped_machine_of_colab_costs_units():
    rows = [
        one for one in offered_machines(plan_request(), load_profiles(), TODAY) if one.provider == "colab"
    ]
    assert {"t4", "l4"} <= {row.profile_id for row in rows}
    for row in rows:
        assert row.compute_units is not None
        assert row.sessions is not None
        assert row.sessions.value > 1
        assert row.checkpoint_interval_s is not None


@pytest.mark.parametrize(
    ("as_of", "today", "stale"),
    [
        ("2026-01-01", date(2026, 4, 1), False),
        ("2026-01-01", date(2026, 4, 2), True),
        ("2026-01", date(2026, 4, 2), True),
        ("2026", date(2026, 4, 1), False),
        ("2026-01-02", date(2026, 1, 1), False),
        ("2026-02-30", date(2026, 3, 1), True),
    ],
)
def test_a_price_is_stale_the_day_after_its_last_good_one_and_without_a_real_day(
    as_of: str, today: date, stale: bool
):
    assert is_stale(as_of, today, 90) is stale
