"""The training on one machine, with figures worked out by hand."""

from collections.abc import Callable
from datetime import date

import pytest
from build_plans import (
    exactly,
    instance,
    plan_of,
    plan_request,
    row_on,
    spot_price,
    twice_as_fast,
    without_bf16,
)
from build_records import GIB, profile

from tunekit.plan.offers import is_stale
from tunekit.predict.scaling import SOURCE
from tunekit.records.codec import from_json, to_json
from tunekit.records.config import Precision
from tunekit.records.interval import Interval
from tunekit.records.plan import Plan, PlanAssumptions, PlanRequest, RateSource
from tunekit.records.profile import NO_TORCH_BUILD, Profile, Subscription, UnitPack

H = 3600.0


def a10g(*machines: object, **overrides: object) -> Profile:
    return profile(**({"instances": machines or (instance(),)} | overrides))


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


def test_on_another_gpu_the_rate_is_a_prediction_with_its_way():
    other = twice_as_fast(instances=(instance(name="two.xlarge"),), achievable_bf16_fraction=0.8)
    row = row_on(plan_of(a10g(achievable_bf16_fraction=0.8), other), "two.xlarge")
    assert row.how is RateSource.PREDICTED
    assert row.basis == "predicted from a10g in bf16: x 2.00 (1.79 to 2.24)"
    assert row.hours is not None
    assert row.hours.value == pytest.approx(177.94 / 2, abs=0.01)
    assert row.hours.low == pytest.approx(177.94 / 2 / 1.118, abs=0.01)
    assert row.hours.high == pytest.approx(177.94 / 2 * 1.118, abs=0.01)


def test_without_bf16_a_gpu_is_planned_in_fp16():
    old = without_bf16(instances=(instance(name="old"),), achievable_bf16_fraction=0.8)
    row = row_on(plan_of(a10g(achievable_bf16_fraction=0.8), old), "old")
    assert row.precision is Precision.FP16
    assert row.rate_samples_per_s is not None
    assert row.rate_samples_per_s.value == pytest.approx(180.0)


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
    assert row.rate_samples_per_s is not None
    assert row.rate_samples_per_s.value == pytest.approx(720 / 1.0023, rel=1e-4)
    assert row.rate_samples_per_s.low == pytest.approx(0.9 * 720 / 1.0033, rel=1e-4)
    assert SOURCE in plan.sources


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


@pytest.mark.parametrize(
    ("per_cpu", "vcpus", "rate"),
    [
        (None, 2, (90.0, 360.0, 402.48)),
        (None, None, (180.0, 360.0, 402.48)),
        (60.0, None, (240.0, 360.0, 402.48)),
        (60.0, 2, (120.0, 120.0, 120.0)),
        (None, 20, (322.0036, 360.0, 402.48)),
    ],
)
def test_a_loader_that_is_only_assumed_lowers_nothing_but_the_low_end_of_the_rate(
    per_cpu: float | None, vcpus: int | None, rate: tuple[float, float, float]
):
    """Four CPUs fed 180 samples/s; the GPU alone makes 360, within 11.8%."""
    fast = twice_as_fast(achievable_bf16_fraction=0.8, instances=(instance(name="2x", vcpus=vcpus),))
    loader = None if per_cpu is None else exactly(per_cpu)
    asked = plan_request(measured_vcpus_per_gpu=4, loader_samples_per_s_per_cpu=loader)
    row = row_on(plan_of(a10g(achievable_bf16_fraction=0.8), fast, request=asked), "2x")
    assert row.rate_samples_per_s is not None
    shown = row.rate_samples_per_s
    assert row.is_mostly_idle is (loader is not None and vcpus is not None)
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


