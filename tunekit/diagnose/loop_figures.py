"""How far the figures of a measured loop can be trusted."""

from tunekit.diagnose.attribution import ratio
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
        yield Hit(
            f"time per batch changed by {trend:+.0%} within a window of {facts.loop.steady_time_s:.1f} s",
            "measure longer, with --window 30: caches warmed up, or heat or other programs slowed it down",
            abs(trend),
        )


@check("memory-grows", WARNING, "memory grows with each batch")
def _memory_grows(facts: LoopFacts) -> Hits:
    loop, each_bytes = facts.loop, facts.loop.growth_bytes_per_batch
    batches = loop.epoch_batches or 1000
    if batches * each_bytes >= GROWS_BYTES:
        yield Hit(
            f"{bytes_text(each_bytes)} a batch, or {bytes_text(batches * each_bytes)} in {batches:,}",
            "sum loss.item() or loss.detach(): summing loss itself keeps the graph of each batch",
            each_bytes,
        )
    each_bytes, peak_bytes = loop.growth_bytes_per_epoch or 0, loop.peak_reserved_bytes or 0
    if GROWING_EPOCHS * each_bytes >= GROWS_BYTES:
        most_bytes = min(loop.device.memory_bytes or 0, peak_bytes + loop.growth_bytes)
        yield Hit(
            f"torch reserves {bytes_text(each_bytes)} more in each, its tensors take no more: "
            f"{bytes_text(most_bytes)} of {bytes_text(loop.device.memory_bytes)} "
            f"in {(most_bytes - peak_bytes) // each_bytes} epochs (predicted)",
            "create CUDA streams once, before the first epoch: each has its own memory pool",
            each_bytes,
            message="GPU memory grows with each epoch",
        )


@check("parameters-frozen", INFO, "parameters were frozen while the loop was measured")
def _parameters_frozen(facts: LoopFacts) -> Hits:
    model = facts.loop.model
    share = ratio(model.frozen_bytes, model.parameters_bytes) if model else None
    if model and share is not None and share >= FROZEN_SHARE:
        yield Hit(
            f"{share:.0%} of {bytes_text(model.parameters_bytes)} require no gradient",
            "if the script unfreezes them later, steps then take longer and more memory: measure after that",
            share,
        )


@check("page-cache", WARNING, "most reads hit the page cache: a data set beyond it trains more slowly")
def _page_cache(facts: LoopFacts) -> Hits:
    """Find reads that the page cache answers, where an epoch may read more than it can keep."""
    host = facts.telemetry.host if facts.telemetry else HostTelemetry()
    read, share = host.rchar_bytes_per_s or 0.0, host.unfetched_share
    if read < READS_BYTES_PER_S or share is None or share < CACHED_SHARE:
        return
    ram_bytes = facts.host.ram_limit_bytes * facts.loop.world_size
    epoch = ""
    if facts.loop.epoch_time_s is not None:
        epoch_bytes = facts.loop.epoch_time_s * read
        if epoch_bytes <= FITS_SHARE * ram_bytes:
            return
        epoch = f"; an epoch reads about {bytes_text(epoch_bytes)} (predicted)"
    yield Hit(
        f"page-cache hits are {share:.0%} of {bytes_text(read)}/s read (/proc/PID/io); "
        f"{bytes_text(ram_bytes)} of RAM are usable{epoch}",
        "`tunekit doctor --data PATH` says how large it is and how fast its storage reads",
        share,
    )


@check("closure-broken", (WARNING, INFO), "loader and training alone do not add up to the whole loop")
def _closure_broken(facts: LoopFacts) -> Hits:
    seen, isolated = facts.closure, facts.measurement.isolated
    if seen is None or seen.meaning is None:
        return
    yield Hit(
        f"the loop takes {rate_text(1000 * seen.step_s)} ms per batch, training alone "
        f"{rate_text(1000 * seen.compute_s)} ms ({isolated.compute_batches:,} batches), the loader alone "
        f"{rate_text(1000 * seen.loader_s)} ms ({isolated.loader_batches:,}), noise {seen.slack:.0%}: "
        f"{seen.meaning}",
        "measure several epochs: --window"
        if seen.is_warmer
        else "use fewer workers or intra-op threads, stop other programs (`top` shows them), then measure "
        "again, longer: --window 30",
        severity=WARNING if seen.is_unexplained else INFO,
    )
