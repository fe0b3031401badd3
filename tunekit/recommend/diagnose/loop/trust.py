"""How far the figures of a measured loop can be trusted."""

from tunekit.recommend.diagnose.loop.attribution import closure_text, floors_of
from tunekit.recommend.diagnose.loop.facts import LoopFacts
from tunekit.records.finding import Finding, Severity
from tunekit.records.measurement import LoopMeasurement
from tunekit.units import MIB, bytes_text

_DRIFT = 0.05
"""A loop that changes less within its window is steady enough for its rate."""
_CACHED_SHARE = 0.8
"""Of what is read: with less, the figures already hold a good deal of the storage's own speed."""
_READS_BYTES_PER_S = 10 * MIB
"""Slower reads are served in time by any storage."""
_FITS_SHARE = 0.5
"""Of the RAM limit: what an epoch reads below it stays in the page cache beside the training itself."""


def trust_findings(facts: LoopFacts) -> list[Finding]:
    """Return what makes a rate less sure, or other than it will be."""
    found = [_drifting(facts.loop), _cached(facts), _broken_closure(facts)]
    return [finding for finding in found if finding is not None]


def _cached(facts: LoopFacts) -> Finding | None:
    """Find reads that the page cache answers, where an epoch may read more than it can keep."""
    host = facts.telemetry.host if facts.telemetry else None
    if host is None or host.rchar_bytes_per_s is None or host.rchar_bytes_per_s < _READS_BYTES_PER_S:
        return None
    share = host.unfetched_share
    if share is None or share < _CACHED_SHARE:
        return None
    ram_bytes = facts.host.ram_limit_bytes * facts.loop.world_size
    epoch_s = facts.loop.epoch_time_s
    epoch_bytes = None if epoch_s is None else epoch_s * host.rchar_bytes_per_s
    if epoch_bytes is not None and epoch_bytes <= _FITS_SHARE * ram_bytes:
        return None
    epoch = "" if epoch_bytes is None else f"; an epoch reads about {bytes_text(epoch_bytes)} (predicted)"
    return Finding(
        code="page-cache",
        severity=Severity.WARNING,
        message=(
            "the page cache answers most reads: if the data set does not fit into it, training will be "
            "slower than measured"
        ),
        evidence=(
            f"{share:.0%} of {bytes_text(host.rchar_bytes_per_s)}/s read came from no storage "
            f"(/proc/PID/io); {bytes_text(ram_bytes)} of RAM may be used{epoch}"
        ),
        remedy="`tunekit doctor --data PATH` says how large it is and how fast its storage reads",
        value=share,
    )


def _broken_closure(facts: LoopFacts) -> Finding | None:
    seen = facts.closure
    if seen is None or seen.meaning is None:
        return None
    floors = floors_of(facts.measurement)
    batches = f"{floors.compute_batches:,} and {floors.loader_batches:,} batches" if floors else "few batches"
    return Finding(
        code="closure-broken",
        severity=Severity.INFO,
        message="the loop's halves do not add up to the loop: what mending either would bring is less sure",
        evidence=f"{closure_text(seen)} ({batches} alone, within {seen.slack:.0%}): {seen.meaning}",
        remedy="measure again on a quiet machine, longer: --window 30"
        if not facts.loop.num_workers or seen.step_s < max(seen.compute_s, seen.loader_s)
        else "fewer workers, or fewer threads in each, leave the training its CPUs",
    )


def _drifting(loop: LoopMeasurement) -> Finding | None:
    trend = loop.rate_trend_relative
    if trend is None or abs(trend) < _DRIFT:
        return None
    slower = trend > 0
    return Finding(
        code="rate-drifts",
        severity=Severity.WARNING,
        message=f"the loop got {'slower' if slower else 'faster'} while it was measured",
        evidence=(
            f"batches took {abs(trend):.0%} {'longer' if slower else 'less time'} at the end of a window of "
            f"{loop.steady_time_s:.1f} s than at its start"
        ),
        remedy=(
            "heat, a filling memory or another program may slow it down: measure longer with --window 30"
            if slower
            else "caches were still warming up: measure longer with --window 30"
        ),
        value=abs(trend),
    )
