"""The law of data-parallel scaling: its properties, and arithmetic worked out by hand."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from machine.shipped import PROFILES

from tunekit.predict.scaling import (
    ERROR,
    Link,
    all_reduce_s,
    expected_maximum,
    fit_scaling,
    fitted_efficiency,
    link_between,
    scaled_step,
)
from tunekit.records.interval import EXACTLY_ONE, Interval
from tunekit.records.scaling import OneGpuStep, ScalingMode

MIB = 1024**2
COUNTS = (1, 2, 3, 4, 8, 16)

steps = st.builds(
    OneGpuStep,
    step_s=st.floats(1e-3, 10.0),
    gradients_bytes=st.integers(0, 10**10),
    spread=st.floats(0.0, 0.5),
    loader_s=st.floats(0.0, 10.0),
)
links = st.builds(
    lambda bytes_per_s, hop_s: Link("any", Interval.between(bytes_per_s, 1.5 * bytes_per_s), hop_s),
    st.floats(1e8, 1e12),
    st.floats(0.0, 1e-4),
)
modes = st.sampled_from(ScalingMode)


def link(gb_per_s: float, hop_s: float = 0.0) -> Link:
    return Link("any", Interval(value=gb_per_s * 1e9, low=gb_per_s * 1e9, high=gb_per_s * 1e9), hop_s)


@given(steps, links, modes, st.sampled_from(COUNTS))
def test_efficiency_is_a_share_and_the_parts_add_up_to_the_step(
    one: OneGpuStep, over: Link, mode: ScalingMode, gpus: int
):
    found = scaled_step(one, gpus, over, mode)
    assert 0 < found.efficiency.low <= found.efficiency.value <= found.efficiency.high <= 1
    alone_s = one.loaded_s if mode is ScalingMode.WEAK else one.loaded_s / gpus
    assert found.step_s * found.efficiency.value == pytest.approx(alone_s)
    assert found.speedup.high <= gpus


@given(steps, links, modes)
def test_one_gpu_is_exactly_as_efficient_as_itself(one: OneGpuStep, over: Link, mode: ScalingMode):
    found = scaled_step(one, 1, over, mode)
    assert found.efficiency == EXACTLY_ONE
    assert found.exposed_s == found.straggler_s == 0.0
    assert found.step_s == pytest.approx(one.loaded_s)


@given(steps, st.floats(1.0, 1000.0), st.floats(1.01, 100.0), modes, st.sampled_from(COUNTS[1:]))
def test_efficiency_never_falls_with_bandwidth(
    one: OneGpuStep, gb_per_s: float, times: float, mode: ScalingMode, gpus: int
):
    slow, fast = (scaled_step(one, gpus, link(rate), mode) for rate in (gb_per_s, times * gb_per_s))
    assert fast.efficiency.value >= slow.efficiency.value * (1 - 1e-12)
    assert fast.exposed_s <= slow.exposed_s


def test_a_ring_of_eight_sends_seven_quarters_of_the_gradients_in_fourteen_hops():
    """2 x 7/8 x 4 GB at 100 GB/s is 70 ms; 14 hops of 1 ms, and 8.4 us to start."""
    assert all_reduce_s(4e9, 8, 100e9, 1e-3) == pytest.approx(0.070 + 0.014 + 8.4e-6)
    assert all_reduce_s(4e9, 1, 100e9, 1e-3) == 0.0


def test_only_the_last_bucket_is_exposed_where_the_others_fit_into_the_backward_pass():
    """Four buckets of 25 MiB on two GPUs at 26.2144 GB/s take 1 ms each; 66.7 ms of backward hide three."""
    one = OneGpuStep(step_s=0.1, gradients_bytes=100 * MIB)
    found = scaled_step(one, 2, link(26.2144))
    assert found.exposed_s == pytest.approx(1e-3 + 8.4e-6)
    assert found.efficiency.value == pytest.approx(0.1 / (0.101 + 8.4e-6))
    assert found.efficiency.low == pytest.approx((1 - ERROR) * found.efficiency.value)


def test_what_does_not_fit_into_the_backward_pass_is_exposed_too():
    """Buckets of 30 ms, the first ready a quarter into 66.7 ms: the last ends at 16.7 + 120, 70 ms late."""
    one = OneGpuStep(step_s=0.1, gradients_bytes=100 * MIB)
    found = scaled_step(one, 2, link(26.2144 / 30))
    assert found.exposed_s == pytest.approx(0.1 / 6 + 0.12 - 0.2 / 3, abs=1e-4)


def test_eight_ranks_wait_for_the_slowest_by_1_42_deviations():
    found = scaled_step(OneGpuStep(step_s=0.1, gradients_bytes=0, spread=0.05), 8, link(1))
    assert found.straggler_s == pytest.approx(0.1 * 0.05 * 1.4236, rel=1e-4)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(1, 0.0), (2, 1 / math.sqrt(math.pi)), (3, 1.5 / math.sqrt(math.pi)), (8, 1.42360)],
)
def test_the_expected_maximum_of_normal_figures_is_that_of_order_statistics(count: int, expected: float):
    assert expected_maximum(count) == pytest.approx(expected, abs=1e-5)


def test_ranks_share_the_loaders_of_the_host():
    """A batch takes the host 20 ms, a step 100 ms: four ranks are fed, eight wait 60 ms a step."""
    one = OneGpuStep(step_s=0.1, gradients_bytes=0, loader_s=0.02)
    assert scaled_step(one, 4, link(1)).loader_wait_s == 0.0
    found = scaled_step(one, 8, link(1))
    assert found.loader_wait_s == pytest.approx(0.06)
    assert found.efficiency.value == pytest.approx(0.1 / 0.16)


@pytest.mark.parametrize(
    ("gpu", "name", "gb_per_s"),
    [
        ("h100-sxm", "NVLink", (351, 360, 481.5)),
        ("a100-sxm-80", "NVLink", (234, 240, 321)),
        ("t4", "PCIe", (6, math.sqrt(72), 12)),
        ("a40", "PCIe", (12, math.sqrt(288), 24)),
    ],
)
def test_the_link_of_eight_gpus_follows_from_their_profile(
    gpu: str, name: str, gb_per_s: tuple[float, float, float]
):
    found = link_between(PROFILES[gpu], 8)
    assert found is not None
    assert found.name == name
    ends = found.bytes_per_s
    lanes = 16 / (PROFILES[gpu].pcie_lanes or 16) if name == "PCIe" else 1
    assert [ends.low * lanes, ends.value * lanes, ends.high * lanes] == pytest.approx(
        [one * 1e9 for one in gb_per_s]
    )


def test_two_cards_may_have_a_bridge():
    alone, many = link_between(PROFILES["a40"], 2), link_between(PROFILES["a40"], 4)
    assert alone is not None
    assert many is not None
    assert alone.bytes_per_s.low == many.bytes_per_s.low
    assert alone.bytes_per_s.high == pytest.approx(1.07 * 56.25e9)


@pytest.mark.parametrize("gpu", ["mi300x", "cpu", "mps-m1"])
def test_a_link_that_no_profile_knows_is_unknown(gpu: str):
    assert link_between(PROFILES[gpu], 8) is None


@given(st.floats(0.0, 0.5), st.floats(0.0, 0.5), modes, st.sets(st.sampled_from((2, 3, 4, 8)), min_size=2))
def test_the_fit_finds_the_law_that_rates_were_made_with(
    communication: float, spread: float, mode: ScalingMode, counts: set[int]
):
    def rate(n: int) -> float:
        """Of a step of 1 s on one GPU with a batch of 100."""
        ring, slowest = communication * 2 * (n - 1) / n, spread * expected_maximum(n)
        if mode is ScalingMode.WEAK:
            return n * 100 / (1 + slowest + ring)
        return 100 / ((1 + slowest) / n + ring)

    rates = {n: rate(n) for n in counts | {1}}
    found = fit_scaling(rates, mode)
    assert found is not None
    assert (found.communication, found.spread) == pytest.approx((communication, spread), abs=1e-6)
    assert found.residual is None or found.residual == pytest.approx(0.0, abs=1e-6)
    assert fitted_efficiency(found, 8) == pytest.approx(rate(8) / 800)


def test_a_fit_needs_one_gpu_and_two_more_counts():
    assert fit_scaling({1: 100.0, 8: 700.0}) is None
    assert fit_scaling({2: 190.0, 4: 370.0, 8: 700.0}) is None


def test_rates_above_linear_fit_neither_communication_nor_stragglers():
    found = fit_scaling({1: 100.0, 2: 210.0, 4: 440.0})
    assert found is not None
    assert (found.communication, found.spread) == (0.0, 0.0)
    assert found.residual == pytest.approx(math.sqrt(((1 / 1.05 - 1) ** 2 + (1 / 1.1 - 1) ** 2) / 2))
