"""How far the figures of a measured loop can be trusted."""

from tunekit.diagnose.attribution import closure_text, isolated_rates
from tunekit.diagnose.loop import LoopFacts
from tunekit.diagnose.policy import CACHED_SHARE, DRIFT, FITS_SHARE, READS_BYTES_PER_S
from tunekit.diagnose.registry import INFO, WARNING, Hit, Hits, check
from tunekit.units import bytes_text

_MOST_SAVED = 0.99
"""Of a batch's time; the line through a steep start ends below zero."""


@check("rate-drifts", WARNING, "the loop got faster or slower while it was measured")
def _rate_drifts(facts: LoopFacts) -> Hits:
    trend = facts.loop.rate_trend_relative
    if trend is None or abs(trend) < DRIFT:
        return
    slower = trend > 0
    share = trend if slower else min(_MOST_SAVED, trend / (trend / 2 - 1))  # of the start, not of the mean
    yield Hit(
        f"batches took {share:.0%} {'longer' if slower else 'less time'} at the end of a window of "
        f"{facts.loop.steady_time_s:.1f} s than at its start",
        "heat, memory that fills up or another program may slow it down: measure longer with --window 30"
        if slower
        else "caches were still warming up: measure longer with --window 30",
        abs(trend),
        message=f"the loop got {'slower' if slower else 'faster'} while it was measured",
    )


@check(
    "page-cache",
    WARNING,
    "most reads are page-cache hits: if the data set does not fit into it, training will be slower than "
    "measured",
)
def _page_cache(facts: LoopFacts) -> Hits:
    """Find reads that the page cache answers, where an epoch may read more than it can keep."""
    host = facts.telemetry.host if facts.telemetry else None
    if host is None or host.rchar_bytes_per_s is None or host.rchar_bytes_per_s < READS_BYTES_PER_S:
        return
    share = host.unfetched_share
    if share is None or share < CACHED_SHARE:
        return
    ram_bytes = facts.host.ram_limit_bytes * facts.loop.world_size
    epoch = ""
    if facts.loop.epoch_time_s is not None:
        epoch_bytes = facts.loop.epoch_time_s * host.rchar_bytes_per_s
        if epoch_bytes <= FITS_SHARE * ram_bytes:
            return
        epoch = f"; an epoch reads about {bytes_text(epoch_bytes)} (predicted)"
    yield Hit(
        f"page-cache hits are {share:.0%} of {bytes_text(host.rchar_bytes_per_s)}/s read "
        f"(/proc/PID/io); {bytes_text(ram_bytes)} of RAM are usable{epoch}",
        "`tunekit doctor --data PATH` says how large it is and how fast its storage reads",
        share,
    )


@check(
    "closure-broken",
    (WARNING, INFO),
    "loader and training alone do not add up to the loop: predicted gains are less sure",
)
def _closure_broken(facts: LoopFacts) -> Hits:
    seen, isolated = facts.closure, isolated_rates(facts.measurement)
    if seen is None or seen.meaning is None or isolated is None:
        return
    yield Hit(
        f"{closure_text(seen)} ({isolated.compute_batches:,} and {isolated.loader_batches:,} batches alone, "
        f"within {seen.slack:.0%}): {seen.meaning}",
        "use fewer workers or intra-op threads, stop other programs (`top` shows them), then measure again, "
        "longer: --window 30",
        message="the loop is far slower than loader and training alone: neither explains it"
        if seen.is_unexplained
        else None,
        severity=WARNING if seen.is_unexplained else INFO,
    )
