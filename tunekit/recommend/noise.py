"""What fresh processes can prove: noise floor, speedup and its range, verdict.

All figures are ratios, so everything is computed on logarithms and returned as plain factors.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from statistics import NormalDist, fmean, variance
from typing import NamedTuple

from tunekit.records.interval import Interval
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.recommendation import Confidence, NoiseFloor, Verdict

CONFIDENCE = 0.95
"""Confidence level of every range shown."""

MIN_GAIN = 0.05
"""The smallest relative change of a rate that matters."""

BUSY_FLOOR = 0.10
"""Noise floor from which a machine is too busy for reliable figures."""

MAX_WORTHWHILE_ROUNDS = 50
"""Most rounds that are worth waiting for."""

_QUIET_FLOOR = 0.05
_HIGH_WIDTH = 1.10
_MEDIUM_WIDTH = 1.30
"""Largest ratio of a range's high end to its value for high and for medium confidence."""

_MANY_TIMES = 100.0
"""Narrowing of a range that no realistic number of rounds achieves, as a factor."""
_MAX_EXPONENT = 700.0

# fmt: off
_T = {
    0.90: (6.313751515, 2.91998558, 2.353363435, 2.131846786, 2.015048373, 1.943180281,
           1.894578605, 1.859548038, 1.833112933, 1.812461123, 1.795884819, 1.782287556),
    0.95: (12.70620474, 4.30265273, 3.182446305, 2.776445105, 2.570581836, 2.446911851,
           2.364624252, 2.306004135, 2.262157163, 2.228138852, 2.20098516, 2.17881283),
    0.99: (63.65674116, 9.924843201, 5.84090931, 4.604094871, 4.032142984, 3.707428021,
           3.499483297, 3.355387331, 3.249835542, 3.169272673, 3.105806516, 3.054539589),
}
# fmt: on
"""Student's two-sided quantiles of 1 to 12 degrees of freedom, by confidence."""


class _MeanOfLogs(NamedTuple):
    value: float
    variance: float
    """Variance of the mean itself."""
    degrees: float

    def interval(self, confidence: float = CONFIDENCE) -> Interval:
        half = t_quantile(self.degrees, confidence) * math.sqrt(self.variance)
        ends = (self.value - half, self.value, self.value + half)
        low, value, high = (math.exp(min(one, _MAX_EXPONENT)) for one in ends)
        return Interval(value=value, low=low, high=high)


def noise_floor(rates_per_process: Sequence[float]) -> NoiseFloor | None:
    """Return how much consecutive fresh processes of one config differ.

    Args:
        rates_per_process: samples/s of fresh baseline processes, in the order they ran; all positive.

    Returns:
        The root mean square of the log ratios of consecutive processes, as a relative difference;
        None with fewer than two processes.
    """
    if len(rates_per_process) < 2:
        return None
    log_ratios = [math.log(later / earlier) for earlier, later in pairwise(rates_per_process)]
    mean_square = math.fsum(ratio * ratio for ratio in log_ratios) / len(log_ratios)
    return NoiseFloor(
        relative=math.expm1(min(math.sqrt(mean_square), _MAX_EXPONENT)),
        pairs=len(log_ratios),
        processes=len(rates_per_process),
    )


def spread(noise: NoiseFloor | None, rates: Sequence[float]) -> float:
    """Return how much consecutive processes differ, relative: the baseline's, or others' by their rates."""
    return max((floor.relative for floor in (noise, noise_floor(rates)) if floor), default=0.0)


