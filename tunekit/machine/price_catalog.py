"""Fetches current prices of rentable machines from gpuhunt's catalog."""

import contextlib
import importlib
import logging
import math
import os
import re
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from tunekit.errors import PricesError, UsageError
from tunekit.machine.profiles import match_device
from tunekit.records.prices import CatalogPrice, CatalogPrices
from tunekit.records.profile import Instance, Profile, SpotPrice

FOLDER_VARIABLE = "GPUHUNT_CATALOG_DIR"
"""gpuhunt's environment variable: a folder with a PROVIDER.csv each, used instead of the network."""

_PROVIDERS = {"aws": "aws", "azure": "azure", "gcp": "gcp", "lambda": "lambdalabs", "runpod": "runpod"}
"""Providers in the shipped profiles whose prices gpuhunt publishes, with gpuhunt's names for them; it has no
notebook services."""
_SILENT_S = 30.0
"""Network timeout: how long a server may stay silent."""
_CLUSTER = "runpod-cluster"
"""gpuhunt's flag of machines that are rented only as a cluster."""


class CatalogRow(NamedTuple):
    """One machine in one location, as the catalog lists it."""

    provider: str
    """The provider's name in the profiles."""
    name: str
    location: str
    """A region, or a zone in one."""
    gpus: int
    gpu_name: str
    usd_per_h: float
    is_spot: bool


@dataclass(frozen=True)
class Catalog:
    """A fetched catalog."""

    name: str
    """The name of its source, with the version."""
    rows: tuple[CatalogRow, ...]
    as_of: Mapping[str, str]
    """The date of each provider's catalog."""
    absent: tuple[str, ...] = ()
    """Providers whose catalog could not be fetched, or is empty."""


@dataclass(frozen=True)
class Refreshed:
    """A catalog's prices for the machines in the profiles."""

    prices: CatalogPrices
    without: tuple[str, ...]
    """Machines that it has no price for; they keep the shipped one."""
    absent: tuple[str, ...]
    """Providers whose catalog could not be fetched, or is empty."""


def fetch_catalog(today: date | None = None) -> Catalog:
    """Return gpuhunt's current catalog, or the one in the folder $GPUHUNT_CATALOG_DIR.

    Args:
        today: the date to assume for a catalog without one; by default today's, in UTC.

    Raises:
        UsageError: gpuhunt is not installed.
        PricesError: no provider's catalog could be fetched.
    """
    try:
        gpuhunt = importlib.import_module("gpuhunt")
    except ImportError as error:
        raise UsageError(
            "current prices come from gpuhunt, which is not installed; pip install gpuhunt"
        ) from error
    # gpuhunt logs a traceback for each provider that fails; the error below reports the failure once.
    logging.getLogger("gpuhunt").addHandler(logging.NullHandler())
    folder = os.environ.get(FOLDER_VARIABLE)
    theirs = gpuhunt.Catalog(balance_resources=False, auto_reload=False)
    if folder is None:
        before = socket.getdefaulttimeout()
        socket.setdefaulttimeout(_SILENT_S)
        try:
            theirs.load()
        except Exception as error:  # the network and a malformed reply may raise anything
            raise PricesError(_no_prices("the network", str(error.__cause__ or error))) from error
        finally:
            socket.setdefaulttimeout(before)
    rows: list[CatalogRow] = []
    dates, reasons = dict[str, str](), ["its files have no machine with a GPU"]
    latest = today or datetime.now(UTC).date()
    for provider, name in _PROVIDERS.items():
        try:
            items = theirs.query(provider=name, min_gpu_count=1)
        except Exception as error:
            reasons.append(str(error))
            continue
        if items:
            rows += filter(None, (_row(provider, one) for one in items))
            dates[provider] = min(_day(theirs, name, folder) or latest, latest).isoformat()
    if not rows:
        raise PricesError(_no_prices(f"{FOLDER_VARIABLE}={folder}" if folder else "the network", reasons[-1]))
    absent = tuple(provider for provider in _PROVIDERS if provider not in dates)
    return Catalog(f"gpuhunt {version('gpuhunt')}", tuple(rows), dates, absent)


