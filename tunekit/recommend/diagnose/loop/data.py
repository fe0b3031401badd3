"""Training waits for data: that it does, and why."""

from tunekit.recommend.diagnose.loop.attribution import Bound, ratio
from tunekit.recommend.diagnose.loop.facts import LoopFacts
from tunekit.recommend.diagnose.loop.gains import (
    boundary_gain,
    capped,
    data_gain,
    without,
    workers_gain,
)
from tunekit.records.finding import Finding, Severity
from tunekit.units import MIB, bytes_text, count_text, duration_text, rate_text

_COMPUTES_SHARE = 0.7
"""Of making a batch on a CPU: the rest is too little for storage to matter."""
_FROM_STORAGE_BYTES_PER_S = 1 * MIB
"""Less is logs and modules, not a data set."""
_SLOW_FIRST = 5.0
_SLOW_FIRST_S = 0.2
"""A first batch is slow when it is many times the mean, and long enough for its epoch to feel it."""
_UNPICKLES_SHARE = 0.5
_FASTER_DATA = "keep the data on a local disk and in few large files"
_FELT_SHARE = 0.05
"""Of the step, below which mending would not show beyond the noise."""


def data_findings(facts: LoopFacts) -> list[Finding]:
    """Return whether training waits for data, then the causes that the figures show."""
    found = [_slow_first_batch(facts), _unpickling(facts)]
    if facts.bound is Bound.DATA:
        found = [_data_bound(facts), _making(facts), *found]
    return [finding for finding in found if finding is not None]


def _data_bound(facts: LoopFacts) -> Finding:
    loop = facts.loop
    own_process = loop.num_workers == 0
    stall = facts.attribution.stall
    assert stall is not None, "a loop is data-bound by its stall"
    told = [
        f"{stall.share:.0%} of each step goes by until its batch is there: {rate_text(stall.batch_ms)} of "
        f"{rate_text(facts.attribution.step_ms)} ms ({stall.source})"
    ]
    floors = facts.details.floors
    samples = loop.steady_samples / loop.steady_batches
    if floors is not None and floors.loader_step_s is not None and floors.compute_step_s is not None:
        told.append(
            f"the loader alone makes {_rate(samples, floors.loader_step_s)} samples/s, training alone takes "
            f"{_rate(samples, floors.compute_step_s)}"
        )
    if own_process:
        told.append(f"num_workers is 0, {count_text(facts.host.cpus, 'CPU')} may be used")
    else:
        told.append(
            f"{count_text(loop.num_workers, 'worker')}, {count_text(facts.host.cpus, 'CPU')} may be used"
        )
    return Finding(
        code="data-bound",
        severity=Severity.WARNING,
        message="the loop loads its data in its own process, so training stands still meanwhile"
        if own_process
        else "training waits for its data",
        evidence="; ".join(told),
        remedy=_more_or_cheaper(facts),
        value=stall.share,
        gain=_gain(facts),
    )


def _rate(samples: float, step_s: float) -> str:
    return rate_text(ratio(samples, step_s))


def _more_or_cheaper(facts: LoopFacts) -> str:
    """Return what makes batches come faster, as far as the CPUs go."""
    more = facts.more_workers
    cheaper = (
        "make a batch cheaper: smaller images, fewer or faster transforms, or store the data as the "
        "transforms leave it"
    )
    if facts.loop.num_workers == 0:
        at_once = ": they wait at the same time" if facts.making_waits else "; then measure again"
        return f"load in workers: {facts.set_knob('num_workers', more or 1)}{at_once}"
    if facts.making_waits:
        return f"{facts.set_knob('num_workers', more)}: they wait at the same time" if more else _FASTER_DATA
    if more is None or facts.cpus_are_taken:
        why = "every CPU is at work" if facts.cpus_are_taken else "there are as many workers as CPUs to spare"
        return f"{why}, so {cheaper}"
    return f"{facts.set_knob('num_workers', more)}, or {cheaper}"


def _gain(facts: LoopFacts) -> float | None:
    """Return what the remedy could bring: where it is a number of workers, no more than they can make."""
    more = facts.more_workers
    if facts.loop.num_workers == 0:
        return workers_gain(facts.measurement, more or 1)
    if facts.making_waits and more:
        return workers_gain(facts.measurement, more)
    return data_gain(facts.measurement)


