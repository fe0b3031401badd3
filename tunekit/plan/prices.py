"""How old a price is."""

from datetime import date


def seen_on(as_of: str) -> date:
    """Return the day that a price was seen on; of a month or a year that is all that is known, the first day.

    Args:
        as_of: "2026-03-10", "2026-03" or "2026".

    Raises:
        ValueError: there is no such day.
    """
    year, month, day = (*(int(part) for part in as_of.split("-")), 1, 1)[:3]
    return date(year, month, day)


def is_stale(as_of: str, today: date, stale_after_days: int) -> bool:
    """Return whether a price may be older than it should be; one of no real day is."""
    try:
        return (today - seen_on(as_of)).days > stale_after_days
    except ValueError:
        return True
