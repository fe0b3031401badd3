"""How well data-parallel training scales on the GPUs of one host, from one GPU's step. Pure.

A step on n GPUs takes

    compute  +  exposed communication  +  wait for the slowest rank  +  wait for the loader

- Communication: a ring all-reduce moves 2 (n-1)/n times the gradients over each GPU's link
  (nccl-tests, doc/PERFORMANCE.md @03a204a), and takes 2 (n-1) hops to do so (NCCL, src/graph/tuning.cc).
- Exposed of it is what the backward pass doesn't hide. Gradients leave in buckets of 25 MiB while the pass
  goes on (DistributedDataParallel; Li et al. 2020, VLDB 13(12)), the last bucket when it is over.
- All ranks wait for the slowest: the expected maximum of n normal step times is e(n) deviations above their
  mean.
- The loaders of all ranks share the host's CPUs, so that the time to make n batches grows with n.

What is assumed, and where it ends:

- Gradients are ready evenly over the backward pass, which is two thirds of the step: it computes
  gradients of inputs and of weights, each as much work as the forward pass.
- Ranks' step times are independent and normal, with the spread that was measured. Batches that are padded to
  unlike lengths have one of their own, and so has a host whose CPUs are short.
- Communication takes neither multiprocessors nor memory bandwidth from the backward pass, and GPUs keep their
  clocks beside one another. ERROR stands for that.
- In strong scaling half the batch takes half the time, which small batches don't.
- An NVLink fabric uses all links of a GPU. On hosts without NVSwitch two GPUs share only some of them.
"""

import math
from collections.abc import Mapping
from functools import cache
from statistics import NormalDist
from typing import NamedTuple

from tunekit.records.interval import EXACTLY_ONE, Interval
from tunekit.records.profile import Profile
from tunekit.records.scaling import OneGpuStep, ScaledStep, ScalingFit, ScalingMode

BUCKET_BYTES = 25 * 1024**2
"""DistributedDataParallel's bucket_cap_mb, as it is by default."""

BACKWARD_SHARE = 2 / 3
"""Of the step's time on one GPU."""

NVLINK_SHARES = (0.78, 0.8, 1.07)
"""Bus bandwidth of an all-reduce as a share of a GPU's NVLink in one direction: least, usual, most.

235 of 300 GB/s on A100, 368 of 450 on H200 with a ring, 482 with NVLink SHARP (stas00/ml-engineering,
network/README.md @744d01e); NCCL's own model takes 20 of 25 GB/s a link (src/graph/topo.h @069a3d4).
"""

PCIE3_X16_GB_PER_S = 12.0
"""Of 16 lanes of PCIe 3.0 one way (NCCL, src/graph/topo.h @069a3d4); each generation doubles it."""

PCIE_SHARES = (0.5, 1.0)
"""Of that, least and most: GPUs without access to each other send all bytes through the host's memory."""

LAUNCH_S = 8.4e-6
NVLINK_HOP_S, PCIE_HOP_S = 3.4e-6, 5.7e-6
"""Latencies of a ring all-reduce (NCCL, src/graph/tuning.cc @01afd20)."""

ERROR = 0.1
"""Share that the efficiency may be lower than the law says; published rows that it explains lie within."""

SOURCE = (
    "scaling: ring all-reduce (nccl-tests, doc/PERFORMANCE.md), hidden behind the backward pass in buckets "
    "of 25 MiB (Li et al. 2020, VLDB 13(12)), NCCL's latencies and bandwidths; "
    "up to 10% less for what that leaves out"
)

_MIN_FABRIC_GB_PER_S = 150.0
"""NVLink of less than this is a bridge, which joins two cards."""

_EXPECTED_REACH, _EXPECTED_STEP = 9.0, 0.01
"""Deviations and grid of the integral behind the expected maximum."""


class Link(NamedTuple):
    """What GPUs of one host send gradients to each other over."""

    name: str
    bytes_per_s: Interval
    """Bus bandwidth of an all-reduce: what each GPU sends."""
    hop_s: float


def link_between(profile: Profile, gpus: int) -> Link | None:
    """Return what some GPUs of a model send gradients over; None where that is unknown.

    Args:
        profile: of the GPUs.
        gpus: how many of them take part.
    """
    # Other makers' links are not in a profile, and NCCL's figures are not theirs.
    if profile.compute_capability is None:
        return None
    nvlink = (profile.nvlink_gb_per_s or 0.0) * 1e9 / 2
    if 2 * nvlink >= _MIN_FABRIC_GB_PER_S * 1e9:
        least, usual, most = (share * nvlink for share in NVLINK_SHARES)
        return Link("NVLink", Interval(low=least, value=usual, high=most), NVLINK_HOP_S)
    generation, lanes = profile.pcie_generation, profile.pcie_lanes
    if generation is None or lanes is None:
        return None
    slot = PCIE3_X16_GB_PER_S * 1e9 * 2.0 ** (generation - 3) * lanes / 16
    low, high = (share * slot for share in PCIE_SHARES)
    if gpus == 2 and nvlink:
        # Whether the bridge is in place is not known.
        high = max(high, NVLINK_SHARES[-1] * nvlink)
        return Link("PCIe or an NVLink bridge", Interval.between(low, high), PCIE_HOP_S)
    return Link("PCIe", Interval.between(low, high), PCIE_HOP_S)


