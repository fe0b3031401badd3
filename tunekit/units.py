"""Quantities as people read and write them: bytes, seconds, rates, hours, dollars.

Sizes are binary (1 GiB = 2**30 bytes) because that is what drivers, cgroups and torch report.
"""

import math
import re

from tunekit.errors import UsageError

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

_DURATION_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)([smhd])")


def bytes_text(size_bytes: float | None) -> str:
    """Return a size such as "512 B", "64.0 MiB" or "22.5 GiB"; "n/a" for None."""
    if size_bytes is None:
        return "n/a"
    magnitude = abs(size_bytes)
    for unit, scale in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if magnitude >= scale * (1 - 0.05 / 1024):  # 1023.96 KiB reads as 1.0 MiB, not as 1024.0 KiB
            return f"{size_bytes / scale:.1f} {unit}"
    return f"{size_bytes:.0f} B"


def count_text(number: int, noun: str, plural: str | None = None) -> str:
    """Return a count such as "1 GPU", "1,024 files" or, with its plural given, "2 batches"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def duration_text(duration_s: float | None) -> str:
    """Return a duration such as "42 ms", "8.1 s", "3m 20s" or "2h 05m"; "n/a" for None."""
    if duration_s is None:
        return "n/a"
    if duration_s < 0:
        return "-" + duration_text(-duration_s)
    if duration_s < 0.9995:
        return f"{duration_s * 1000:.0f} ms"
    if duration_s < 59.95:
        return f"{duration_s:.1f} s"
    whole_s = round(duration_s)
    if whole_s < 3600:
        return f"{whole_s // 60}m {whole_s % 60:02d}s"
    return f"{whole_s // 3600}h {whole_s % 3600 // 60:02d}m"


def rate_text(per_s: float | None) -> str:
    """Return a rate with three or four significant digits, such as "1,234" or "0.57"."""
    if per_s is None:
        return "n/a"
    if per_s >= 99.95:
        return f"{per_s:,.0f}"
    return f"{per_s:.1f}" if per_s >= 9.995 else f"{per_s:.2f}"


def short_rate_text(per_s: float) -> str:
    """Return a rate for a narrow column: from 10,000 on with three digits, such as "10.3k" or "1.14M"."""
    if per_s < 9_999.5:
        return rate_text(per_s)
    scale, unit = (1e3, "k") if per_s < 999_500 else (1e6, "M")
    return rate_text(per_s / scale) + unit


def hours_text(hours: float | None) -> str:
    """Return hours with three significant digits or all whole ones, such as "1,234", "17.8" or "0.012"."""
    if hours is None:
        return "n/a"
    if hours >= 0.9995:
        return rate_text(hours)
    return f"{hours:.2g}" if hours >= 0.0005 else f"{hours:.0e}"


def usd_text(usd: float | None) -> str:
    """Return dollars such as "$0.42", "$17.80" or "$1,234"; "n/a" for None."""
    if usd is None:
        return "n/a"
    if 0 < usd < 0.005:
        return "<$0.01"
    return f"${usd:,.0f}" if usd >= 99.995 else f"${usd:.2f}"


def percent_text(share: float) -> str:
    """Return a share with up to three significant digits, such as "5%", "2.5%" or "0.05%"."""
    return f"{share * 100:.3g}%"


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