def _making(facts: LoopFacts) -> Finding | None:
    """Find whether the loader's processes compute or wait."""
    work, batch_s, cpu_share = facts.work, facts.batch_s, facts.cpu_share
    if work is None or batch_s is None or cpu_share is None:
        return None
    who = "the loop's own process" if facts.loop.num_workers == 0 else "a worker"
    share = (
        f"making a batch takes {who} {duration_text(batch_s)}, {cpu_share:.0%} of it on a CPU "
        f"(clocks of the loader's processes over {work.batches:,} batches)"
    )
    if facts.making_waits:
        return _storage(facts, share)
    if cpu_share >= _COMPUTES_SHARE or facts.cpus_are_taken:
        return _cpu(facts, share)
    return None


def _cpu(facts: LoopFacts, share: str) -> Finding:
    taken = "; every CPU is at work (telemetry)" if facts.cpus_are_taken else ""
    return Finding(
        code="loader-cpu",
        severity=Severity.WARNING,
        message="making batches is CPU work, and too few CPUs do it",
        evidence=share + taken,
        remedy=_more_or_cheaper(facts),
        value=facts.cpu_share,
        gain=_gain(facts),
    )


def _storage(facts: LoopFacts, share: str) -> Finding:
    seen = facts.telemetry.host.read_bytes_per_s if facts.telemetry else None
    reads = seen is not None and seen >= _FROM_STORAGE_BYTES_PER_S
    more = facts.more_workers
    wait = ""
    if more and more > 1:
        wait = f"{facts.set_knob('num_workers', more)} waits for {more} batches at once, or "
    return Finding(
        code="loader-storage",
        severity=Severity.WARNING,
        message="making batches is waiting for storage, not computing"
        if reads
        else "making batches is waiting, not computing: for a file system, a network, a lock or a sleep",
        evidence=share + (f"; {bytes_text(seen)}/s come from storage (/proc/PID/io)" if reads else ""),
        remedy=(f"{wait}{_FASTER_DATA}; `tunekit doctor --data PATH` measures the storage"),
        value=facts.cpu_share,
        gain=_gain(facts),
    )


def _slow_first_batch(facts: LoopFacts) -> Finding | None:
    """Find workers that are slow to begin, when they begin again with each epoch."""
    loop, work, batch_s = facts.loop, facts.work, facts.batch_s
    if work is None or batch_s is None or not loop.num_workers or loop.persistent_workers:
        return None
    first_s = ratio(sum(worker.first_batch_s for worker in work.workers), len(work.workers))
    if first_s is None or first_s < _SLOW_FIRST * batch_s or first_s - batch_s < _SLOW_FIRST_S:
        return None
    seen_s = max(0.0, loop.boundary_s) if loop.boundary_s is not None else first_s
    return Finding(
        code="first-batch-slow",
        severity=Severity.WARNING,
        message="each worker is slow with its first batch, and each epoch starts new workers",
        evidence=(
            f"{duration_text(first_s)} for the first, {duration_text(batch_s)} for the others (mean of "
            f"{count_text(len(work.workers), 'worker')}, their own clocks)"
        ),
        remedy=(
            f"{facts.set_knob('persistent_workers', True)} keeps what they opened and imported; else open "
            "less in the data set's first item"
        ),
        value=first_s,
        gain=boundary_gain(loop, min(first_s - batch_s, seen_s)),
    )


def _unpickling(facts: LoopFacts) -> Finding | None:
    """Find a training process that is at work while it waits for its workers: it unpacks what they made."""
    loop = facts.loop
    share = ratio(loop.parts.fetch_cpu_s, loop.parts.data_wait_s)
    of_step = ratio(loop.parts.fetch_cpu_s, loop.steady_time_s)
    if not loop.num_workers or share is None or share < _UNPICKLES_SHARE:
        return None
    if of_step is None or of_step < _FELT_SHARE:
        return None
    fetch_s = loop.parts.fetch_cpu_s / loop.steady_batches
    piped_bytes = loop.batch.piped_bytes if loop.batch else None
    piped = f"; {bytes_text(piped_bytes)} of each batch are no tensors" if piped_bytes else ""
    advice = (
        "return tensors from the data set or the collate function, not arrays or lists: they are handed over "
        "in shared memory"
        if piped_bytes
        else "return few large tensors instead of many small ones"
    )
    if facts.is_cuda and not loop.pin_memory:
        advice += f"; {facts.set_knob('pin_memory', True)} moves it to a thread"
    exposed_s = facts.attribution.stall_share * loop.step_time_s
    return Finding(
        code="unpickling",
        severity=Severity.WARNING,
        message="the training process itself is busy unpacking the batches that its workers made",
        evidence=(
            f"{rate_text(1000 * fetch_s)} ms of CPU time per batch, {min(share, 1.0):.0%} of its wait "
            f"(clock of its thread){piped}"
        ),
        remedy=advice,
        value=min(share, 1.0),
        gain=capped(without(facts.measurement, min(fetch_s, exposed_s)), data_gain(facts.measurement)),
    )
