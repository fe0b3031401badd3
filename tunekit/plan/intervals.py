"""Arithmetic of positive figures with a range."""

import math
from collections.abc import Callable

from tunekit.records.measurement import Interval

EXACTLY_ONE = Interval(value=1.0, low=1.0, high=1.0)


def bounded(low: float, value: float, high: float) -> Interval:
    """Return the interval; a value that rounding put beside its range is moved to the range's end."""
    return Interval(value=min(max(value, low), high), low=low, high=high)


def between(low: float, high: float) -> Interval:
    """Return the range of a ratio, with the geometric middle as its value: x2 and x1/2 are as far away."""
    return bounded(low, math.sqrt(low) * math.sqrt(high), high)


def times(one: Interval, other: Interval) -> Interval:
    """Return the product of two positive figures."""
    return bounded(one.low * other.low, one.value * other.value, one.high * other.high)


def scaled(one: Interval, factor: float) -> Interval:
    """Return the figure times a positive number."""
    return bounded(one.low * factor, one.value * factor, one.high * factor)


def inverse(numerator: float, one: Interval) -> Interval:
    """Return numerator / figure; the low end comes from the high one."""
    return bounded(numerator / one.high, numerator / one.value, numerator / one.low)


def through(rising: Callable[[float], float], one: Interval) -> Interval:
    """Return the figure sent through a function that never falls."""
    return bounded(rising(one.low), rising(one.value), rising(one.high))