def scaled_step(one: OneGpuStep, gpus: int, link: Link, mode: ScalingMode = ScalingMode.WEAK) -> ScaledStep:
    """Return the step on some GPUs of one host.

    Args:
        one: the step on one GPU.
        gpus: how many train together.
        link: what they send gradients over.
        mode: whether each GPU keeps its batch, or they share it.
    """
    compute_s = one.step_s if mode is ScalingMode.WEAK else one.step_s / gpus
    loader_s = one.loader_s * gpus if mode is ScalingMode.WEAK else one.loader_s
    straggler_s = one.spread * expected_maximum(gpus) * compute_s

    def exposed_s(bytes_per_s: float) -> float:
        return _exposed_s(compute_s, one.gradients_bytes, gpus, bytes_per_s, link.hop_s)

    def efficiency(bytes_per_s: float) -> float:
        step_s = max(compute_s + exposed_s(bytes_per_s) + straggler_s, loader_s)
        alone_s = one.loaded_s if mode is ScalingMode.WEAK else one.loaded_s / gpus
        return min(1.0, alone_s / step_s)

    expected_s = exposed_s(link.bytes_per_s.value)
    shares = link.bytes_per_s.map_increasing(efficiency)
    return ScaledStep(
        gpus=gpus,
        mode=mode,
        link=link.name,
        compute_s=compute_s,
        exposed_s=expected_s,
        straggler_s=straggler_s,
        loader_wait_s=max(0.0, loader_s - (compute_s + expected_s + straggler_s)),
        efficiency=EXACTLY_ONE if gpus == 1 else shares.changed(low=shares.low * (1 - ERROR)),
    )


def all_reduce_s(size_bytes: float, gpus: int, bytes_per_s: float, hop_s: float) -> float:
    """Return the seconds of one ring all-reduce.

    Args:
        size_bytes: of what each GPU has, and all get the sum of.
        gpus: how many take part; one has nothing to send.
        bytes_per_s: bus bandwidth.
        hop_s: latency from one GPU to the next.
    """
    if gpus == 1:
        return 0.0
    return LAUNCH_S + 2 * (gpus - 1) * hop_s + _ring_factor(gpus) * size_bytes / bytes_per_s


@cache
def expected_maximum(count: int) -> float:
    """Return the expected maximum of independent standard normal figures: 0 of one, 1.42 of eight."""
    if count == 1:
        return 0.0
    below = NormalDist().cdf
    # E max = integral over x > 0 of P(max > x) - P(max < -x).
    grid = [_EXPECTED_STEP * step for step in range(round(_EXPECTED_REACH / _EXPECTED_STEP) + 1)]
    heights = [1 - below(x) ** count - below(-x) ** count for x in grid]
    return _EXPECTED_STEP * (sum(heights) - (heights[0] + heights[-1]) / 2)


def fit_scaling(rates: Mapping[int, float], mode: ScalingMode = ScalingMode.WEAK) -> ScalingFit | None:
    """Return the law's parameters by measured rates; None without one GPU's and those of two more counts.

    Communication and stragglers are told apart by how they grow: 2 (n-1)/n is nearly all there with four
    GPUs, the expected maximum of n goes on growing. Least squares, neither of them below 0.

    Args:
        rates: samples/s of all GPUs together, by how many there are.
        mode: how they were measured.
    """
    counts = sorted(count for count in rates if count > 1)
    if 1 not in rates or len(counts) < 2:
        return None
    # Each in steps of one GPU with its part of the batch: of them the compute is 1.
    rows = [(_communications(mode, n), expected_maximum(n), n * rates[1] / rates[n] - 1) for n in counts]
    ring, slowest = _least_squares(rows)
    errors = [y - ring * a - slowest * b for a, b, y in rows]
    is_exact = len(rows) == 2 and min(ring, slowest) > 0
    return ScalingFit(
        mode=mode,
        communication=ring,
        spread=slowest,
        residual=None if is_exact else math.sqrt(sum(error**2 for error in errors) / len(errors)),
    )


def fitted_efficiency(fit: ScalingFit, gpus: int) -> float:
    """Return the rate per GPU that a fitted law expects, as a share of one GPU's."""
    moved = fit.communication * _communications(fit.mode, gpus)
    return 1 / (1 + moved + fit.spread * expected_maximum(gpus))


def _communications(mode: ScalingMode, gpus: int) -> float:
    """Return how many times the gradients move while a GPU computes as long as one alone does."""
    return _ring_factor(gpus) * (1 if mode is ScalingMode.WEAK else gpus)


def _ring_factor(gpus: int) -> float:
    """Return how many times the gradients each GPU sends."""
    return 2 * (gpus - 1) / gpus


def _exposed_s(compute_s: float, gradients_bytes: int, gpus: int, bytes_per_s: float, hop_s: float) -> float:
    """Return the communication after the backward pass: its last bucket, and what did not fit before.

    One bucket is sent at a time, each when its part of the pass is over.
    """
    if not gradients_bytes:
        return 0.0
    buckets = math.ceil(gradients_bytes / BUCKET_BYTES)
    bucket_s = all_reduce_s(gradients_bytes / buckets, gpus, bytes_per_s, hop_s)
    backward_s = BACKWARD_SHARE * compute_s
    return max(bucket_s, backward_s / buckets + buckets * bucket_s - backward_s)


def _least_squares(rows: list[tuple[float, float, float]]) -> tuple[float, float]:
    """Return the factors x and y >= 0 that bring a x + b y closest to c."""
    aa, bb, ab = (sum(row[i] * row[j] for row in rows) for i, j in ((0, 0), (1, 1), (0, 1)))
    ac, bc = (sum(row[i] * row[2] for row in rows) for i in (0, 1))
    determinant = aa * bb - ab**2
    inner = ((ac * bb - bc * ab) / determinant, (bc * aa - ac * ab) / determinant)
    if min(inner) >= 0:
        return inner
    edges = (max(0.0, ac / aa), 0.0), (0.0, max(0.0, bc / bb))
    return min(edges, key=lambda one: sum((c - a * one[0] - b * one[1]) ** 2 for a, b, c in rows))
