"""Real workers of every kind tell what their batches cost; what else is told of every trial comes with it."""

import os
from pathlib import Path

import pytest
from real_trials import Plan, Ran, looking_at, loop_of

from tunekit.records.attribution import LoaderWork

pytestmark = pytest.mark.real


def uneven(*words: str, **more: bool) -> Plan:
    return Plan(("python", "uneven_workers.py", *words), **more)


SHORT = ("--epoch", "40", "--workers", "2", "--validate")
FORKED, BUSY = uneven(*SHORT), uneven("--workers", "0", "--validate", "--busy", is_slow=True)
SPAWNED = uneven("--workers", "2", "--context", "spawn", "--persistent", is_slow=True)
STREAM = uneven(*SHORT, "--stream", is_slow=True)


def work(ran: Ran) -> LoaderWork:
    seen = loop_of(ran.baseline).loader_work
    assert seen is not None
    return seen


@looking_at(FORKED, STREAM, SPAWNED)
def test_a_slow_worker_shows_beside_a_quick_one(ran: Ran) -> None:
    slow, quick = work(ran).workers
    assert slow.batches > 0 < quick.batches
    assert slow.time_s / slow.batches > 1.5 * quick.time_s / quick.batches


@looking_at(FORKED, BUSY, STREAM, SPAWNED)
def test_batches_are_those_of_the_window_and_of_no_other_loader(ran: Ran) -> None:
    seen, steady = work(ran), loop_of(ran.baseline).steady_batches
    # Workers are ahead of the loop; a loader within the data set would make it three times as many.
    assert 0.6 * steady <= seen.batches <= 1.6 * steady + 8


@looking_at(FORKED, BUSY)
def test_computing_shows_as_cpu_time_and_waiting_does_not(ran: Ran) -> None:
    seen = work(ran)
    # Of its 5 ms; how long that takes on a machine with other work is another matter.
    is_busy = ran.plan.words == BUSY.words
    assert (seen.cpu_s / seen.batches > 0.004) is is_busy
    assert seen.cpu_share == pytest.approx(seen.cpu_s / seen.time_s)
    assert seen.cpu_share < (1.1 if is_busy else 0.3)


@looking_at(FORKED)
def test_the_batch_the_model_and_the_threads_are_told(ran: Ran) -> None:
    seen = loop_of(ran.baseline)
    assert seen.batch is not None and seen.model is not None and seen.threads is not None
    assert [(leaf.path, leaf.dtype, leaf.shape) for leaf in seen.batch.leaves] == [
        ("[0]", "float32", (1, 32)),
        ("[1]", "int64", (1,)),
    ]
    assert seen.batch_bytes == seen.batch.total_bytes == 136
    assert seen.batch.shared_bytes == 2 * 4096
    assert seen.model.parameters_bytes == seen.model.gradients_bytes == 66 * 4
    assert seen.model.optimizer_bytes == 2 * 66 * 4 + 2 * 4
    threads = os.environ["OMP_NUM_THREADS"]
    assert (seen.threads.intra_op, seen.threads.variables) == (1, {"OMP_NUM_THREADS": threads})


@looking_at(SPAWNED)
def test_no_file_of_a_spawned_worker_stays(ran: Ran) -> None:
    assert loop_of(ran.baseline).loader_work is not None
    assert not list(Path(ran.trials).parent.rglob("loader-work-*"))
