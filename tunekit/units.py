"""Formats and parses quantities: bytes, seconds, rates, hours, dollars.

Sizes are binary (1 GiB = 2**30 bytes), as drivers, cgroups and torch report them.
"""

import math
import re
from collections.abc import Sequence

from tunekit.errors import UsageError

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

_UNKNOWN = "n/a"
"""The text for a figure that is unknown or not finite."""
_MAX_IN_DIGITS = 1e15
"""Figures of at least this are written in scientific notation."""

_DURATION_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def digits_text(figure: float | None, form: str) -> str:
    """Format a figure with a format such as ".2f", or in scientific notation if that had too many digits.

    None and figures that are not finite become "n/a".
    """
    known = _finite(figure)
    if known is None:
        return _UNKNOWN
    return format(known, form if abs(known) < _MAX_IN_DIGITS else ".3g")


def bytes_text(size_bytes: float | None) -> str:
    """Return a size such as "512 B", "64.0 MiB" or "22.5 GiB"; "n/a" for None."""
    size = _finite(size_bytes)
    if size is None:
        return _UNKNOWN
    for unit, scale in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(size) >= scale * (1 - 0.05 / 1024):  # 1023.96 KiB reads as 1.0 MiB, not as 1024.0 KiB
            return f"{digits_text(size / scale, ',.1f')} {unit}"
    return f"{size:.0f} B"


def count_text(number: int, noun: str, plural: str | None = None) -> str:
    """Return a count such as "1 GPU", "1,024 files" or, with its plural given, "2 batches"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def duration_text(duration_s: float | None) -> str:
    """Return a duration such as "3.9 ms", "42 ms", "8.1 s", "3m 20s" or "2h 05m"; "n/a" for None."""
    seconds = _finite(duration_s)
    if seconds is None:
        return _UNKNOWN
    if seconds < 0:
        return "-" + duration_text(-seconds)
    if 0 < seconds < 0.00995:
        return f"{digits_text(seconds * 1000, '.1f' if seconds >= 0.000_995 else '.2f')} ms"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    if seconds >= 3600 * _MAX_IN_DIGITS:
        return f"{digits_text(seconds / 3600, '.0f')}h"
    whole_s = round(seconds)
    if whole_s < 3600:
        return f"{whole_s // 60}m {whole_s % 60:02d}s"
    return f"{whole_s // 3600}h {whole_s % 3600 // 60:02d}m"


def typed_duration_text(duration_s: float) -> str:
    """Return a duration as typed in a flag, such as "15m" or "90.5s"; `parse_duration_s` reads it back."""
    if duration_s % 60 == 0:
        return f"{duration_s / 60:.0f}m"
    return f"{duration_s:.3f}".rstrip("0").rstrip(".") + "s"


def rate_text(per_s: float | None) -> str:
    """Return a rate with three or four significant digits, such as "1,234" or "0.57"; "n/a" for None."""
    rate = _finite(per_s) or 0.0
    return digits_text(per_s, ",.0f" if rate >= 99.95 else ".1f" if rate >= 9.995 else ".2f")


def short_rate_text(per_s: float) -> str:
    """Return a rate for a narrow column; from 10,000 on it has three digits, such as "10.3k" or "1.14M"."""
    if per_s < 9_999.5 or not math.isfinite(per_s):
        return rate_text(per_s)
    scale, unit = (1e3, "k") if per_s < 999_500 else (1e6, "M")
    return rate_text(per_s / scale) + unit


def hours_text(hours: float | None) -> str:
    """Return hours such as "1,234 h" or "17.8 h", less than one as "29m 33s" or "50.4 s"; "n/a" for None."""
    known = _finite(hours)
    if known is None or known < 0.9995:
        return duration_text(None if known is None else known * 3600)
    return f"{rate_text(known)} h"


def usd_text(usd: float | None) -> str:
    """Return dollars such as "$0.42", "$17.80" or "$1,234"; "n/a" for None."""
    known = _finite(usd)
    if known is None:
        return _UNKNOWN
    if 0 < known < 0.005:
        return "<$0.01"
    return f"${digits_text(known, ',.0f' if known >= 99.995 else '.2f')}"


def percent_text(share: float) -> str:
    """Return a share with up to three significant digits, such as "5%", "2.5%" or "0.05%"."""
    return share_text(share, ".3g")


def share_text(share: float, form: str = ".0f") -> str:
    """Return a share as a percentage, such as "5%".

    Args:
        share: the share, from 0 to 1.
        form: the format of the percentage.
    """
    percent = digits_text(share * 100, form)
    return percent if percent == _UNKNOWN else f"{percent}%"


def listed(names: Sequence[str], most: int, separator: str = ", ") -> str:
    """Join the first `most` names and the number of the rest: "a, b and 3 more"."""
    more = len(names) - most
    return separator.join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _finite(figure: float | None) -> float | None:
    """Return a finite figure as a float; None if it is unknown or not finite."""
    try:
        known = math.nan if figure is None else float(figure)
    except OverflowError:  # an integer too large for a float
        return None
    return known if math.isfinite(known) else None


def parse_duration_s(text: str) -> float:
    """Return the seconds in a duration such as "15m", "1h30m", "90s" or "90" (seconds).

    Raises:
        UsageError: the text is not a positive duration.
    """
    cleaned = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", cleaned):
        duration_s = float(cleaned)
    else:
        parts = _DURATION_PART.findall(cleaned)
        if not parts or "".join(number + unit for number, unit in parts) != cleaned:
            raise UsageError(f"not a duration: {text!r}; write it as 90s, 15m or 1h30m")
        duration_s = sum(float(number) * _DURATION_UNITS_S[unit] for number, unit in parts)
    if not 0 < duration_s < math.inf:
        raise UsageError(
            f"a duration must be positive and finite, got {text!r}; write it as 90s, 15m or 1h30m"
        )
    return duration_s
