"""Checks for training that waits for data or for a CPU, and for costly epoch boundaries."""

import math
from collections.abc import Iterator

from tunekit.diagnose.attribution import Making, queued_share, ratio
from tunekit.diagnose.gains import boundary_gain, data_gain, loader_cap, smaller, without, workers_gain
from tunekit.diagnose.loop import LoopFacts
from tunekit.diagnose.policy import (
    ALL_CPUS_SHARE,
    COSTLY_SHARE,
    FELT_SHARE,
    MAX_CPUS_SHARE,
    ONE_BOUNDARY,
    STARVED_SHARE,
    SURE,
    UNPICKLES_SHARE,
)
from tunekit.diagnose.registry import WARNING, Hit, Hits, check
from tunekit.recommend.noise import t_quantile
from tunekit.records.attribution import LoaderWork
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.recommendation import Bound
from tunekit.units import bytes_text, count_text, duration_text, rate_text

_FREE_CPUS = "stop other programs, or use --wait-quiet"
_FASTER_DATA = "keep the data on a local disk and in few large files"
_STALLS, _WAITS = ("CLEAR_STALL_SHARE", "SMALL_STALL"), ("COMPUTES_SHARE", "WAITS_SHARE", "MOSTLY")
_CHEAPER_BATCHES = "use smaller images, fewer transforms, or data stored as the transforms leave it"


@check("data-bound", WARNING, "training waits for its data", _STALLS)
def _data_bound(facts: LoopFacts) -> Hits:
    if facts.bound is Bound.DATA:
        yield from _data_wait_hits(facts)


@check("data-wait", WARNING, "training waits for its data for part of each step", _STALLS)
def _data_wait(facts: LoopFacts) -> Hits:
    if facts.waits_for_data and facts.bound is not Bound.DATA:
        yield from _data_wait_hits(facts)


def _data_wait_hits(facts: LoopFacts) -> Hits:
    loop, stall = facts.loop, facts.attribution.stall
    if stall is not None:
        seen = (
            f"{stall.share:.0%} of step time is data wait: {rate_text(stall.batch_ms)} of "
            f"{rate_text(facts.attribution.step_ms)} ms ({stall.source}); "
            f"{count_text(loop.num_workers, 'worker')}, {count_text(facts.host.cpus, 'usable CPU')}"
        )
        yield _hit(facts, seen, stall.share)


def _hit(facts: LoopFacts, evidence: str, value: float | None) -> Hit:
    """Return a hit whose remedy makes batches faster, as far as the CPUs allow."""
    more, workers, most = facts.more_workers, facts.loop.num_workers, data_gain(facts.measurement)
    if workers and facts.making is Making.WAITING_FOR_CPU:
        return Hit(evidence, _FREE_CPUS, value, _free_cpus_gain(facts))
    cpus_are_taken = (facts.taken_share or 0.0) >= ALL_CPUS_SHARE
    if more is None or (workers and cpus_are_taken and not facts.is_fetch_waiting):
        faster = _FASTER_DATA if facts.is_fetch_waiting else f"more workers do not help: {_CHEAPER_BATCHES}"
        return Hit(evidence, faster, value, most)
    words, tried = facts.set_knob("num_workers", more), facts.tried("num_workers", more)
    is_for_workers = not workers or facts.is_fetch_waiting
    remedy = f"load in workers: {words}" if is_for_workers else f"{words}, or {_CHEAPER_BATCHES}"
    predicted = workers_gain(facts.measurement, more) if is_for_workers else most
    return Hit(evidence, remedy, value, tried.gain if tried else predicted, tried is not None)


def _free_cpus_gain(facts: LoopFacts) -> float | None:
    """Return the gain from batches that never wait for a CPU: at most the stall is saved."""
    stall_s = facts.attribution.stall_share * facts.loop.step_time_s
    queue_share = (queued_share(facts.work) if facts.work else None) or 0.0
    # With workers, batches are made during the whole step; without them, only during the stall.
    making_s = facts.loop.step_time_s if facts.loop.num_workers else stall_s
    saved_s = min(stall_s, queue_share * making_s)
    return smaller(without(facts.measurement, saved_s), data_gain(facts.measurement))


def _made(facts: LoopFacts, making: Making) -> Iterator[tuple[LoaderWork, str]]:
    """Yield the loader's work, also in words, if it mostly is `making` and training waits for it."""
    work = facts.work
    if work is None or work.cpu_share is None or not facts.waits_for_data or facts.making is not making:
        return
    queue_share = queued_share(work)
    queued = "n/a" if queue_share is None else f"{queue_share:.0%}"
    made = f"one process makes a batch in {duration_text(work.batch_s)}"
    yield work, f"{made}, {work.cpu_share:.0%} of it on a CPU, {queued} waiting for one"


@check("loader-cpu", WARNING, "making batches is CPU work, and too few CPUs do it", ("COMPUTES_SHARE",))
def _loader_cpu(facts: LoopFacts) -> Hits:
    for work, text in _made(facts, Making.COMPUTING):
        yield _hit(facts, f"{text}{_cores_text(facts)}", work.cpu_share)


@check("loader-contended", WARNING, "the loader is starved of CPU", ("COMPUTES_SHARE", "MOSTLY"))
def _loader_contended(facts: LoopFacts) -> Hits:
    for work, text in _made(facts, Making.WAITING_FOR_CPU):
        yield Hit(f"{text}{_cores_text(facts)}", _FREE_CPUS, queued_share(work), _free_cpus_gain(facts))


def _cores_text(facts: LoopFacts) -> str:
    cores = facts.record.telemetry.host.cpu_cores if facts.record.telemetry else None
    return "" if cores is None else f"; the trial used {cores:.1f} of {count_text(facts.cpus, 'CPU')}"


