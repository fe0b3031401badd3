"""Checks how far the figures of a measured loop can be trusted."""

import math

from tunekit.diagnose.attribution import Gap, ratio
from tunekit.diagnose.loop import LoopFacts
from tunekit.diagnose.policy import (
    CACHED_SHARE,
    DRIFT,
    FITS_SHARE,
    FROZEN_SHARE,
    GROWS_BYTES,
    READS_BYTES_PER_S,
)
from tunekit.diagnose.registry import INFO, WARNING, Hit, Hits, check
from tunekit.records.measurement import GROWING_EPOCHS, HostTelemetry
from tunekit.units import bytes_text, rate_text


@check("rate-drifts", WARNING, "the speed of the loop drifted while it was measured")
def _rate_drifts(facts: LoopFacts) -> Hits:
    trend = facts.loop.rate_trend_relative
    if trend is not None and abs(trend) >= DRIFT:
        seen = f"time per batch changed by {trend:+.0%} within a window of {facts.loop.steady_time_s:.1f} s"
        yield Hit(seen, "measure longer, with --window 30", abs(trend))


@check("memory-grows", WARNING, "memory grows as the loop runs")
def _memory_grows(facts: LoopFacts) -> Hits:
    loop, each_bytes = facts.loop, facts.loop.growth_bytes_per_batch
    batches = loop.epoch_batches or 1000
    if batches * each_bytes >= GROWS_BYTES:
        yield Hit(
            f"{bytes_text(each_bytes)} per batch, {bytes_text(batches * each_bytes)} in {batches:,} batches",
            "sum loss.item() or loss.detach(): summing loss itself keeps the graph of each batch",
            each_bytes,
        )
    each_bytes = loop.growth_bytes_per_epoch or 0
    if GROWING_EPOCHS * each_bytes >= GROWS_BYTES:
        seen = f"torch reserves {bytes_text(each_bytes)} more in each epoch, and its tensors take no more"
        remedy = "create CUDA streams once, before the first epoch: each has its own memory pool"
        yield Hit(seen, remedy, each_bytes)


@check("trains-apart", WARNING, "several processes train at once, each on its own: the figures are of one")
def _trains_apart(facts: LoopFacts) -> Hits:
    if (count := facts.loop.processes_apart) > 1:
        yield Hit(
            f"{count} processes of the command train, and none joined a process group",
            "compare configs by their speedup; the rate of all processes together is not measured",
        )


@check("parameters-frozen", INFO, "parameters were frozen while the loop was measured")
def _parameters_frozen(facts: LoopFacts) -> Hits:
    model = facts.loop.model
    share = ratio(model.frozen_bytes, model.parameters_bytes) if model else None
    if model and share is not None and share >= FROZEN_SHARE:
        seen = f"{share:.0%} of {bytes_text(model.parameters_bytes)} require no gradient"
        yield Hit(seen, "if the script unfreezes them later, measure after that", share)


@check("page-cache", WARNING, "most reads hit the page cache: a data set beyond it trains more slowly")
def _page_cache(facts: LoopFacts) -> Hits:
    """Find reads served by the page cache, if an epoch may read more than the cache can hold."""
    host = facts.record.telemetry.host if facts.record.telemetry else HostTelemetry()
    read, share = host.rchar_bytes_per_s or 0.0, host.unfetched_share or 0.0
    ram_bytes = facts.host.ram_limit_bytes * facts.loop.world_size
    epoch_s = math.inf if facts.loop.epoch_time_s is None else facts.loop.epoch_time_s
    if read >= READS_BYTES_PER_S and share >= CACHED_SHARE and epoch_s * read > FITS_SHARE * ram_bytes:
        yield Hit(
            f"page-cache hits are {share:.0%} of {bytes_text(read)}/s read (/proc/PID/io); "
            f"{bytes_text(ram_bytes)} of RAM are usable",
            "`tunekit doctor --data PATH` says how large it is and how fast its storage reads",
            share,
        )


@check(
    "closure-broken",
    (WARNING, INFO),
    "loader and training alone do not add up to the whole loop",
    ("MIN_SLACK",),
)
def _closure_broken(facts: LoopFacts) -> Hits:
    seen = facts.closure
    if seen is not None and seen.gap is not None:
        yield Hit(
            f"the loop takes {rate_text(1000 * seen.step_s)} ms per batch, training alone "
            f"{rate_text(1000 * seen.compute_s)} ms, the loader alone {rate_text(1000 * seen.loader_s)} ms, "
            f"noise {seen.slack:.0%}: {seen.gap}",
            "measure several epochs: --window 30"
            if seen.gap is Gap.CACHED
            else "use fewer workers or intra-op threads, " * bool(facts.loop.num_workers)
            + "stop other programs, measure longer: --window 30",
            severity=WARNING if seen.is_unexplained else INFO,
        )
