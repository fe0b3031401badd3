"""How much faster another GPU is, held against a step that is timed kernel by kernel."""

import math

import pytest
from build_plans import gpu_profiles, twice_as_fast, without_bf16
from build_records import profile
from hypothesis import given
from hypothesis import strategies as st

from tunekit.predict.roofline import speed_ratio
from tunekit.records.config import Precision
from tunekit.records.profile import Profile

FIGURES = ("bandwidth_gb_per_s", "fp32_tflops", "tf32_tflops", "fp16_tflops", "bf16_tflops")


def with_known_fraction(gpu: Profile, fraction: float = 0.8) -> Profile:
    return gpu.model_copy(update={"achievable_bf16_fraction": fraction})


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


@given(
    gpu_profiles("one", unknown=False),
    gpu_profiles("other", unknown=False),
    st.lists(st.tuples(st.floats(0, 1e3), st.floats(0, 1e3)), min_size=1, max_size=8),
)
def test_a_step_of_any_kernels_lies_within_the_bounds(
    one: Profile, other: Profile, kernels: list[tuple[float, float]]
):
    """Each kernel has its own bytes (GB) and operations (TFLOP); a GPU takes the longer of the two times."""
    one, other = with_known_fraction(one), with_known_fraction(other)
    times_s = []
    for gpu in (one, other):
        assert gpu.bandwidth_gb_per_s is not None
        assert gpu.bf16_tflops is not None
        times_s.append(
            sum(max(gb / gpu.bandwidth_gb_per_s, tflop / (0.8 * gpu.bf16_tflops)) for gb, tflop in kernels)
        )
    ratio = speed_ratio(one, other, Precision.BF16).ratio
    assert ratio is not None
    assert ratio.low * times_s[1] <= times_s[0] * (1 + 1e-9)
    assert times_s[0] <= ratio.high * times_s[1] * (1 + 1e-9)


@given(gpu_profiles("one"), gpu_profiles("other"), st.sampled_from(Precision))
def test_what_is_unknown_gives_no_ratio_and_says_what_it_is(
    one: Profile, other: Profile, precision: Precision
):
    found = speed_ratio(one, other, precision)
    if one.bandwidth_gb_per_s is None and (precision is Precision.FP32 or precision in one.native_precisions):
        assert found.ratio is None
        assert "memory bandwidth of one" in found.why
    if found.ratio is None:
        assert "unknown" in found.why or "has no" in found.why
    else:
        assert 0 < found.ratio.low <= found.ratio.value <= found.ratio.high < math.inf


def test_twice_of_everything_is_twice_as_fast_within_the_mean_error_of_habitat():
    found = speed_ratio(with_known_fraction(profile()), with_known_fraction(twice_as_fast()), Precision.BF16)
    assert found.ratio is not None
    assert found.ratio.low == pytest.approx(2 / 1.118)
    assert found.ratio.value == pytest.approx(2.0)
    assert found.ratio.high == pytest.approx(2 * 1.118)
    assert found.why == "roofline from a10g in bf16"


def test_an_unknown_share_of_the_peak_widens_the_bounds():
    found = speed_ratio(with_known_fraction(profile(), 0.95), twice_as_fast(), Precision.BF16)
    assert found.ratio is not None
    assert found.ratio.low == pytest.approx(2 * 0.78 / 0.95 / 1.118)
    assert found.ratio.high == pytest.approx(2 * 1.118)
    small = twice_as_fast(tdp_w=70.0)
    limited = speed_ratio(with_known_fraction(profile(), 0.95), small, Precision.BF16)
    assert limited.ratio is not None
    assert limited.ratio.low == pytest.approx(2 * 0.5 / 0.95 / 1.118)


def test_fp32_takes_in_convolutions_in_tf32():
    """PyTorch lets cuDNN use TF32 in fp32 convolutions; matmuls stay in IEEE fp32."""
    big = profile("big", bandwidth_gb_per_s=600.0, fp32_tflops=31.2, tf32_tflops=350.0)
    found = speed_ratio(profile(), big, Precision.FP32)
    assert found.ratio is not None
    assert found.ratio.high == pytest.approx(10 * 0.95 / 0.78 * 1.118)
    assert found.ratio.low == pytest.approx(0.78 / 0.95 / 1.118)


def test_a_gpu_without_the_precision_falls_back_to_fp32_and_moves_up_to_twice_the_bytes():
    found = speed_ratio(profile(), without_bf16(bandwidth_gb_per_s=600.0), Precision.BF16)
    assert found.precision is Precision.FP32
    assert found.why == "roofline from a10g in bf16 to fp32, since old has no bf16"
    assert found.ratio is not None
    slowest_arithmetic = 31.2 * 0.78 / (70.0 * 0.95)
    assert found.ratio.low == pytest.approx(min(0.5, slowest_arithmetic) / 1.118)
    assert found.ratio.high == pytest.approx(1.0 * 1.118)