@pytest.mark.parametrize(
    ("session_h", "obstacle"),
    [
        (184.0, None),
        (180.0, "it may take longer than a session, and the script writes no checkpoints"),
        (172.0, "it may take longer than a session, and the script writes no checkpoints"),
    ],
)
def test_without_checkpoints_the_slowest_rate_has_to_fit_a_session(session_h: float, obstacle: str | None):
    """173 to 183 h: what is cut off at the end of a session begins again, so no number of them is enough."""
    colab = instance(provider="colab", name="A10G", compute_units_per_h=5.0)
    rate = Interval(value=180.0, low=175.0, high=185.0)
    assumed = PlanAssumptions(checkpoint_cost_s=None, max_session_s=session_h * H)
    row = row_on(
        plan_of(a10g(colab), request=plan_request(rate_samples_per_s=rate, assumptions=assumed)), "A10G"
    )
    assert row.obstacle == obstacle
    assert (row.sessions == exactly(1.0)) is (obstacle is None)


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
def test_a_gpu_with_less_memory_may_not_hold_an_unknown_peak(
    peak_gib: int | None, memory_gib: int | None, precision: Precision, doubted: bool
):
    native = ("fp32", "tf32") + (("bf16", "fp16") if precision is Precision.BF16 else ())
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


def test_a_gpu_that_torch_left_behind_can_not_be_chosen_unless_it_was_measured_there():
    old = twice_as_fast(compute_capability="3.7", instances=(instance(name="old"),))
    plan = plan_of(profile(), old)
    assert row_on(plan, "old").obstacle == NO_TORCH_BUILD
    assert plan.choices == ()
    at_home = plan_of(old, request=plan_request(measured_on=old.id))
    assert row_on(at_home, "old").obstacle is None
    assert at_home.choices


@pytest.mark.parametrize(
    ("as_of", "today", "stale"),
    [
        ("2026-01-01", date(2026, 4, 1), False),
        ("2026-01-01", date(2026, 4, 2), True),
        ("2026-01", date(2026, 4, 2), True),
        ("2026", date(2026, 4, 1), False),
        ("2026-01-02", date(2026, 1, 1), False),
    ],
)
def test_a_price_is_stale_the_day_after_its_last_good_one(as_of: str, today: date, stale: bool):
    assert is_stale(as_of, today, 90) is stale


@pytest.mark.parametrize(("as_of", "outdated"), [("2025-03-01", False), ("2025-02-28", True)])
def test_a_price_older_than_a_year_is_shown_and_not_chosen(as_of: str, outdated: bool):
    plan = plan_of(a10g(instance(as_of=as_of)))
    row = row_on(plan, "g5.xlarge")
    assert (row.is_outdated, row.is_stale) == (outdated, True)
    assert row.usd_on_demand is not None
    assert bool(plan.choices) is not outdated


@pytest.mark.parametrize(
    ("gpus", "measured_gpus", "profile_of", "low", "high"),
    [
        (4, 1, a10g, 0.8, 1.0),
        (1, 4, a10g, 1.0, 1.25),
        (4, 4, a10g, 1.0, 1.0),
        (4, 4, twice_as_fast, 0.8 / 1.118, 1.118 / 0.8),
    ],
)
def test_another_number_of_gpus_has_an_assumed_share_of_the_rate(
    gpus: int, measured_gpus: int, profile_of: Callable[..., Profile], low: float, high: float
):
    other = profile_of(achievable_bf16_fraction=0.8, instances=(instance(name="other", gpus=gpus),))
    asked = plan_request(measured_gpus=measured_gpus)
    row = row_on(plan_of(profile(achievable_bf16_fraction=0.8), other, request=asked), "other")
    assert row.rate_samples_per_s is not None
    expected = 180.0 * gpus / measured_gpus * (2 if profile_of is twice_as_fast else 1)
    assert row.rate_samples_per_s.low == pytest.approx(expected * low)
    assert row.rate_samples_per_s.high == pytest.approx(expected * high)


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
    row = row_on(plan_of(four_a10g(), request=known_step(**unknown)), "four")
    assert (row.scaling_is_predicted, row.scaling) == (False, Interval.between(0.8, 1.0))


@pytest.mark.parametrize("epochs", [1, 3])
def test_spot_without_checkpoints_is_for_what_is_shorter_than_it_lasts(epochs: int):
    """An epoch takes 1.98 h, an interruption comes every 4 h."""
    asked = plan_request(epochs=epochs, assumptions=PlanAssumptions(checkpoint_cost_s=None))
    row = row_on(plan_of(a10g(instance(spot=spot_price())), request=asked), "g5.xlarge")
    assert (row.usd_spot is None) is (epochs == 3)
