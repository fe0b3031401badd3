"""What is wrong with a plan's figures, or worth knowing before money is spent: each with its figures."""

from collections.abc import Callable
from typing import Any

import pytest
from build_plans import exactly, instance, plan_of, plan_request, spot_price, twice_as_fast, without_bf16
from build_records import GIB, profile
from finding_texts import texts_of

from tunekit.records.config import Precision
from tunekit.records.finding import Finding
from tunekit.records.plan import Plan, PlanAssumptions, PredictedRate
from tunekit.records.profile import Profile

NO_CHECKPOINTS = {"assumptions": PlanAssumptions(checkpoint_cost_s=None)}
QUIET = profile(instances=(instance(name="quiet"),))
TWICE = twice_as_fast(instances=(instance(name="2x"),))
WIDE = twice_as_fast(bandwidth_gb_per_s=6000.0, instances=(instance(name="2x"),))
SMALL = twice_as_fast(memory_bytes=16 * GIB, torch_memory_bytes=None, instances=(instance(name="2x"),))
COLAB = profile(instances=(instance(provider="colab", compute_units_per_h=5.0),))
UNSURE = PredictedRate(
    profile_id="a10g", precision=Precision.BF16, batch_size=128, rate=exactly(500.0), fits=None
)
SEVEN = profile(instances=tuple(instance(name=f"m{number}", usd_per_h=None) for number in range(7)))


def found(code: str, plan: Plan) -> Finding:
    (one,) = [each for each in plan.findings if each.code == code]
    return one


ROWS: list[tuple[str, tuple[Profile, ...], dict[str, Any]]] = [
    ("stale-price", (profile(instances=(instance(as_of="2025-01"),)),), {}),
    ("stale-price", (profile(instances=(instance(spot=spot_price(as_of="2024")),)),), {}),
    ("no-price", (profile(instances=(instance(usd_per_h=None),)),), {}),
    ("no-price", (SEVEN,), {}),
    ("loader-unknown", (QUIET, TWICE), {"measured_vcpus_per_gpu": 9}),
    (
        "gpus-would-idle",
        (QUIET, WIDE),
        {
            "measured_vcpus_per_gpu": 4,
            "loader_samples_per_s_per_cpu": exactly(30.0),
            "rate_samples_per_s": exactly(80.0),
        },
    ),
    ("rates-unknown", (QUIET, twice_as_fast(bandwidth_gb_per_s=None)), {}),
    ("rates-unknown", (QUIET, twice_as_fast()), {"measured_on": "cpu"}),
    ("rates-unknown", (without_bf16("a10g"), twice_as_fast()), {}),
    ("memory-unknown", (QUIET, SMALL), {}),
    ("memory-unknown", (QUIET,), {"predicted": (UNSURE,)}),
    ("no-torch-build", (QUIET, twice_as_fast(compute_capability="3.7")), {}),
    ("memory-too-small", (QUIET, twice_as_fast()), {"peak_reserved_bytes": 100 * GIB}),
    ("memory-too-small", (QUIET, SMALL), {"peak_reserved_bytes": 20 * GIB}),
    ("session-too-short", (COLAB,), NO_CHECKPOINTS),
    ("too-slow", (QUIET,), {"max_hours": 100.0}),
]


def test_what_should_be_known_of_a_plan_is_told(golden: Callable[[str], object]):
    plans = [(code, plan_of(*gpus, request=plan_request(**asked))) for code, gpus, asked in ROWS]
    assert texts_of([found(code, plan) for code, plan in plans]) == golden("plan.txt")


@pytest.mark.parametrize(
    "gpus",
    [
        (profile(instances=(instance(),)),),
        # A Mac is not rented, and so lacks no price.
        (profile(instances=(instance(),)), twice_as_fast("mps-m9", device_names=("Apple M9",))),
    ],
)
def test_a_plan_without_trouble_lacks_no_price(gpus: tuple[Profile, ...]):
    assert "no-price" not in {one.code for one in plan_of(*gpus).findings}
    assert plan_of(gpus[0]).findings == ()
