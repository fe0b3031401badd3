"""Values on the command line: the readers that argparse calls.

Each raises argparse.ArgumentTypeError with a sentence that says what the value must be.
"""

import argparse
import math
import os
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import NamedTuple

from tunekit.errors import UsageError
from tunekit.units import GIB, duration_text, parse_duration_s

_WHOLE = re.compile(r"\d{1,15}")
"""The largest whole number that JSON holds exactly."""
_GROUPED = re.compile(r"\d{1,3}([,_])\d{3}(?:\1\d{3})*")
_SCALED = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)(?:[eE]\+?(\d{1,2})|([kKMB]))")
_POWERS = {"k": 3, "K": 3, "M": 6, "B": 9}
"""Powers of ten. A lower-case m means minutes."""

MAX_RATE = 1e12
"""Samples/s or it/s that a rate may have."""

_MEMORY_UNITS = {"": GIB, "gib": GIB, "gb": 10**9, "tib": 1024 * GIB, "tb": 10**12}
_MAX_GIB = 10**6

_LONG_S = 600.0
"""A session or time between interruptions below this lacks its unit: 12 for 12h."""


def natural(text: str) -> int:
    """Return the whole number, at least 0, however it is written."""
    return _whole(text, least=0)


def positive(text: str) -> int:
    """Return the whole number, at least 1, however it is written."""
    return _whole(text, least=1)


def counts(text: str) -> tuple[int, ...]:
    """Return the whole numbers, at least 1, of a list such as 1,2,4: each once, in increasing order."""
    return tuple(sorted({positive(word.strip()) for word in text.split(",")}))


def digits(text: str) -> str | None:
    """Return a whole number in digits that was written as such, or as 50k, 1.2M, 1_000, 1,000 or 1e6.

    None for anything else.
    """
    if _GROUPED.fullmatch(text):
        text = re.sub("[,_]", "", text)
    scaled = _SCALED.fullmatch(text)
    if scaled:
        number = Decimal(scaled[1]).scaleb(_POWERS[scaled[3]] if scaled[3] else int(scaled[2]))
        text = str(int(number)) if number == number.to_integral_value() else ""
    return text if _WHOLE.fullmatch(text) else None


class Rate(NamedTuple):
    """A rate as it was typed."""

    text: str
    per_s: float
    unit: str | None
    """The unit as typed; None where it was left out, which means samples/s."""

    @property
    def is_iterations(self) -> bool:
        """Whether it counts iterations rather than samples."""
        return self.unit in ("it/s", "s/it")


def rate(text: str) -> Rate:
    """Return a rate of samples/s, or of it/s or s/it as progress bars write it; the unit may be left out."""
    match = re.fullmatch(r"(\d{1,15}(?:\.\d{1,15})?(?:e\d{1,2})?)\s*(samples/s|it/s|s/it)?", text.strip())
    value, unit = (float(match[1]), match[2]) if match else (0.0, None)
    per_s = 1 / value if unit == "s/it" and value else value
    if not 0 < per_s <= MAX_RATE:
        raise argparse.ArgumentTypeError(
            f"must be a positive rate such as 282 (samples/s), 1.1it/s or 0.9s/it, at most {MAX_RATE:,.0f}, "
            f"got {text!r}"
        )
    return Rate(text.strip(), per_s, unit)


def positive_number(of: str = "", most: float = math.inf) -> Callable[[str], float]:
    """Return what reads a positive, finite number.

    Args:
        of: what it counts, such as "hours".
        most: the largest number allowed.
    """
    what = f"a positive number of {of}" if of else "a positive number"
    limit = "" if most == math.inf else f", at most {most:,.0f}"

    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = 0.0
        if not (0 < value < math.inf and value <= most):
            raise argparse.ArgumentTypeError(f"must be {what}{limit}, got {text!r}")
        return value

    return read


def memory_bytes(text: str) -> int:
    """Return the bytes of a machine's memory: a plain number is GiB, 62GB is decimal."""
    match = re.fullmatch(r"(\d{1,9}(?:\.\d{1,9})?)\s*([a-zA-Z]*)", text.strip())
    unit = _MEMORY_UNITS.get(match[2].lower()) if match else None
    size_bytes = int(Decimal(match[1]) * unit) if match and unit else 0
    if not 0 < size_bytes <= _MAX_GIB * GIB:
        raise argparse.ArgumentTypeError(
            f"must be memory in GiB such as 62, or with its unit, such as 64GB, at most {_MAX_GIB:,} GiB, "
            f"got {text!r}"
        )
    return size_bytes


def share(text: str) -> float:
    """Return a share of a whole, 0 to below 1, written as 5% or 0.05; 5 alone could mean either."""
    number = text.strip().removesuffix("%")
    is_plain = re.fullmatch(r"\d{1,15}(\.\d{1,15})?|\.\d{1,15}", number) is not None
    value = float(number) / (100 if text.strip().endswith("%") else 1) if is_plain else math.inf
    if not value < 1:
        raise argparse.ArgumentTypeError(
            f"must be a share from 0% to below 100%, written as 5% or 0.05, got {text!r}"
        )
    return value


def duration_s(text: str) -> float:
    """Return the seconds of a duration such as 90s, 15m or 1h30m; a plain number is seconds."""
    try:
        return parse_duration_s(text)
    except UsageError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def long_duration_s(text: str) -> float:
    """Return the seconds of a duration that is hours rather than seconds."""
    seconds = duration_s(text)
    if seconds < _LONG_S:
        raise argparse.ArgumentTypeError(f"{text} is {duration_text(seconds)}; write 12h for 12 hours")
    return seconds


def data_path(text: str) -> Path:
    """Return the path of a data set."""
    if not text.strip():
        raise argparse.ArgumentTypeError(
            "must be the path of a data set, got an empty text; is the variable that holds it set?"
        )
    if "://" in text and not Path(text).exists():
        raise argparse.ArgumentTypeError(
            f"must be a path, got {text!r}; only mounted paths can be measured: mount it and give that folder"
        )
    return Path(os.path.expanduser(text))  # noqa: PTH111 - which leaves an unknown "~name" as it is


def _whole(text: str, least: int) -> int:
    known = digits(text)
    if known is None or int(known) < least:
        spelt = "; write a size as 50k or 1.2M" if re.fullmatch(r"[\d.,_]+[A-Za-z]+", text) else ""
        raise argparse.ArgumentTypeError(f"must be a whole number, at least {least}, got {text!r}{spelt}")
    return int(known)
