"""Real workers of every kind tell what their batches cost; what else is told of every trial comes with it."""

import os
from pathlib import Path

import pytest
from zoo_trials import SharedTrials, loop_of

from tunekit.records.attribution import LoaderWork
from tunekit.records.measurement import LoopMeasurement

pytestmark = pytest.mark.real

SHORT = ("--epoch", "40", "--workers", "2", "--validate")
RUNS = {
    "forked": SHORT,
    "stream": (*SHORT, "--stream"),
    "spawned": ("--workers", "2", "--context", "spawn", "--persistent"),
    "none": ("--workers", "0", "--validate", "--busy"),
}


@pytest.fixture(scope="module")
def trials_of(tmp_path_factory: pytest.TempPathFactory) -> SharedTrials:
    return SharedTrials(tmp_path_factory.mktemp("attribution"))


def loop(trials_of: SharedTrials, run: str) -> LoopMeasurement:
    return loop_of(trials_of(("python", "uneven_workers.py", *RUNS[run])).baseline)


def work(trials_of: SharedTrials, run: str) -> LoaderWork:
    seen = loop(trials_of, run).loader_work
    assert seen is not None
    return seen


@pytest.mark.parametrize("run", ["forked", "stream", pytest.param("spawned", marks=pytest.mark.slow)])
def test_a_slow_worker_shows_beside_a_quick_one(run: str, trials_of: SharedTrials) -> None:
    slow, quick = work(trials_of, run).workers
    assert slow.batches > 0
    assert quick.batches > 0
    assert slow.time_s / slow.batches > 1.5 * quick.time_s / quick.batches
    assert slow.first_batch_s > 0


@pytest.mark.parametrize("run", RUNS)
def test_batches_are_those_of_the_window_and_of_no_other_loader(run: str, trials_of: SharedTrials) -> None:
    seen = work(trials_of, run)
    # Workers are ahead of the loop; a loader within the data set would make it three times as many.
    assert 0.6 * loop(trials_of, run).steady_batches <= seen.batches
    assert seen.batches <= 1.6 * loop(trials_of, run).steady_batches + 8
    assert seen.median_batch_s <= seen.p99_batch_s <= seen.slowest_batch_s


def test_computing_shows_as_cpu_time_and_waiting_does_not(trials_of: SharedTrials) -> None:
    busy, asleep = work(trials_of, "none"), work(trials_of, "forked")
    # Of its 5 ms; how long that takes on a machine with other work is another matter.
    assert asleep.cpu_s / asleep.batches < 0.004 < busy.cpu_s / busy.batches
    assert busy.cpu_share is not None
    assert asleep.cpu_share is not None
    assert asleep.cpu_share < 0.3
    assert busy.cpu_share == busy.cpu_s / busy.time_s < 1.1


def test_the_batch_and_the_model_are_told(trials_of: SharedTrials) -> None:
    seen = loop(trials_of, "forked")
    assert seen.batch is not None
    assert [(leaf.path, leaf.dtype, leaf.shape) for leaf in seen.batch.leaves] == [
        ("[0]", "float32", (1, 32)),
        ("[1]", "int64", (1,)),
    ]
    assert seen.batch_bytes == seen.batch.total_bytes == 136
    assert seen.batch.shared_bytes == 2 * 4096
    assert seen.model is not None
    assert seen.model.parameters_bytes == seen.model.gradients_bytes == 66 * 4
    assert seen.model.optimizer_bytes == 2 * 66 * 4 + 2 * 4


def test_the_threads_that_compute_are_told(trials_of: SharedTrials) -> None:
    seen = loop(trials_of, "forked").threads
    assert seen is not None
    assert (seen.intra_op, seen.variables) == (1, {"OMP_NUM_THREADS": os.environ["OMP_NUM_THREADS"]})


def test_no_file_of_a_spawned_worker_stays(trials_of: SharedTrials, tmp_path_factory) -> None:
    loop(trials_of, "spawned")
    assert not list(Path(tmp_path_factory.getbasetemp()).rglob("loader-work-*"))
