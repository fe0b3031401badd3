"""Predicts how data-parallel training scales on the GPUs of one host, from one GPU's step. Pure.

A step on n GPUs takes

    compute  +  exposed communication  +  wait for the slowest rank  +  wait for the loader

- Communication: a ring all-reduce moves 2 (n-1)/n times the gradients over each GPU's link
  (nccl-tests, doc/PERFORMANCE.md @03a204a), and takes 2 (n-1) hops to do so (NCCL, src/graph/tuning.cc).
- Exposed is the communication that the backward pass doesn't hide. Gradients are sent in buckets of 25 MiB
  during the pass (DistributedDataParallel; Li et al. 2020, VLDB 13(12)), the last bucket at its end.
- All ranks wait for the slowest: the expected maximum of n normal step times is e(n) deviations above their
  mean.
- The loaders of all ranks share the host's CPUs, so that the time to make n batches grows with n.

Assumptions and their limits:

- Gradients are ready evenly over the backward pass, which is two thirds of the step: it computes
  gradients of inputs and of weights, each as much work as the forward pass.
- Ranks' step times are independent and normal, with the measured spread. Batches that are padded to different
  lengths have a different spread, and so has a host with too few CPUs.
- Communication takes neither multiprocessors nor memory bandwidth from the backward pass, and GPUs keep their
  clocks when others are busy. ERROR covers deviations from this.
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
"""The default of DistributedDataParallel's bucket_cap_mb."""

BACKWARD_SHARE = 2 / 3
"""Share of a step's time on one GPU."""

NVLINK_SHARES = (0.78, 0.8, 1.07)
"""Bus bandwidth of an all-reduce as a share of a GPU's NVLink in one direction: lowest, usual, highest.

235 of 300 GB/s on A100, 368 of 450 on H200 with a ring, 482 with NVLink SHARP (stas00/ml-engineering,
network/README.md @744d01e); NCCL's own model takes 20 of 25 GB/s a link (src/graph/topo.h @069a3d4).
"""

PCIE3_X16_GB_PER_S = 12.0
"""Bandwidth of 16 lanes of PCIe 3.0 one way (NCCL, src/graph/topo.h @069a3d4); each generation doubles it."""

PCIE_SHARES = (0.5, 1.0)
"""Bounds on the usable share of that: without peer access, GPUs send all bytes through the host's memory."""

LAUNCH_S = 8.4e-6
NVLINK_HOP_S, PCIE_HOP_S = 3.4e-6, 5.7e-6
"""Latencies of a ring all-reduce (NCCL, src/graph/tuning.cc @01afd20)."""

ERROR = 0.1
"""Share by which the efficiency may be below the model's; the published measurements are within it."""

SOURCE = (
    "scaling: ring all-reduce (nccl-tests, doc/PERFORMANCE.md), hidden behind the backward pass in buckets "
    "of 25 MiB (Li et al. 2020, VLDB 13(12)), NCCL's latencies and bandwidths; "
    "up to 10% less for what that leaves out"
)

_MIN_FABRIC_GB_PER_S = 150.0
"""An NVLink slower than this is a bridge, which joins two cards."""

_EXPECTED_REACH, _EXPECTED_STEP = 9.0, 0.01
"""Range and grid, in standard deviations, of the integral for the expected maximum."""


class Link(NamedTuple):
    """The link over which GPUs of one host exchange gradients."""

    name: str
    bytes_per_s: Interval
    """Bus bandwidth of an all-reduce: what each GPU sends."""
    hop_s: float


def link_between(profile: Profile, gpus: int) -> Link | None:
    """Return the link over which GPUs of a model exchange gradients; None if unknown.

    Args:
        profile: the GPUs' profile.
        gpus: the number of GPUs.
    """
    # Profiles don't have other vendors' links, and NCCL's figures don't apply to them.
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
    """Predict the step on several GPUs of one host.

    Args:
        one: the step on one GPU.
        gpus: the number of GPUs.
        link: the link over which they exchange gradients.
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
    """Return the time of one ring all-reduce in seconds.

    Args:
        size_bytes: size of the data that is summed over the GPUs.
        gpus: the number of GPUs; a single one sends nothing.
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
    """Fit the scaling law to measured rates; None without the rates of one GPU and of two larger counts.

    Communication and stragglers are distinguished by how they grow: 2 (n-1)/n is nearly constant from four
    GPUs on, while the expected maximum of n keeps growing. The fit is least squares with nonnegative factors.

    Args:
        rates: total rate of all GPUs in samples/s, by the number of GPUs.
        mode: the scaling mode of the measurements.
    """
    counts = sorted(count for count in rates if count > 1)
    if 1 not in rates or len(counts) < 2:
        return None
    # All terms are in units of one GPU's step with its part of the batch, so that compute is 1.
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
    """Return the rate per GPU that a fitted law predicts, as a share of a single GPU's rate."""
    moved = fit.communication * _communications(fit.mode, gpus)
    return 1 / (1 + moved + fit.spread * expected_maximum(gpus))


def _communications(mode: ScalingMode, gpus: int) -> float:
    """Return the sent multiple of the gradients' size per compute time of a single GPU's step."""
    return _ring_factor(gpus) * (1 if mode is ScalingMode.WEAK else gpus)


def _ring_factor(gpus: int) -> float:
    """Return the bytes that each GPU sends, as a multiple of the gradients' size."""
    return 2 * (gpus - 1) / gpus


def _exposed_s(compute_s: float, gradients_bytes: int, gpus: int, bytes_per_s: float, hop_s: float) -> float:
    """Return the communication time after the backward pass: the last bucket and any backlog.

    Buckets are sent one at a time, each after its part of the pass.
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
