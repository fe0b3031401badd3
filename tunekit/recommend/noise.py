"""What fresh processes may claim: noise floor, speed-up and its range, verdict.

All figures are ratios, so everything is computed on logarithms and given back as plain factors.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from statistics import NormalDist
from typing import Literal, NamedTuple

from tunekit.records.comparison import Difference
from tunekit.records.interval import Interval
from tunekit.records.recommendation import Confidence, NoiseFloor, Verdict

CONFIDENCE = 0.95
"""Probability that every range shown is made for."""

LEAST_GAIN = 0.05
"""The smallest change of a rate that matters to anybody."""

BUSY_FLOOR = 0.10
"""Noise floor from which on a machine is too busy for its figures to be relied on."""

MOST_WORTHWHILE_ROUNDS = 50
"""Rounds that anybody would wait for."""

_QUIET_FLOOR = 0.05
_HIGH_WIDTH = 1.10
_MEDIUM_WIDTH = 1.30
"""High end of a range over its value, up to which it is of high and of medium confidence."""

_MANY_TIMES = 100.0
"""Times that no number of rounds narrows a range."""
_MAX_EXPONENT = 700.0
_BISECTIONS = 100
_MANY_DEGREES = 1000
"""From here on the expansion in 1 / degrees is exact to 1e-8, whatever a record claims."""


class _MeanOfLogs(NamedTuple):
    value: float
    variance: float
    """Of the mean itself."""
    degrees: int


def noise_floor(rates_per_process: Sequence[float]) -> NoiseFloor | None:
    """Return how much fresh processes of one config differ, one after the other.

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


def speedup(
    candidate_rates: Sequence[float], baseline_rates: Sequence[float], noise: NoiseFloor | None = None
) -> Interval | None:
    """Return candidate over baseline, paired by round, as a factor with its 95% range.

    Two rounds or more give a Student-t range of their log ratios. One round says nothing of the next
    process, so its range comes from the noise floor, which is the spread of just such a ratio.

    Args:
        candidate_rates: samples/s of the candidate, one per round; all positive.
        baseline_rates: samples/s of the baseline in the same rounds.
        noise: the run's noise floor, used with one round only.

    Returns:
        The geometric mean of the ratios with its range; None without a round, or with one round
        and no noise floor: its range is unknown.

    Raises:
        ValueError: the two have different numbers of rounds.
    """
    if len(candidate_rates) != len(baseline_rates):
        raise ValueError(
            f"rates are paired by round, got {len(candidate_rates)} of the candidate "
            f"and {len(baseline_rates)} of the baseline; drop the rounds in which one failed"
        )
    log_ratios = [
        math.log(candidate) - math.log(baseline)
        for candidate, baseline in zip(candidate_rates, baseline_rates, strict=True)
    ]
    if len(log_ratios) >= 2:
        return _interval_of_logs(log_ratios)
    if not log_ratios or noise is None:
        return None
    return _interval(log_ratios[0], t_quantile(noise.pairs) * math.log1p(noise.relative))