def _no_prices(where: str, reason: str) -> str:
    return (
        f"gpuhunt got no current prices from {where} ({' '.join(reason.split())}); prices are unchanged; "
        f"try again with network access, or set {FOLDER_VARIABLE} to a folder with gpuhunt's files "
        "(aws.csv, gcp.csv, ...)"
    )


def _row(provider: str, item: Any) -> CatalogRow | None:
    """Convert one of gpuhunt's items; None if it has no price or is a cluster."""
    if not math.isfinite(item.price) or item.price <= 0 or _CLUSTER in item.flags:
        return None
    gpu_name = item.gpu_name or ""
    return CatalogRow(
        provider, item.instance_name, item.location, item.gpu_count, gpu_name, item.price, item.spot
    )


def _day(theirs: Any, name: str, folder: str | None) -> date | None:
    """Return the date of a provider's catalog: the start of its version, or when its file was written."""
    if folder is not None:
        written_s = (Path(folder) / f"{name}.csv").stat().st_mtime
        return datetime.fromtimestamp(written_s, UTC).date()
    found = re.match(r"(\d{4})(\d\d)(\d\d)(?!\d)", theirs.catalog[name].version)
    with contextlib.suppress(ValueError):
        return date(*map(int, found.groups())) if found else None
    return None


# --- matching its rows with the profiles' machines -------------------------------------------


def matched_prices(catalog: Catalog, profiles: Iterable[Profile]) -> Refreshed:
    """Return a catalog's prices for the machines in the profiles.

    A machine with a known region gets the price there, any other machine the price in the cheapest region.

    Args:
        catalog: the fetched catalog.
        profiles: the shipped profiles.
    """
    prices, without = [], []
    for profile in profiles:
        for machine in profile.instances:
            own = [row for row in catalog.rows if _is_of(row, machine, profile)]
            price = _price(own, machine, profile, catalog.as_of)
            if price is None:
                without.append(machine.full_name)
            else:
                prices.append(price)
    return Refreshed(
        CatalogPrices(catalog=catalog.name, prices=tuple(prices)), tuple(without), catalog.absent
    )


def _is_of(row: CatalogRow, machine: Instance, profile: Profile) -> bool:
    """Return whether a row is this machine of the profile, in any location."""
    if (row.provider, row.gpus) != (machine.provider, machine.gpus):
        return False
    if row.provider == "runpod":
        # Rows are named after the GPU; a location is a secure data center (EU-RO-1) or a country.
        if ("secure" in machine.name.lower()) != ("-" in row.location):
            return False
        return match_device(row.name, {profile.id: profile}) is not None
    if row.provider == "azure":
        return row.name == f"Standard_{machine.name}"
    name, _, gpu_name = machine.name.partition(" + ")
    return row.name == name and gpu_name in ("", row.gpu_name)


def _price(
    rows: list[CatalogRow], machine: Instance, profile: Profile, as_of: Mapping[str, str]
) -> CatalogPrice | None:
    """Return a machine's prices in one region; None if the rows have none."""
    here = [row for row in rows if machine.region in (None, _region(row))]
    on_demand = min((row for row in here if not row.is_spot), key=_price_and_place, default=None)
    cheapest = on_demand or min(here, key=_price_and_place, default=None)
    if cheapest is None:
        return None
    region, day = _region(cheapest), as_of[machine.provider]
    spot = [row for row in here if row.is_spot and _region(row) == region]
    return CatalogPrice(
        profile_id=profile.id,
        provider=machine.provider,
        name=machine.name,
        region=region,
        usd_per_h=on_demand.usd_per_h if on_demand else None,
        spot=_spot_price(spot, day) if spot else None,
        as_of=day,
    )


def _price_and_place(row: CatalogRow) -> tuple[float, str]:
    return row.usd_per_h, row.location


def _spot_price(rows: list[CatalogRow], day: str) -> SpotPrice:
    prices = [row.usd_per_h for row in rows]
    zones = ", ".join(sorted({row.location for row in rows}))
    return SpotPrice(low_usd_per_h=min(prices), high_usd_per_h=max(prices), as_of=day, where=zones)


def _region(row: CatalogRow) -> str:
    """Return the region of a row; Google's rows name a zone (us-central1-a)."""
    return re.sub(r"-[a-z]$", "", row.location) if row.provider == "gcp" else row.location