@check("loader-storage", WARNING, "making batches is waiting for storage, not computing", _WAITS)
def _loader_storage(facts: LoopFacts) -> Hits:
    for work, text in _made(facts, Making.WAITING_FOR_STORAGE):
        seen = f"{text}; block I/O {duration_text(work.block_io_s)}{_reads_text(facts)}"
        remedy = f"{_wait_at_once(facts)}{_FASTER_DATA}; `tunekit doctor --data PATH` measures the storage"
        yield _hit(facts, seen, work.cpu_share)._replace(remedy=remedy)


@check(
    "loader-waits",
    WARNING,
    "making batches is waiting: for a lock, a network, a file system or a sleep",
    _WAITS,
)
def _loader_waits(facts: LoopFacts) -> Hits:
    for work, text in _made(facts, Making.WAITING):
        remedy = f"{_wait_at_once(facts)}see what it waits for: `py-spy dump --pid PID` of a worker"
        yield _hit(facts, f"{text}{_reads_text(facts)}", work.cpu_share)._replace(remedy=remedy)


def _reads_text(facts: LoopFacts) -> str:
    read = facts.record.telemetry.host.read_bytes_per_s if facts.record.telemetry else None
    return "" if read is None else f"; {bytes_text(read)}/s come from storage (/proc/PID/io)"


def _wait_at_once(facts: LoopFacts) -> str:
    """Return advice for more workers, which could wait at the same time; empty if they couldn't."""
    more = facts.more_workers or 0
    return f"{facts.set_knob('num_workers', more)} waits for {more} batches at once, or " if more > 1 else ""


@check("cpu-contended", WARNING, "the training process waits for a CPU")
def _cpu_contended(facts: LoopFacts) -> Hits:
    """Find a training thread that is runnable without a CPU, unless the loader has the same problem."""
    loop, waited_s = facts.loop, facts.loop.parts.run_queue_s or 0.0
    share = waited_s / loop.steady_time_s
    is_felt = not facts.is_cuda or facts.bound is Bound.HOST
    is_loaders = facts.waits_for_data and facts.making is Making.WAITING_FOR_CPU
    if share < STARVED_SHARE or not is_felt or is_loaders:
        return
    own = (facts.taken_share or 0.0) >= MAX_CPUS_SHARE
    yield Hit(
        f"for {share:.0%} of step time its thread is runnable without a CPU (/proc/PID/schedstat)"
        f"{_cores_text(facts)}",
        "use fewer workers, or fewer threads (OMP_NUM_THREADS)" if own else _FREE_CPUS,
        share,
        smaller(without(facts.measurement, waited_s / loop.steady_batches), loader_cap(facts.measurement)),
    )


@check("unpickling", WARNING, "the training process is busy unpickling the batches of its workers")
def _unpickling(facts: LoopFacts) -> Hits:
    """Find a training process that uses CPU time while it waits for its workers."""
    loop, fetch_cpu_s = facts.loop, facts.loop.parts.fetch_cpu_s
    share = ratio(fetch_cpu_s, loop.parts.data_wait_s) or 0.0
    if not loop.num_workers or share < UNPICKLES_SHARE or fetch_cpu_s < FELT_SHARE * loop.steady_time_s:
        return
    fetch_s = fetch_cpu_s / loop.steady_batches
    exposed_s = facts.attribution.stall_share * loop.step_time_s
    yield Hit(
        f"{rate_text(1000 * fetch_s)} ms of CPU time per batch, {min(share, 1.0):.0%} of its wait; "
        f"{bytes_text(loop.batch.piped_bytes if loop.batch else None)} of each batch are not tensors",
        "return few large tensors from the collate function, not arrays, lists or many small tensors",
        min(share, 1.0),
        smaller(without(facts.measurement, min(fetch_s, exposed_s)), data_gain(facts.measurement)),
    )


@check("costly-epochs", WARNING, "epoch boundaries take a clear share of each epoch", ("EPOCHS_SHARE",))
def _costly_epochs(facts: LoopFacts) -> Hits:
    loop, epoch_s, boundary_s = facts.loop, facts.loop.epoch_time_s, facts.loop.boundary_s
    if not epoch_s or boundary_s is None:
        return
    if _least_boundary_s(loop) <= COSTLY_SHARE * epoch_s and facts.bound is not Bound.EPOCHS:
        return
    changing = facts.details.data.changing if facts.details.data else None
    restarts = loop.num_workers > 0 and not loop.persistent_workers and not changing
    tried = facts.tried("persistent_workers", True) if restarts else None
    yield Hit(
        f"{duration_text(boundary_s)} at each boundary, {boundary_s / epoch_s:.0%} of an epoch of "
        f"{duration_text(epoch_s)} (host clock, {loop.boundaries_seen} timed)",
        f"{facts.set_knob('persistent_workers', True)} keeps the workers between epochs"
        if restarts
        else "look at what the script does between epochs, or make epochs longer",
        boundary_s / epoch_s,
        tried.gain if tried else boundary_gain(loop, boundary_s),
        is_measured=tried is not None,
    )


def _least_boundary_s(loop: LoopMeasurement) -> float:
    """Return a lower bound on a boundary's cost, from the spread of those that were timed."""
    mean_s, deviation_s, count = loop.boundary_s or 0.0, loop.boundary_deviation_s, loop.boundaries_seen
    if deviation_s is None or count < 2:
        return ONE_BOUNDARY * mean_s
    return mean_s - t_quantile(count - 1, SURE) * deviation_s / math.sqrt(count)
