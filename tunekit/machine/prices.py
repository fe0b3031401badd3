"""Loads and saves refreshed prices, which override those of the shipped profiles."""

import contextlib
import os
from pathlib import Path

from tunekit.errors import DamagedRecordError, NewerRecordError, UsageError
from tunekit.records.codec import read_json, write_json
from tunekit.records.prices import CatalogPrices

PRICES_FILE = "~/.config/tunekit/prices.json"
"""The file that a refresh writes, as shown to the user."""


def prices_path() -> Path | None:
    """Return the path of the refreshed prices, which may not exist; None for a user without a home folder."""
    with contextlib.suppress(RuntimeError):  # a container's user may have none
        return Path(PRICES_FILE).expanduser()
    return None


def load_prices() -> CatalogPrices | None:
    """Return the prices that a refresh saved; None if there are none.

    Raises:
        DamagedRecordError: the file can't be read.
        NewerRecordError: a newer tunekit wrote it.
    """
    path = prices_path()
    if path is None or not os.path.exists(path):  # noqa: PTH110 - which another user's home doesn't make raise
        return None
    try:
        return read_json(path, CatalogPrices)
    except NewerRecordError:
        raise
    except DamagedRecordError as error:
        raise DamagedRecordError(f"{error}; delete it to go back to the shipped prices") from error


def save_prices(prices: CatalogPrices) -> Path:
    """Replace the prices of an earlier refresh, and return the file's path.

    Raises:
        UsageError: there is no home folder, or it can't be written to.
    """
    path = prices_path()
    if path is None:
        raise UsageError("this user has no home folder to save prices in; set HOME to one")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, prices)
    except OSError as error:
        raise UsageError(
            f"prices can't be saved in {str(path.parent)!r} ({error.strerror}); make it writable"
        ) from error
    return path
