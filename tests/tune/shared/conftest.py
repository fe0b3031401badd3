"""Places where the hosts of a shared search meet."""

from shared_places import claims_of, clock, place

__all__ = ["claims_of", "clock", "place"]
