"""A figure with its range, and the arithmetic of positive ones."""

import math
from collections.abc import Callable
from typing import Self

from pydantic import model_validator

from tunekit.records.base import Record


class Interval(Record):
    """A figure with the range that it lies in; the arithmetic is of positive ones."""

    value: float
    low: float
    high: float

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"interval must be ordered, got {self.low} <= {self.value} <= {self.high}")
        return self

    @classmethod
    def bounded(cls, low: float, value: float, high: float) -> Self:
        """Return the interval; a value that rounding put beside its range is moved to the range's end."""
        return cls(value=min(max(value, low), high), low=low, high=high)

    @classmethod
    def between(cls, low: float, high: float) -> Self:
        """Return the range of a ratio; its value is the geometric middle, as x2 and x1/2 are as far away."""
        return cls.bounded(low, math.sqrt(low) * math.sqrt(high), high)

    def times(self, other: "Interval | float") -> "Interval":
        """Return the product with another figure, or with a number."""
        if isinstance(other, Interval):
            return Interval.bounded(self.low * other.low, self.value * other.value, self.high * other.high)
        return Interval.bounded(self.low * other, self.value * other, self.high * other)

    def plus(self, other: "Interval") -> "Interval":
        """Return the sum with another figure; both are at the same end of their ranges together."""
        return Interval.bounded(self.low + other.low, self.value + other.value, self.high + other.high)

    def divide_into(self, numerator: float) -> "Interval":
        """Return numerator / figure; the low end comes from the high one."""
        return Interval.bounded(numerator / self.high, numerator / self.value, numerator / self.low)

    def map_increasing(self, function: Callable[[float], float]) -> "Interval":
        """Return the figure sent through a function that never falls."""
        return Interval.bounded(function(self.low), function(self.value), function(self.high))

    def at_most(self, other: "Interval") -> "Interval":
        """Return the smaller of both at each end."""
        return Interval(
            low=min(self.low, other.low), value=min(self.value, other.value), high=min(self.high, other.high)
        )


EXACTLY_ONE = Interval(value=1.0, low=1.0, high=1.0)
