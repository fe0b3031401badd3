"""Prices from a catalogue, which replace those in the shipped profiles."""

from typing import Literal, Self

from pydantic import Field, PositiveFloat, model_validator

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.profile import Instance, Profile, SpotPrice

_DAY = r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"


class CatalogPrice(Record):
    """The catalogue's price of one machine of a profile."""

    profile_id: str
    provider: str
    name: str
    region: str | None
    """The region with these prices; None if it costs the same everywhere."""
    usd_per_h: PositiveFloat | None
    """On-demand price of the whole machine; None if the catalogue has only a spot price."""
    spot: SpotPrice | None = None
    as_of: str = Field(pattern=_DAY)
    """Date of the provider's catalogue."""

    @model_validator(mode="after")
    def _has_a_price(self) -> Self:
        if self.usd_per_h is None and self.spot is None:
            raise ValueError(f"{self.provider} {self.name} has no price at all")
        return self


class CatalogPrices(Record):
    """All prices taken from one version of a catalogue."""

    schema_version: Literal[1] = SCHEMA_VERSION
    catalog: str
    """Name and version of the catalogue, such as gpuhunt 0.1.34."""
    prices: tuple[CatalogPrice, ...]

    def over(self, profile: Profile) -> Profile:
        """Return a profile in which these prices replace its own, unless its own are newer."""
        machines = [self._repriced(one, self.price_of(profile, one)) for one in profile.instances]
        return profile.changed(instances=tuple(machines))

    def price_of(self, profile: Profile, machine: Instance) -> CatalogPrice | None:
        """Return the prices of one of a profile's machines, or None."""
        of = (profile.id, machine.provider, machine.name)
        return next((one for one in self.prices if (one.profile_id, one.provider, one.name) == of), None)

    def _repriced(self, machine: Instance, price: CatalogPrice | None) -> Instance:
        if price is None:
            return machine
        values: dict[str, object] = {}
        # Days, months and years compare as strings: 2026 is before 2026-11-23.
        if price.usd_per_h is not None and price.as_of >= machine.as_of:
            values = {"usd_per_h": price.usd_per_h, "as_of": price.as_of, "region": price.region}
        is_refreshed = bool(values)
        if price.spot is not None and (machine.spot is None or price.as_of >= machine.spot.as_of):
            values["spot"] = price.spot
        if not values:
            return machine
        source = f"{self.catalog}, its catalogue of {price.as_of}"
        if not is_refreshed:
            source += f"; on demand: {machine.source}"
        elif machine.spot is not None and "spot" not in values:
            source += f"; spot: {machine.source}"
        return machine.changed(**values, source=source, is_refreshed=is_refreshed)
