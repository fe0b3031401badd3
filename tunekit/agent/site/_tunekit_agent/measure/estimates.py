"""What a window of loop batches says of the loop: an interval for its rate, and whether it drifts.

Pure. Durations of consecutive batches depend on each other (workers hand over in turns) and are skewed (a
slow file, a full disk), so both are worked out from means over groups of consecutive batches, which do so
less, and what is left of it is corrected for.
"""

from __future__ import annotations

import math

# Two-sided 95% Student-t quantiles for 1..30 degrees of freedom; beyond, the normal's is within 4%.
_T95 = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
_GROUPS = 16
_MIN_GROUPS, _MIN_OF_TREND = 3, 10
_MAX_CORRELATION = 0.9
LOOKS = 5
"""How often a window may be looked at for `min_relative`."""
# The looks share an error of 1% on one side (Bonferroni; Dunn 1961, JASA 56): the t quantile of 0.998 is
# 1.69 times that of 0.975 at 9 degrees of freedom, 1.60 times at 15.
_LOOK_WIDENING = 1.7


def interval_relative(durations: list) -> float | None:
    """Return the half width of the 95% interval of the mean duration, relative to it.

    Batch means with Student's t, adjusted for the skewness and the lag-1 correlation of the means: after
    Skart (Tafazzoli, Steiger, Wilson 2011, INFORMS J. Computing 23(1)); of its two unequal halves the wider.

    Returns:
        The relative half width, None for fewer than 3 durations.
    """
    means = _means(durations, _MIN_GROUPS)
    groups = len(means)
    mean = sum(durations) / len(durations) if means else 0.0
    if mean <= 0:
        return None
    deviations = [value - mean for value in means]
    variance = sum(value * value for value in deviations) / (groups - 1)
    if variance <= 0:
        return 0.0
    lagged = sum(deviations[place] * deviations[place - 1] for place in range(1, groups))
    correlation = min(max(lagged / ((groups - 1) * variance), 0.0), _MAX_CORRELATION)
    inflation = (1 + correlation) / (1 - correlation)
    skewness = sum(value**3 for value in deviations) * groups / ((groups - 1) * (groups - 2) * variance**1.5)
    return _skewed_t95(groups, skewness) * math.sqrt(inflation * variance / groups) / mean


def min_relative(durations: list) -> float:
    """Return what the mean duration is at the very least, relative to the mean of these.

    The lower end of its interval, widened so that it holds at LOOKS looks at a growing window in all but 1%
    of windows. Few batches can't show that they lie within one slow phase of many, so the half width is never
    taken to be below 1 / sqrt(batches); simulated loops in phases of some ten batches need that.

    Returns:
        The share; 0.0 where nothing is known.
    """
    interval = interval_relative(durations)
    if interval is None:
        return 0.0
    return max(0.0, 1 - max(_LOOK_WIDENING * interval, 1 / math.sqrt(len(durations))))


def trend_relative(durations: list) -> float | None:
    """Return how much slower the last batches are than the first, if that is more than chance.

    By a line through the logarithms of the group means, from one end of the window to the other.

    Returns:
        The relative change, above -1 (negative: the loop got faster); 0.0 where it is not significant at 95%;
        None for fewer than 10 durations.
    """
    means = _means(durations, _MIN_OF_TREND)
    if not means or min(means) <= 0:
        return None
    logs, groups = [math.log(mean) for mean in means], len(means)
    mean = sum(logs) / groups
    centre = (groups - 1) / 2
    spread = sum((place - centre) ** 2 for place in range(groups))
    slope = sum((place - centre) * value for place, value in enumerate(logs)) / spread
    residuals = [value - mean - slope * (place - centre) for place, value in enumerate(logs)]
    error = math.sqrt(sum(value * value for value in residuals) / (groups - 2) / spread)
    if abs(slope) <= _t95(groups - 2) * error:
        return 0.0
    return math.expm1(slope * (groups - 1))


def owed_s(left_s: float, batches_s: list) -> float:
    """Return how much of the work that is left on a device belongs to the time of the batches before.

    A device that is slower than its host falls behind: what is left when the host is through is time that
    those batches take. Beside a slower host the last batch's work would run while the next one is fetched,
    and takes no time of its own. A host that is held back after a while got ahead in the batches before that.

    Args:
        left_s: seconds that the device works on after the last batch's end.
        batches_s: seconds of each batch by the host, since the device had no work.
    """
    if not batches_s:
        return left_s
    late = sorted(batches_s[len(batches_s) // 2 :])
    usual_s = late[len(late) // 2]
    if left_s > usual_s:
        return left_s  # more than one batch's work
    return min(left_s, max(0.0, len(batches_s) * usual_s - sum(batches_s)))


def _means(durations: list, least: int) -> list:
    """Return the means of groups of consecutive durations, as nearly equal as can be: each is in one.

    Args:
        least: groups below which there are none.
    """
    groups = min(_GROUPS, len(durations))
    if groups < least:
        return []
    parts = (
        durations[place * len(durations) // groups : (place + 1) * len(durations) // groups]
        for place in range(groups)
    )
    return [sum(part) / len(part) for part in parts]


def _t95(degrees: int) -> float:
    return _T95[min(degrees, len(_T95)) - 1]


def _skewed_t95(groups: int, skewness: float) -> float:
    """Return the t quantile for means of skewed values (Willink 2005), the wider of the two sides."""
    t = _t95(groups - 1)
    beta = skewness / (6 * math.sqrt(groups))
    if abs(beta) < 1e-9:
        return t
    cubes = (1 + 6 * beta * (side - beta) for side in (t, -t))
    return max(abs(math.copysign(abs(one) ** (1 / 3), one) - 1) / abs(2 * beta) for one in cubes)
