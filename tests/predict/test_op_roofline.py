"""How long a traced step takes on a GPU that is known by its figures alone."""

import pytest
from build_records import profile
from hypothesis import given
from hypothesis import strategies as st

from tunekit.predict.roofline import BANDWIDTH_SHARE, LAUNCH_S, PEAK_SHARE, compute_rate, step_time_s
from tunekit.records.prediction import OpCost

A10G = profile()
DTYPES = ("float32", "bfloat16", "float16", "")

ops = st.lists(
    st.builds(
        OpCost,
        st.sampled_from(["mm", "convolution", "convolution_backward", "relu"]),
        st.sampled_from(DTYPES),
        st.floats(0, 1e15),
        st.floats(0, 1e12),
    ),
    min_size=1,
    max_size=20,
)


@pytest.mark.parametrize(
    ("op", "seconds"),
    [
        (OpCost("mm", "bfloat16", 70e12, 0), 1 / PEAK_SHARE),
        (OpCost("mm", "float32", 31.2e12, 0), 1 / PEAK_SHARE),
        (OpCost("convolution", "float32", 35e12, 0), 1 / PEAK_SHARE),
        (OpCost("convolution_backward", "float32", 35e12, 0), 1 / PEAK_SHARE),
        (OpCost("relu", "float32", 0, 600e9), 1 / BANDWIDTH_SHARE),
        (OpCost("relu", "", 0, 1), LAUNCH_S),
    ],
    ids=["bf16 matmul", "IEEE matmul", "TF32 convolution", "its backward", "memory", "launch"],
)
def test_an_op_takes_the_longest_of_arithmetic_memory_and_launch(op: OpCost, seconds: float):
    assert step_time_s([op], A10G) == pytest.approx(seconds)


def test_matmuls_run_in_tf32_where_that_is_allowed():
    matmul = OpCost("mm", "float32", 35e12, 0)
    assert step_time_s([matmul], A10G, uses_tf32=True) == pytest.approx(1 / PEAK_SHARE)
    pascal = profile(native_precisions=("fp32",), tf32_tflops=None)
    assert step_time_s([matmul], pascal, uses_tf32=True) == pytest.approx(35 / 31.2 / PEAK_SHARE)


@given(ops)
def test_ops_run_one_after_another_and_the_rate_has_its_range(some):
    seconds = step_time_s(some, A10G)
    assert seconds == pytest.approx(sum(step_time_s([op], A10G) or 0 for op in some))
    rate = compute_rate(some, 64, A10G)
    assert rate is not None
    assert rate.value == pytest.approx(64 / seconds)
    assert (rate.low / rate.value, rate.high / rate.value) == (pytest.approx(0.7), pytest.approx(1.3))


@pytest.mark.parametrize("unknown", ["bandwidth_gb_per_s", "fp32_tflops"])
def test_a_rate_that_is_unknown_leaves_the_speed_unknown(unknown: str):
    some = [OpCost("mm", "float32", 1e9, 1e6)]
    assert compute_rate(some, 1, profile(**{unknown: None})) is None