def mean_interval(values: Sequence[float], noise: NoiseFloor | None = None) -> Interval:
    """Return the geometric mean of one positive figure per fresh process, with its 95% range.

    One process takes its range from the noise floor, which spreads by sqrt(2) more than a single
    process does. Without a floor the range is unknown, and low and high equal the value.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("a mean needs at least one value, got none; leave the figure out instead")
    logs = [math.log(value) for value in values]
    if len(logs) >= 2:
        return _interval_of_logs(logs)
    half = t_quantile(noise.pairs) * math.log1p(noise.relative) / math.sqrt(2) if noise else 0.0
    return _interval(logs[0], half)


def mean_of_known(values: Sequence[float], noise: NoiseFloor | None = None) -> Interval | None:
    """Return the mean of those figures that are positive and finite; None without one."""
    known = [value for value in values if 0 < value < math.inf]
    return mean_interval(known, noise) if known else None


def unpaired_factor(
    rates: Sequence[float],
    reference_rates: Sequence[float],
    noise: NoiseFloor | None = None,
    reference_noise: NoiseFloor | None = None,
    confidence: float = CONFIDENCE,
) -> Interval | None:
    """Return one figure over another, of processes that ran at different times, with its range.

    Welch's t on logarithms: each side has its own spread, and the degrees of freedom follow from both
    (Welch 1947, Biometrika 34; Satterthwaite 1946). A side with one process takes its spread from the noise
    floor of its run, as `mean_interval` does. Where one side has few processes and more spread than the
    other, a range made for 95% holds the truth in 90% to 95% of all cases, else in 95% (simulated in the
    tests). It is of the processes alone: what differs between the runs, such as the machine, is not in it.

    Args:
        rates: one positive figure per fresh process.
        reference_rates: the same of what it is compared with.
        noise: noise floor of the run of `rates`, used with one process only.
        reference_noise: noise floor of the run of `reference_rates`.
        confidence: probability that the range is made for.

    Returns:
        The ratio of the geometric means with its range; None where a side has no process, or one process
        and no noise floor: its range is unknown.
    """
    own, other = _mean_of_logs(rates, noise), _mean_of_logs(reference_rates, reference_noise)
    if own is None or other is None:
        return None
    variance = own.variance + other.variance
    if not variance:
        return _interval(own.value - other.value, 0.0)
    share = own.variance / variance
    degrees = 1 / (share**2 / own.degrees + (1 - share) ** 2 / other.degrees)
    return _interval(own.value - other.value, _t_between(degrees, confidence) * math.sqrt(variance))


def larger_noise(first: NoiseFloor | None, second: NoiseFloor | None) -> NoiseFloor | None:
    """Return the larger of two noise floors; None where neither is known."""
    known = [one for one in (first, second) if one is not None]
    return max(known, key=lambda one: one.relative, default=None)


def verdict(speedup: Interval, noise: NoiseFloor | None) -> Verdict:
    """Return what a speed-up over the baseline may be called.

    A change counts when the whole range lies beyond 1 and its value beyond the noise floor. Else there is no
    gain where the range leaves out all that would matter, LEAST_GAIN, and no answer where it does not.
    """
    changed = _change(speedup, noise)
    return changed or ("no gain" if speedup.high < 1 + LEAST_GAIN else "inconclusive")


def difference(factor: Interval, noise: NoiseFloor | None, least: float = LEAST_GAIN) -> Difference:
    """Return what one figure over another may be called where neither direction is hoped for.

    Args:
        factor: the one over the other.
        noise: of the machine that both ran on, or the larger of two.
        least: the smallest relative difference that matters.
    """
    changed = _change(factor, noise)
    is_small = 1 / (1 + least) < factor.low and factor.high < 1 + least
    return changed or ("no difference" if is_small else "inconclusive")


def confidence(factor: Interval, noise: NoiseFloor | None) -> Confidence:
    """Return how far a figure can be relied on, by the noise of its machine and its own range."""
    if noise is None or noise.relative >= BUSY_FLOOR or factor.high > factor.value * _MEDIUM_WIDTH:
        return "low"
    if noise.relative >= _QUIET_FLOOR or factor.high > factor.value * _HIGH_WIDTH:
        return "medium"
    return "high"


def rounds_to_tell(speedup: Interval, rounds: int, noise: NoiseFloor | None) -> int | None:
    """Return how many rounds in all would tell a gain from none, by the spread of those so far.

    The second stage of a test whose first stage shows the spread (Stein 1945, Annals of Mathematical
    Statistics 16): the range narrows with the root of the rounds.

    Args:
        speedup: over the rounds so far.
        rounds: that it comes from.
        noise: the run's noise floor.

    Returns:
        The rounds, no fewer than there were; None where none would tell, as the value itself lies between
        what would matter and the noise floor, or as good as at an end of that.
    """
    if speedup.value <= 0:
        return None  # no ratio of rates; a record may hold one all the same
    value, half = math.log(speedup.value), math.log(speedup.high / speedup.value)
    floor = math.log1p(noise.relative) if noise else 0.0
    to_spare = value if value > floor else math.log1p(LEAST_GAIN) - value
    if to_spare * _MANY_TIMES <= half:
        return None
    return max(rounds, math.floor(rounds * (half / to_spare) ** 2) + 1)


def _change(factor: Interval, noise: NoiseFloor | None) -> Literal["faster", "slower"] | None:
    floor = 1.0 + (noise.relative if noise else 0.0)
    if factor.low > 1.0 and factor.value > floor:
        return "faster"
    if factor.high < 1.0 and factor.value < 1.0 / floor:
        return "slower"
    return None


@lru_cache(maxsize=256)
def t_quantile(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Return t with P(|T| <= t) = confidence, T being Student's t with that many degrees of freedom.

    The probability has a closed form for whole degrees (Abramowitz and Stegun 26.7.3 and 26.7.4),
    which is inverted by bisection on the angle atan(t / sqrt(degrees)). Its length grows with the degrees, so
    many take the expansion about the normal quantile (26.7.5).

    Raises:
        ValueError: degrees is below 1, or confidence is not between 0 and 1.
    """
    if degrees < 1 or not 0.0 < confidence < 1.0:
        raise ValueError(
            f"Student's t needs degrees >= 1 and 0 < confidence < 1, got {degrees}, {confidence}"
        )
    if degrees > _MANY_DEGREES:
        z = NormalDist().inv_cdf((1 + confidence) / 2)
        return z + (z**3 + z) / (4 * degrees) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * degrees**2)
    low, high = 0.0, math.pi / 2
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        if _central_probability(middle, degrees) < confidence:
            low = middle
        else:
            high = middle
    return math.sqrt(degrees) * math.tan(low)


