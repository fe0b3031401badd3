"""How much faster another GPU is, from published training rates."""

import math

import pytest
from build_plans import gpu_profiles, twice_as_fast, without_bf16
from build_records import profile
from hypothesis import given
from hypothesis import strategies as st

from tunekit.machine.profiles import load_profiles
from tunekit.predict.speed_model import Arithmetic, published
from tunekit.predict.speed_ratio import speed_ratio
from tunekit.records.config import Precision
from tunekit.records.profile import Profile

FIGURES = ("bandwidth_gb_per_s", "fp32_tflops", "tf32_tflops", "fp16_tflops", "bf16_tflops")


@given(gpu_profiles(), st.sampled_from(Precision))
def test_a_gpu_is_exactly_as_fast_as_itself_whatever_is_known_of_it(gpu: Profile, precision: Precision):
    ratio = speed_ratio(gpu, gpu, precision).ratio
    assert ratio is not None
    assert (ratio.low, ratio.value, ratio.high) == (1.0, 1.0, 1.0)


@given(
    gpu_profiles("one", unknown=False),
    gpu_profiles("other", unknown=False),
    st.sampled_from(Precision),
    st.sampled_from(FIGURES),
    st.floats(1.0, 10.0),
)
def test_a_gpu_with_more_of_anything_is_not_slower(
    one: Profile, other: Profile, precision: Precision, figure: str, more: float
):
    better = other.model_copy(update={figure: getattr(other, figure) * more})
    before, after = speed_ratio(one, other, precision).ratio, speed_ratio(one, better, precision).ratio
    assert before is not None
    assert after is not None
    assert after.low >= before.low
    assert after.value >= before.value * (1 - 1e-12)
    assert after.high >= before.high


@given(gpu_profiles("one"), gpu_profiles("other"), st.sampled_from(Precision))
def test_what_is_unknown_gives_no_ratio_and_says_what_it_is(
    one: Profile, other: Profile, precision: Precision
):
    found = speed_ratio(one, other, precision)
    if one.bandwidth_gb_per_s is None and (precision is Precision.FP32 or precision in one.native_precisions):
        assert found.ratio is None
        assert "of one" in found.why
    if found.ratio is None:
        assert "unknown" in found.why or "has no" in found.why
    else:
        assert 0 < found.ratio.low <= found.ratio.value <= found.ratio.high < math.inf


def test_there_and_back_is_one():
    one, other = profile(), twice_as_fast()
    there, back = (speed_ratio(*pair, Precision.BF16).ratio for pair in ((one, other), (other, one)))
    assert there is not None
    assert back is not None
    assert there.value * back.value == pytest.approx(1.0)
    assert there.high / there.value == pytest.approx(published().unknown_gpu_ratio_range)
    assert 1 < there.value <= 2


@pytest.mark.parametrize(
    ("measured", "other", "precision", "low", "high"),
    [
        ("a10", "rtx4090", Precision.FP16, 1.93, 2.58),
        ("rtx3090", "a100-pcie-80", Precision.FP16, 1.2, 1.9),
        ("v100-sxm-16", "h100-sxm", Precision.FP16, 3.0, 4.3),
    ],
)
def test_ratios_of_published_rates_lie_inside(
    measured: str, other: str, precision: Precision, low: float, high: float
):
    """The least and the greatest of lambdal/deeplearning-benchmark @aa5addb (ResNet-50, BERT, GNMT, NCF)."""
    profiles = load_profiles()
    ratio = speed_ratio(profiles[measured], profiles[other], precision).ratio
    assert ratio is not None
    assert ratio.low < high
    assert low < ratio.high


def test_fp32_takes_in_convolutions_in_tf32():
    """PyTorch lets cuDNN use TF32 in fp32 convolutions; matmuls stay in IEEE fp32."""
    big = profile("big", bandwidth_gb_per_s=600.0, fp32_tflops=31.2, tf32_tflops=350.0)
    found = speed_ratio(profile(), big, Precision.FP32)
    assert found.ratio is not None
    model = published()
    of_tf32 = 10 ** model.ratio_exponents[Arithmetic.TF32][0]
    assert found.ratio.high == pytest.approx(of_tf32 * model.unknown_gpu_ratio_range)
    assert found.ratio.low == pytest.approx(1 / model.unknown_gpu_ratio_range)


@pytest.mark.parametrize(
    ("native", "used"), [((Precision.FP16,), Precision.FP16), ((), Precision.FP32)], ids=["fp16", "fp32"]
)
def test_without_bf16_the_next_best_precision_is_used(native, used):
    found = speed_ratio(profile(), without_bf16(native_precisions=native), Precision.BF16)
    assert found.precision is used
    assert found.why == f"predicted from a10g in bf16 to {used}, since old has no bf16"
    assert found.ratio is not None
    assert found.ratio.value <= 1
