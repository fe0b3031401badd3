"""What lies between the epochs, and epochs too short for their loader."""

from tunekit.recommend.diagnose.loop.attribution import ratio
from tunekit.recommend.diagnose.loop.facts import LoopFacts
from tunekit.recommend.diagnose.loop.gains import boundary_gain
from tunekit.records.finding import Finding, Severity
from tunekit.units import count_text, duration_text

_COSTLY_SHARE = 0.03
"""Of the epoch; less is within the noise of a good machine."""
_FEW_PER_WORKER = 3
"""Batches that each worker should make in an epoch, or starting it takes longer than using it."""


def epoch_findings(facts: LoopFacts) -> list[Finding]:
    """Return what epochs cost beyond their steps."""
    found = [_costly(facts), _short(facts)]
    return [finding for finding in found if finding is not None]


def _costly(facts: LoopFacts) -> Finding | None:
    loop = facts.loop
    epoch_s, boundary_s = loop.epoch_time_s, loop.boundary_s
    if epoch_s is None or boundary_s is None:
        return None
    share = ratio(boundary_s, epoch_s)
    if share is None or share <= _COSTLY_SHARE:
        return None
    restarts = loop.num_workers > 0 and not loop.persistent_workers
    if restarts:
        remedy = f"{facts.set_knob('persistent_workers', True)} keeps the workers from epoch to epoch"
    elif loop.num_workers:
        remedy = (
            "the workers stay, so it is the queue that fills anew, or what the script does between epochs; "
            "longer epochs have fewer boundaries"
        )
    else:
        remedy = "look at what the script does between epochs; longer epochs have fewer boundaries"
    timed = count_text(loop.boundaries_seen, "boundary", "boundaries")
    return Finding(
        code="costly-epochs",
        severity=Severity.WARNING,
        message="each epoch starts its workers anew, and training waits for them"
        if restarts
        else "a clear share of each epoch goes by at its boundary",
        evidence=(
            f"{duration_text(boundary_s)} at each boundary, {share:.0%} of an epoch of "
            f"{duration_text(epoch_s)} (host clock, {timed} timed)"
        ),
        remedy=remedy,
        value=share,
        gain=boundary_gain(loop, boundary_s),
    )


def _short(facts: LoopFacts) -> Finding | None:
    loop = facts.loop
    if loop.epoch_batches is None or not loop.num_workers:
        return None
    queue = loop.num_workers * (loop.prefetch_factor or 0)
    few = _FEW_PER_WORKER * loop.num_workers
    if loop.epoch_batches >= max(queue, few):
        return None
    fewer = max(1, loop.epoch_batches // _FEW_PER_WORKER)
    ways = [facts.set_knob("num_workers", fewer)] if fewer < loop.num_workers else []
    if not loop.persistent_workers:
        ways.append(facts.set_knob("persistent_workers", True))
    ways.append("longer epochs, such as a sampler that goes over the data several times")
    return Finding(
        code="short-epochs",
        severity=Severity.INFO,
        message="an epoch is over before its loader is up to speed",
        evidence=(
            f"{count_text(loop.epoch_batches, 'batch', 'batches')} per epoch; "
            f"{count_text(loop.num_workers, 'worker')} with prefetch {loop.prefetch_factor} queue {queue:,}"
        ),
        remedy=", or ".join(ways),
        value=loop.epoch_batches,
    )
