"""A figure with its range, and arithmetic for positive ones."""

import math
from collections.abc import Callable
from typing import Self

from pydantic import model_validator

from tunekit.records.base import Record


class Interval(Record):
    """A figure with its range; the arithmetic assumes positive figures."""

    value: float
    low: float
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"interval must be ordered, got {self.low} <= {self.value} <= {self.high}")
        return self

    @classmethod
    def exactly(cls, value: float) -> Self:
        """Return the interval of a figure without a range."""
        return cls(value=value, low=value, high=value)

    @classmethod
    def bounded(cls, low: float, value: float, high: float) -> Self:
        """Return the interval, with a value that rounding pushed outside the range clamped to it."""
        return cls(value=min(max(value, low), high), low=low, high=high)

    @classmethod
    def between(cls, low: float, high: float) -> Self:
        """Return the range of a ratio around its geometric mean, as x2 and x1/2 are equally far from 1."""
        return cls.bounded(low, math.sqrt(low) * math.sqrt(high), high)

    def times(self, other: "Interval | float") -> "Interval":
        """Return the product with another figure or with a number."""
        if isinstance(other, Interval):
            return Interval.bounded(self.low * other.low, self.value * other.value, self.high * other.high)
        return Interval.bounded(self.low * other, self.value * other, self.high * other)

    def plus(self, other: "Interval") -> "Interval":
        """Return the sum with another figure; low adds to low, high to high."""
        return Interval.bounded(self.low + other.low, self.value + other.value, self.high + other.high)

    def divide_into(self, numerator: float) -> "Interval":
        """Return numerator / figure; its low end comes from the figure's high end."""
        return Interval.bounded(numerator / self.high, numerator / self.value, numerator / self.low)

    def map_increasing(self, function: Callable[[float], float]) -> "Interval":
        """Return the figure mapped through a non-decreasing function."""
        return Interval.bounded(function(self.low), function(self.value), function(self.high))

    def at_most(self, other: "Interval") -> "Interval":
        """Return the smaller of the two at each end of the range."""
        return Interval(
            low=min(self.low, other.low), value=min(self.value, other.value), high=min(self.high, other.high)
        )


EXACTLY_ONE = Interval.exactly(1.0)