def speedup(
    candidate_rates: Sequence[float], baseline_rates: Sequence[float], noise: NoiseFloor | None = None
) -> Interval | None:
    """Return candidate over baseline, paired by round, as a factor with its 95% range.

    Two or more rounds give a Student-t range of their log ratios. One round says nothing about the next
    process, so its range comes from the noise floor, which is the spread of exactly such a ratio.

    Args:
        candidate_rates: samples/s of the candidate, one per round; all positive.
        baseline_rates: samples/s of the baseline in the same rounds.
        noise: the run's noise floor, used with one round only.

    Returns:
        The geometric mean of the ratios with its range; None without rounds, or if the range is unknown
        because there is one round and no noise floor.

    Raises:
        ValueError: the numbers of rounds differ.
    """
    log_ratios = [
        math.log(candidate) - math.log(baseline)
        for candidate, baseline in zip(candidate_rates, baseline_rates, strict=True)
    ]
    seen = _mean_of_logs(log_ratios, noise, processes=2)
    return seen.interval() if seen else None


def mean_interval(values: Sequence[float], noise: NoiseFloor | None = None) -> Interval:
    """Return the geometric mean of one positive figure per fresh process, with its 95% range.

    With one process the range comes from the noise floor, divided by sqrt(2) as the floor is the spread of a
    ratio. Without a floor the range is unknown, and low and high equal the value.

    Raises:
        ValueError: there are no values.
    """
    logs = [math.log(value) for value in values]
    return (_mean_of_logs(logs, noise) or _MeanOfLogs(fmean(logs), 0.0, 1)).interval()


def rate_interval(rates: Sequence[float], loop: LoopMeasurement, noise: NoiseFloor | None = None) -> Interval:
    """Return the mean of rates, one per process; a single rate has its measured window's range.

    Args:
        rates: samples/s of fresh processes.
        loop: the first process's loop.
        noise: the run's noise floor; if known, a single rate takes its range from it instead.
    """
    own = loop.rate_interval_relative
    if len(rates) > 1 or noise is not None or own is None:
        return mean_interval(rates, noise)
    half = rates[0] * min(1.0, own)
    return Interval(low=rates[0] - half, value=rates[0], high=rates[0] + half)


def mean_of_known(values: Sequence[float], noise: NoiseFloor | None = None) -> Interval | None:
    """Return the mean of the positive, finite figures; None if there are none."""
    known = [value for value in values if 0 < value < math.inf]
    return mean_interval(known, noise) if known else None


def unpaired_factor(
    rates: Sequence[float],
    reference_rates: Sequence[float],
    noise: NoiseFloor | None = None,
    reference_noise: NoiseFloor | None = None,
    confidence: float = CONFIDENCE,
) -> Interval | None:
    """Return the ratio of two figures from processes that ran at different times, with its range.

    Welch's t on logarithms: each side has its own spread, and the degrees of freedom follow from both
    (Welch 1947, Biometrika 34; Satterthwaite 1946). A side with one process takes its spread from the noise
    floor of its run, as `mean_interval` does. If one side has few processes and more spread than the other, a
    95% range covers the true value in 90% to 95% of all cases, otherwise in 95% (simulated in the tests). The
    range only covers variation between processes, not differences between the runs, such as the machine.

    Args:
        rates: one positive figure per fresh process.
        reference_rates: the same for the reference.
        noise: noise floor of the run of `rates`, used with one process only.
        reference_noise: noise floor of the run of `reference_rates`.
        confidence: confidence level of the range.

    Returns:
        The ratio of the geometric means with its range; None if a side has no process, or one process
        and no noise floor, so that the range is unknown.
    """
    own, other = (
        _mean_of_logs([math.log(rate) for rate in side], floor)
        for side, floor in ((rates, noise), (reference_rates, reference_noise))
    )
    if own is None or other is None:
        return None
    both = own.variance + other.variance
    share = own.variance / both if both else 0.5
    degrees = 1 / (share**2 / own.degrees + (1 - share) ** 2 / other.degrees)
    return _MeanOfLogs(own.value - other.value, both, degrees).interval(confidence)


