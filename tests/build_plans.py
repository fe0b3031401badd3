"""Plans for tests: each builder gives a plausible whole, and the test names only what it is about."""

from datetime import date
from typing import Any

from build_records import profile
from hypothesis import strategies as st

from tunekit.plan.plan import make_plan
from tunekit.records.config import Precision
from tunekit.records.interval import Interval
from tunekit.records.plan import Plan, PlanRequest, PlanRow, RateSource
from tunekit.records.profile import FactConfidence, Instance, Profile, SpotPrice

TODAY = date(2026, 3, 1)


def exactly(value: float) -> Interval:
    return Interval(value=value, low=value, high=value)


def plan_request(**overrides: Any) -> PlanRequest:
    """ImageNet for 90 epochs, from exactly 180 samples/s in bf16 on one A10G."""
    values: dict[str, Any] = {
        "source": "a test",
        "samples_per_epoch": 1_281_167,
        "epochs": 90,
        "rate_samples_per_s": exactly(180.0),
        "measured_on": "a10g",
        "precision": Precision.BF16,
    }
    return PlanRequest(**(values | overrides))


def instance(**overrides: Any) -> Instance:
    """One GPU at 1.006 dollars an hour, priced the day before."""
    values: dict[str, Any] = {
        "provider": "aws",
        "name": "g5.xlarge",
        "gpus": 1,
        "vcpus": 4,
        "ram_gb": 16.0,
        "usd_per_h": 1.006,
        "region": "us-east-1",
        "as_of": "2026-02-28",
        "source": "a price list",
        "confidence": FactConfidence.HIGH,
    }
    return Instance(**(values | overrides))


def spot_price(low: float = 0.4, high: float = 0.4, as_of: str = "2026-02-28") -> SpotPrice:
    return SpotPrice(low_usd_per_h=low, high_usd_per_h=high, as_of=as_of)


def twice_as_fast(id: str = "a10g-twice", **overrides: Any) -> Profile:  # noqa: A002 - the field's own name
    """An A10G with twice of everything."""
    values: dict[str, Any] = {
        "device_names": ("Twice",),
        "bandwidth_gb_per_s": 1200.0,
        "fp32_tflops": 62.4,
        "tf32_tflops": 70.0,
        "fp16_tflops": 140.0,
        "bf16_tflops": 140.0,
    }
    return profile(id, **(values | overrides))


def without_bf16(id: str = "old", **overrides: Any) -> Profile:  # noqa: A002 - the field's own name
    """A GPU of the generation before bf16 and TF32."""
    values: dict[str, Any] = {
        "device_names": ("Old",),
        "tf32_tflops": None,
        "bf16_tflops": None,
        "native_precisions": ("fp32", "fp16"),
    }
    return profile(id, **(values | overrides))


def plan_of(*profiles: Profile, request: PlanRequest | None = None, today: date = TODAY) -> Plan:
    return make_plan(request or plan_request(), {one.id: one for one in profiles}, today)


def row_on(plan: Plan, instance_name: str | None) -> PlanRow:
    """The one row of this instance, or of the GPU that nobody offers."""
    (row,) = [one for one in plan.rows if one.instance == instance_name and not one.is_measured_machine]
    return row


def plan_row(**overrides: Any) -> PlanRow:
    """A machine that takes 10 h and 20 dollars."""
    values: dict[str, Any] = {
        "profile_id": "a10g",
        "device_name": "NVIDIA A10G",
        "provider": "aws",
        "instance": "g5.xlarge",
        "region": None,
        "gpus": 1,
        "vcpus": 4,
        "how": RateSource.PREDICTED,
        "rate_samples_per_s": exactly(100.0),
        "basis": "a test",
        "precision": Precision.BF16,
        "hours": exactly(10.0),
        "usd_on_demand": exactly(20.0),
        "fits": None,
    }
    return PlanRow(**(values | overrides))


def figures(unknown: bool = True) -> st.SearchStrategy[float | None]:
    """Rates and bandwidths as GPUs have them."""
    known = st.floats(5.0, 1e3)
    return st.none() | known if unknown else known


@st.composite
def gpu_profiles(draw: st.DrawFn, id: str = "other", unknown: bool = True) -> Profile:  # noqa: A002
    """GPUs with any figures, and without some of them unless told otherwise."""
    lacks = draw(st.sets(st.sampled_from(["tf32", "bf16", "fp16"]))) if unknown else set()
    return profile(
        id,
        bandwidth_gb_per_s=draw(figures(unknown)),
        fp32_tflops=draw(figures(unknown)),
        tf32_tflops=draw(figures(unknown)),
        fp16_tflops=draw(figures(unknown)),
        bf16_tflops=draw(figures(unknown)),
        achievable_bf16_fraction=draw(st.none() | st.floats(0.1, 1.0)),
        tdp_w=draw(st.none() | st.floats(30.0, 1000.0)),
        native_precisions=tuple(one for one in ("fp32", "tf32", "bf16", "fp16") if one not in lacks),
        instances=draw(st.lists(instances(), max_size=3)),
    )


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """Machines with and without a price, spot, and compute units."""
    spot = None
    if draw(st.booleans()):
        low, high = sorted(draw(st.tuples(st.floats(0.01, 100), st.floats(0.01, 100))))
        spot = spot_price(low, high, draw(st.sampled_from(["2024", "2025-04", "2026-02-28"])))
    return instance(
        provider=draw(st.sampled_from(["aws", "gcp", "colab"])),
        name=draw(st.text(min_size=1, max_size=8)),
        gpus=draw(st.sampled_from([1, 2, 4, 8])),
        vcpus=draw(st.none() | st.integers(1, 256)),
        usd_per_h=draw(st.none() | st.just(0.0) | st.floats(0.01, 200)),
        spot=spot,
        compute_units_per_h=draw(st.none() | st.floats(0.1, 20)),
        hours_per_week=draw(st.none() | st.floats(1, 168)),
        max_session_h=draw(st.none() | st.floats(1, 48)),
        as_of=draw(st.sampled_from(["2024", "2025-04", "2026-02-28", "2027-01-01"])),
    )
