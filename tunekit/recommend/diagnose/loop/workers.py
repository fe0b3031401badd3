"""Workers that differ: from each other, or from batch to batch."""

from statistics import median

from tunekit.recommend.diagnose.loop.attribution import Bound, ratio
from tunekit.recommend.diagnose.loop.facts import LoopFacts
from tunekit.recommend.diagnose.loop.gains import capped, data_gain
from tunekit.records.config import USUAL_PREFETCH
from tunekit.records.finding import Finding, Severity
from tunekit.units import count_text, duration_text

_IMBALANCE = 1.5
"""Workers of one data set that is shuffled differ by a few percent."""
_LEAST_BATCHES_EACH = 5
_LEAST_BATCHES = 20
"""Fewer say nothing of the slowest hundredth."""
_TAIL_P99 = 4.0
_TAIL_SLOWEST = 10.0
_EXPOSED_SHARE = 0.02
"""Stalls below it are hidden well enough by what is prefetched."""


def worker_findings(facts: LoopFacts) -> list[Finding]:
    """Return what the loader's processes do unevenly."""
    found = [_imbalance(facts), _tail(facts)]
    return [finding for finding in found if finding is not None]


def _imbalance(facts: LoopFacts) -> Finding | None:
    workers = facts.work.workers if facts.work else ()
    means = [one.time_s / one.batches for one in workers if one.batches >= _LEAST_BATCHES_EACH]
    if not facts.loop.num_workers or len(means) < 2:
        return None
    slowest_s, usual_s = max(means), median(means)
    times = ratio(slowest_s, usual_s)
    if times is None or times < _IMBALANCE:
        return None
    evened = ratio(slowest_s, sum(means) / len(means))
    return Finding(
        code="worker-imbalance",
        severity=Severity.WARNING if facts.bound is Bound.DATA else Severity.INFO,
        message="one worker takes much longer for a batch than the others, and batches come in turn",
        evidence=(
            f"{duration_text(slowest_s)} per batch against {duration_text(usual_s)} of the median of "
            f"{count_text(len(means), 'worker')} (their own clocks)"
        ),
        remedy="give the workers shards of equal cost, or shuffle what each of them reads",
        value=times,
        gain=capped(evened, data_gain(facts.measurement)) if facts.bound is Bound.DATA else None,
    )


def _tail(facts: LoopFacts) -> Finding | None:
    work, loop = facts.work, facts.loop
    if work is None or not loop.num_workers or work.batches < _LEAST_BATCHES:
        return None
    p99 = ratio(work.p99_batch_s, work.median_batch_s)
    slowest = ratio(work.slowest_batch_s, work.median_batch_s)
    if p99 is None or slowest is None or (p99 < _TAIL_P99 and slowest < _TAIL_SLOWEST):
        return None
    if facts.attribution.stall_share < _EXPOSED_SHARE:
        return None
    prefetch = 2 * (loop.prefetch_factor or USUAL_PREFETCH)
    return Finding(
        code="batch-time-tail",
        severity=Severity.WARNING if facts.bound is Bound.DATA else Severity.INFO,
        message="a few batches take far longer than the rest, and those behind them wait in turn",
        evidence=(
            f"median {duration_text(work.median_batch_s)}, p99 {duration_text(work.p99_batch_s)}, slowest "
            f"{duration_text(work.slowest_batch_s)} of {work.batches:,} (clocks of the workers); "
            f"{facts.attribution.stall_share:.0%} of each step is stall ({facts.attribution.source})"
        ),
        remedy=(
            f"a longer queue hides them while RAM allows: {facts.set_knob('prefetch_factor', prefetch)}; or "
            "find the samples that take so long"
        ),
        value=max(p99, slowest),
        gain=data_gain(facts.measurement),
    )
