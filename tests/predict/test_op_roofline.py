"""How long a traced step takes on a GPU that is known by its figures alone."""

import pytest
from build_records import profile
from hypothesis import given
from hypothesis import strategies as st

from tunekit.predict.roofline import compute_rate, step_time
from tunekit.predict.speed_model import Arithmetic, Compute, Traffic, compute_kind, published, traffic_kind
from tunekit.records.prediction import OpCost

A10 = profile("a10")
MODEL = published()
MATMUL, CONVOLUTION = (MODEL.compute_shares[kind] for kind in (Compute.MATMUL, Compute.CONVOLUTION))

ops = st.lists(
    st.builds(
        OpCost,
        st.sampled_from(["mm", "convolution", "convolution_backward.depthwise.nhwc", "relu"]),
        st.sampled_from(["float32", "bfloat16", "float16", ""]),
        st.floats(0, 1e15),
        st.floats(0, 1e12),
    ),
    min_size=1,
    max_size=20,
)


@pytest.mark.parametrize(
    ("op", "arithmetic", "seconds"),
    [
        (OpCost("mm", "bfloat16", 70e12, 0), Arithmetic.HALF, 1 / MATMUL[Arithmetic.HALF]),
        (OpCost("mm", "float32", 31.2e12, 0), Arithmetic.FP32, 1 / MATMUL[Arithmetic.FP32]),
        (OpCost("convolution", "float32", 35e12, 0), Arithmetic.TF32, 1 / CONVOLUTION[Arithmetic.TF32]),
        (OpCost("relu", "float32", 0, 600e9), Arithmetic.FP32, 1 / MODEL.bandwidth_shares[Traffic.OTHER]),
        (OpCost("relu", "", 0, 1), Arithmetic.FP32, 0.0),
    ],
    ids=["bf16 matmul", "IEEE matmul", "TF32 convolution", "memory", "launch"],
)
def test_an_op_takes_the_longer_of_arithmetic_and_memory(op: OpCost, arithmetic: Arithmetic, seconds: float):
    time = step_time([op], A10, False, MODEL)
    assert time is not None
    factor = MODEL.gpu_factors["a10"][arithmetic]
    assert time.gpu_s == pytest.approx((seconds + MODEL.kernel_s) / factor)


def test_matmuls_run_in_tf32_where_that_is_allowed():
    matmul = OpCost("mm", "float32", 35e12, 0)
    allowed, pascal = A10, profile(native_precisions=("fp32",), tf32_tflops=None)
    in_tf32, in_fp32 = (step_time([matmul], gpu, True, MODEL) for gpu in (allowed, pascal))
    assert in_tf32 is not None
    assert in_fp32 is not None
    factor = MODEL.gpu_factors["a10"][Arithmetic.TF32]
    assert in_tf32.gpu_s * factor == pytest.approx(1 / MATMUL[Arithmetic.TF32], rel=1e-3)
    factor = MODEL.gpu_factors[pascal.compute_capability or ""][Arithmetic.FP32]
    assert in_fp32.gpu_s * factor == pytest.approx(35 / 31.2 / MATMUL[Arithmetic.FP32], rel=1e-3)


@given(ops)
def test_the_rate_has_the_range_of_what_takes_most_of_the_step(some):
    time = step_time(some, A10, False, MODEL)
    rate = compute_rate(some, 64, A10)
    assert rate is not None
    assert time is not None
    assert max(time.gpu_s, time.host_s) <= time.step_s <= 1.1 * max(time.gpu_s, time.host_s)
    assert rate.value == pytest.approx(64 / time.step_s)
    assert rate.high / rate.value == pytest.approx(MODEL.ranges[time.largest])
    assert rate.value / rate.low == pytest.approx(MODEL.ranges[time.largest])


def test_many_small_ops_are_limited_by_the_host():
    time = step_time([OpCost("relu", "float32", 0, 1e3)] * 5000, profile("h100-sxm"), False, MODEL)
    assert time is not None
    assert time.largest == "host"
    assert time.host_s == pytest.approx(5000 * MODEL.host_op_s + MODEL.host_step_s)


def test_a_gpu_without_published_rates_has_its_generations_factor_and_a_wider_range():
    known, unknown = A10, profile("new")
    step = [OpCost("mm", "bfloat16", 70e12, 0)]
    times = [step_time(step, gpu, False, MODEL) for gpu in (known, unknown)]
    assert times[0] is not None
    assert times[1] is not None
    generation = MODEL.gpu_factors[unknown.compute_capability or ""]
    own = MODEL.gpu_factors["a10"]
    assert times[1].gpu_s / times[0].gpu_s == pytest.approx(
        own[Arithmetic.HALF] / generation[Arithmetic.HALF]
    )
    ranges = [compute_rate(step, 64, gpu) for gpu in (known, unknown)]
    assert ranges[0] is not None
    assert ranges[1] is not None
    assert ranges[1].high / ranges[1].value == pytest.approx(MODEL.unknown_gpu_range)
    assert ranges[0].high / ranges[0].value < MODEL.unknown_gpu_range


@pytest.mark.parametrize(
    ("name", "compute", "traffic"),
    [
        ("convolution", Compute.CONVOLUTION, Traffic.CONVOLUTION),
        ("convolution_backward.grouped", Compute.GROUPED, Traffic.CONVOLUTION),
        ("convolution.depthwise.nhwc", Compute.DEPTHWISE, Traffic.CHANNELS_LAST),
        ("addmm", Compute.MATMUL, Traffic.MATMUL),
        ("_scaled_dot_product_flash_attention_for_cpu", Compute.BATCHED_MATMUL, Traffic.MATMUL),
        ("mkldnn_rnn_layer", Compute.RECURRENT, Traffic.MATMUL),
        ("native_batch_norm_backward", Compute.MATMUL, Traffic.NORM),
        ("_foreach_addcmul_", Compute.MATMUL, Traffic.OPTIMIZER),
        ("relu", Compute.MATMUL, Traffic.OTHER),
    ],
)
def test_ops_have_kinds(name: str, compute: Compute, traffic: Traffic):
    assert (compute_kind(name), traffic_kind(name)) == (compute, traffic)


@pytest.mark.parametrize("unknown", ["bandwidth_gb_per_s", "fp32_tflops"])
def test_a_rate_that_is_unknown_leaves_the_speed_unknown(unknown: str):
    some = [OpCost("mm", "float32", 1e9, 1e6)]
    assert compute_rate(some, 1, profile(**{unknown: None})) is None