def verdict(factor: Interval, noise: NoiseFloor | None, seeks_gain: bool = True) -> Verdict:
    """Return the verdict on a speedup over the baseline, or on any ratio of two figures.

    A change counts if its whole range is on one side of 1 and its value exceeds the noise floor. Otherwise
    there is no gain, or no difference, if the range excludes every change that matters (MIN_GAIN); if it
    doesn't, the answer is open.

    Args:
        factor: the ratio with its range.
        noise: the run's noise floor.
        seeks_gain: whether only a gain matters, not a loss.
    """
    floor = 1.0 + (noise.relative if noise else 0.0)
    if factor.low > 1.0 and factor.value > floor:
        return "faster"
    if factor.high < 1.0 and factor.value < 1.0 / floor:
        return "slower"
    if factor.high >= 1 + MIN_GAIN or not (seeks_gain or factor.low > 1 / (1 + MIN_GAIN)):
        return "inconclusive"
    return "no gain" if seeks_gain else "no difference"


def confidence(factor: Interval, noise: NoiseFloor | None) -> Confidence:
    """Return how reliable a figure is, by the noise of its machine and its own range."""
    if noise is None or noise.relative >= BUSY_FLOOR or factor.high > factor.value * _MEDIUM_WIDTH:
        return "low"
    if noise.relative >= _QUIET_FLOOR or factor.high > factor.value * _HIGH_WIDTH:
        return "medium"
    return "high"


def rounds_to_tell(speedup: Interval, rounds: int, noise: NoiseFloor | None) -> int | None:
    """Return the total number of rounds that would settle a gain, by the spread of those so far.

    This is the second stage of a test whose first stage shows the spread (Stein 1945, Annals of Mathematical
    Statistics 16): the range narrows with the square root of the rounds.

    Args:
        speedup: the speedup over the rounds so far.
        rounds: number of rounds that it comes from.
        noise: the run's noise floor.

    Returns:
        The rounds, at least as many as there were; None if no number would settle it, because the value
        itself is between the smallest gain that matters and the noise floor, or practically at one of them.
    """
    if speedup.value <= 0:
        return None  # not a ratio of rates, but a record may contain it
    value, half = math.log(speedup.value), math.log(speedup.high / speedup.value)
    floor = math.log1p(noise.relative) if noise else 0.0
    to_spare = value if value > floor else math.log1p(MIN_GAIN) - value
    if to_spare * _MANY_TIMES <= half:
        return None
    return max(rounds, math.floor(rounds * (half / to_spare) ** 2) + 1)


def t_quantile(degrees: float, confidence: float = CONFIDENCE) -> float:
    """Return t with P(|T| <= t) = confidence, where T is Student's t with these degrees of freedom.

    Below 12 degrees it is interpolated from a table, in 1/t. From there on the expansion about the normal
    quantile (Abramowitz and Stegun 26.7.5) is exact to 1.2e-5.

    Args:
        degrees: degrees of freedom, at least 1.
        confidence: 0.90, 0.95 or 0.99.
    """
    table = _T[confidence]
    if degrees < len(table):
        below = max(1, math.floor(degrees))
        share = max(0.0, degrees - below)
        return 1 / ((1 - share) / table[below - 1] + share / table[below])
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    return (
        z
        + (z**3 + z) / (4 * degrees)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * degrees**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * degrees**4)
    )


def _mean_of_logs(logs: Sequence[float], noise: NoiseFloor | None, processes: int = 1) -> _MeanOfLogs | None:
    """Return the mean of logarithms with its variance; None for one figure without a noise floor.

    Args:
        logs: logarithms of rates, or of ratios of two rates.
        noise: the run's noise floor, used with one figure only.
        processes: number of processes whose rates make up one figure.
    """
    if len(logs) >= 2:
        return _MeanOfLogs(fmean(logs), variance(logs) / len(logs), len(logs) - 1)
    if not logs or noise is None:
        return None
    # The floor is the spread of a ratio of two processes: twice the variance of one.
    return _MeanOfLogs(logs[0], processes * math.log1p(noise.relative) ** 2 / 2, noise.pairs)