def _t_between(degrees: float, confidence: float) -> float:
    """Return Student's quantile for degrees that need not be whole; its inverse is nearly straight."""
    below = max(1, math.floor(degrees))
    share = max(0.0, degrees - below)
    return 1 / ((1 - share) / t_quantile(below, confidence) + share / t_quantile(below + 1, confidence))


def _central_probability(angle: float, degrees: int) -> float:
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = degrees % 2
    term = cosine if odd else 1.0
    series = 0.0
    for index in range(1, (degrees - 1) // 2 + 1 if odd else degrees // 2 + 1):
        series += term
        factor = 2 * index / (2 * index + 1) if odd else (2 * index - 1) / (2 * index)
        term *= cosine * cosine * factor
    return 2 / math.pi * (angle + sine * series) if odd else sine * series


def _mean_of_logs(rates: Sequence[float], noise: NoiseFloor | None) -> _MeanOfLogs | None:
    """Return the mean of log rates with its variance; None where one process has no noise floor."""
    logs = [math.log(rate) for rate in rates]
    if len(logs) >= 2:
        mean, variance = _mean_and_variance(logs)
        return _MeanOfLogs(mean, variance / len(logs), len(logs) - 1)
    if not logs or noise is None:
        return None
    # The floor is the spread of a ratio of two processes: twice the variance of one.
    return _MeanOfLogs(logs[0], math.log1p(noise.relative) ** 2 / 2, noise.pairs)


def _mean_and_variance(logs: Sequence[float]) -> tuple[float, float]:
    mean = math.fsum(logs) / len(logs)
    return mean, math.fsum((value - mean) ** 2 for value in logs) / (len(logs) - 1)


def _interval_of_logs(logs: Sequence[float]) -> Interval:
    count = len(logs)
    mean, variance = _mean_and_variance(logs)
    return _interval(mean, t_quantile(count - 1) * math.sqrt(variance / count))


def _interval(log_value: float, half: float) -> Interval:
    low, value, high = (
        math.exp(min(exponent, _MAX_EXPONENT)) for exponent in (log_value - half, log_value, log_value + half)
    )
    return Interval(value=value, low=low, high=high)
