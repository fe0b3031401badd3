"""Prices of a catalogue over those of a profile: the newer of both holds, on demand and on spot apart."""

from typing import Any

import pytest
from build_plans import instance, spot_price
from build_records import profile
from pydantic import ValidationError

from tunekit.records.prices import CatalogPrice, CatalogPrices
from tunekit.records.profile import Instance


def price(**changes: Any) -> CatalogPrice:
    values: dict[str, Any] = {
        "profile_id": "a10g",
        "provider": "aws",
        "name": "g5.xlarge",
        "region": "us-east-2",
        "usd_per_h": 2.0,
        "as_of": "2026-11-20",
    }
    return CatalogPrice(**values | changes)


def laid_over(machine: Instance, **changes: Any) -> Instance:
    prices = CatalogPrices(catalog="gpuhunt 1", prices=(price(**changes),))
    (result,) = prices.over(profile(instances=(machine,))).instances
    return result


@pytest.mark.parametrize(
    ("own", "is_newer"),
    [("2026-11-20", True), ("2026-11-21", False), ("2026-11", True), ("2026", True), ("2026-12", False)],
)
def test_the_newer_price_holds(own: str, is_newer: bool):
    machine = instance(as_of=own)
    found = laid_over(machine)
    if is_newer:
        expected = (2.0, "2026-11-20", "us-east-2", True)
        assert (found.usd_per_h, found.as_of, found.region, found.is_refreshed) == expected
    else:
        assert found == machine


@pytest.mark.parametrize("other", [{"profile_id": "t4"}, {"provider": "gcp"}, {"name": "g5.2xlarge"}])
def test_the_price_of_another_machine_changes_nothing(other: dict[str, str]):
    machine = instance(as_of="2025")
    assert laid_over(machine, **other) == machine


def test_an_old_spot_price_stays_beside_a_new_one_on_demand_with_its_own_source():
    found = laid_over(instance(as_of="2025", spot=spot_price(as_of="2024"), source="a price list"))
    assert found.spot == spot_price(as_of="2024")
    assert found.source == "gpuhunt 1, its catalogue of 2026-11-20; spot: a price list"


def test_a_spot_price_alone_leaves_the_one_on_demand_and_where_it_is_from():
    new = spot_price(as_of="2026-11-20")
    found = laid_over(instance(as_of="2025", source="a price list"), usd_per_h=None, spot=new)
    assert (found.usd_per_h, found.as_of, found.region) == (1.006, "2025", "us-east-1")
    assert (found.spot, found.is_refreshed) == (new, False)
    assert found.source == "gpuhunt 1, its catalogue of 2026-11-20; on demand: a price list"


def test_a_machine_without_any_price_is_no_row():
    with pytest.raises(ValidationError, match="has no price at all"):
        price(usd_per_h=None)
