"""What workers write into shared memory, and what a window makes of it."""

import os
import pickle
import time
from pathlib import Path

from _tunekit_agent.loader.info import LoaderInfo
from _tunekit_agent.loader.work import Slots, Tally, WorkWindow

from tunekit.records.attribution import LoaderWork

MS = 1_000_000


def tally(slots: Slots, worker: int) -> Tally:
    return Tally(slots.words, worker, time.process_time_ns)


def reported(window: WorkWindow) -> LoaderWork:
    return LoaderWork.model_validate(window.facts())


def test_a_window_has_what_was_made_within_it() -> None:
    slots, window = Slots(2), WorkWindow()
    first, second = tally(slots, 0), tally(slots, 1)
    for worker in (first, second):
        worker.made(90 * MS, 9 * MS)  # its first
        worker.made(500 * MS, 9 * MS)  # before the window
    window.open(slots)
    for _ in range(9):
        first.made(20 * MS, 10 * MS)
    first.made(33 * MS, 10 * MS)
    second.made(5 * MS, 5 * MS)
    window.close()
    second.made(700 * MS, 5 * MS)
    work = reported(window)
    assert [worker.batches for worker in work.workers] == [10, 1]
    assert [worker.time_s for worker in work.workers] == [0.213, 0.005]
    assert work.cpu_s == 0.105


def test_what_workers_waited_is_of_the_window_and_none_where_one_can_not_tell() -> None:
    slots, window = Slots(2), WorkWindow()
    first, second = tally(slots, 0), tally(slots, 1)
    for worker in (first, second):
        worker.made(90 * MS, 9 * MS, (70 * MS, 10 * MS))  # its first
        worker.made(50 * MS, 9 * MS, (40 * MS, 0))  # before the window
    window.open(slots)
    first.made(20 * MS, 5 * MS, (12 * MS, 0))
    second.made(20 * MS, 5 * MS, (90 * MS, 10 * MS))  # most of it while the clock was stopped
    work = reported(window)
    assert (work.run_queue_s, work.block_io_s) == (0.032, 0.01)
    window.open(slots)
    second.made(20 * MS, 5 * MS)
    assert (reported(window).run_queue_s, reported(window).block_io_s) == (None, None)


def test_a_new_worker_in_an_old_slot_adds_up_and_its_first_batch_is_left_out() -> None:
    slots, window = Slots(1), WorkWindow()
    window.open(slots)
    for first_ms in (50, 70):
        worker = tally(slots, 0)
        worker.made(first_ms * MS, 0)
        worker.made(10 * MS, 0)
        window.follow(slots)  # the next epoch
    work = reported(window)
    assert (work.batches, work.time_s) == (2, 0.02)


def test_a_loader_that_is_built_anew_goes_on_counting() -> None:
    window = WorkWindow()
    window.open(Slots(1))
    for workers in (1, 2):
        slots = Slots(workers)
        window.follow(slots)
        for worker in range(workers):
            slot = tally(slots, worker)
            slot.made(50 * MS, 0)
            slot.made((10 + workers) * MS, 0)
    work = reported(window)
    assert [worker.batches for worker in work.workers] == [2, 1]


def test_a_loader_without_a_map_is_not_guessed() -> None:
    slots, window = Slots(1), WorkWindow()
    window.open(slots)
    worker = tally(slots, 0)
    worker.made(MS, 0)
    worker.made(MS, 0)
    window.follow(None)
    assert window.facts() is None


def test_a_forked_process_writes_what_its_parent_reads() -> None:
    slots, window = Slots(1), WorkWindow()
    window.open(slots)
    child = os.fork()
    if child == 0:
        worker = tally(slots, 0)
        for _ in range(3):
            worker.made(4 * MS, MS)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert reported(window).workers[0].time_s == 0.008


def test_the_file_of_spawned_workers_goes_with_its_map(tmp_path: Path) -> None:
    slots = Slots(2, str(tmp_path / "work"))
    assert (tmp_path / "work").exists()
    worker = tally(slots, 1)
    worker.made(MS, 0)
    worker.made(MS, 0)
    assert slots.read()[1][:2] == [1, MS]
    del slots
    assert not (tmp_path / "work").exists()


def test_a_loader_within_a_data_set_can_be_sent_to_a_worker() -> None:
    info = LoaderInfo(("train.py:1+2",), 0)
    info.loader, info.work = (lambda: None), Slots(1)
    assert pickle.loads(pickle.dumps(info)) is None
