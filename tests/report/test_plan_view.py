"""A plan on a terminal: the answer on one screen, and the whole of it."""

from collections.abc import Callable
from typing import Any

import pytest
from build_plans import TODAY, instance, plan_of, plan_request, spot_price, twice_as_fast
from build_records import GIB, interval, profile
from read_report import drawn

from tunekit.machine.profiles import load_profiles
from tunekit.plan.plan import make_plan
from tunekit.records.plan import Plan
from tunekit.records.profile import TakenName, UnitPack
from tunekit.records.recommendation import Tier
from tunekit.report.plan import plan_answer, plan_report

PACK = UnitPack(units=100, usd=4.5, as_of="2026-02-01", source="a page")
COLAB = instance(provider="colab", name="A10G", usd_per_h=0.2, compute_units_per_h=5.0, unit_packs=(PACK,))
KAGGLE = instance(provider="kaggle", name="A10G", usd_per_h=0, hours_per_week=30, max_session_h=12)
A100 = TakenName(typed="a100", profile_id="a100-sxm-40", others=("a100-pcie-40",))


def imagenet(**overrides: Any) -> Plan:
    """Two A10G machines, one of them with a spot price, a GPU twice as fast, and Colab."""
    a10g = profile(
        achievable_bf16_fraction=0.8,
        instances=(
            instance(spot=spot_price(0.3, 0.5, "2024")),
            instance(name="g5.12xlarge", gpus=4, vcpus=48, usd_per_h=5.672, as_of="2025-04-01"),
        ),
    )
    twice = twice_as_fast(
        achievable_bf16_fraction=0.8,
        instances=(
            instance(provider="lambda", name="gpu_1x_twice", usd_per_h=1.5, vcpus=30),
            instance(provider="colab", name="Twice", usd_per_h=0.7, compute_units_per_h=7.0, vcpus=None),
        ),
    )
    return plan_of(a10g, twice, request=plan_request(**({"rate_samples_per_s": interval(180.0)} | overrides)))


ANSWERS: dict[str, Callable[[], Plan]] = {
    "on spot": lambda: imagenet(may_use_spot=True, taken_names=(A100,), samples_per_step=256),
    "units in packs": lambda: plan_of(profile(instances=(COLAB,))),
    "a weekly quota": lambda: plan_of(profile(instances=(KAGGLE,))),
    "a limit": lambda: imagenet(max_hours=50.0),
    "a stale price": lambda: plan_of(profile(instances=(instance(as_of="2025-01-01"),))),
    "fewer CPUs than measured": lambda: imagenet(measured_vcpus_per_gpu=8),
    "the loader was measured": lambda: imagenet(
        measured_vcpus_per_gpu=4, loader_samples_per_s_per_cpu=interval(60.0)
    ),
    "it may not fit": lambda: plan_of(
        twice_as_fast(memory_bytes=16 * GIB, torch_memory_bytes=None, instances=(instance(),)), profile()
    ),
    "measured on a CPU": lambda: imagenet(measured_on="cpu"),
    "too slow": lambda: imagenet(max_hours=1.0),
    "of a run": lambda: imagenet(tier=Tier.BALANCED, precision_is_assumed=True),
}


def test_the_answers(golden: Callable[[str], object]):
    texts = [f"--- {name}\n{drawn(plan_answer(of(), 'reports/x'), 80)}" for name, of in ANSWERS.items()]
    assert "\n".join(texts) == golden("plan_answers.txt")


@pytest.mark.parametrize(
    ("name", "asked"),
    [
        ("plan_full.txt", {}),
        (
            "plan_full_of_run.txt",
            {
                "samples_per_step": 256,
                "gradients_bytes": 100 * 1024**2,
                "peak_reserved_bytes": 8 * GIB,
                "loader_samples_per_s_per_cpu": interval(60.0),
                "measured_vcpus_per_gpu": 4,
            },
        ),
    ],
)
def test_the_whole_plan(name: str, asked: dict[str, Any], golden: Callable[[str], object]):
    assert drawn(plan_report(imagenet(**asked)).blocks, 80) == golden(name)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"may_use_spot": True},
        {"measured_on": "cpu"},
        {"measured_gpus": 8, "max_hours": 1.0},
        {"measured_vcpus_per_gpu": 8, "vcpus_are_assumed": True, "samples_per_step": 256},
        {"source": "a/folder/of/a/run/with/a/long/name-2026-01-02, balanced: measured in 5 fresh processes"},
    ],
)
def test_the_answer_is_one_screen_and_no_line_is_too_wide(asked: dict[str, Any]):
    shipped = make_plan(plan_request(rate_samples_per_s=interval(180.0), **asked), load_profiles(), TODAY)
    for plan in (imagenet(**asked), shipped):
        lines = drawn(plan_answer(plan), 80).splitlines()
        assert len(lines) <= 32
        assert max(map(len, lines)) <= 80
    for width in (80, 120):
        assert max(map(len, drawn(plan_report(shipped).blocks, width).splitlines())) <= width
