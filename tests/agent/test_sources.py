"""What a loader's workers still owe: told of real workers, one of which is slow or ends early."""

import inspect
import multiprocessing
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from _tunekit_agent.loader.source import Source
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

pytestmark = [pytest.mark.real, pytest.mark.filterwarnings("ignore:This DataLoader will create")]

WORKERS, PREFETCH = 3, 2
QUEUED = WORKERS * PREFETCH


class OneWaits(Dataset[int]):
    """The samples of the first worker but for the first wait until they may be made."""

    def __init__(self) -> None:
        self.may_go = multiprocessing.get_context("fork").Event()

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> int:
        worker = get_worker_info()
        if worker is not None and worker.id == 0 and index:
            self.may_go.wait(30)
        return index


class OneEnds(IterableDataset[int]):
    """The first worker has three samples, the others plenty."""

    def __iter__(self) -> Iterator[int]:
        worker = get_worker_info()
        yield from range(3 if worker is not None and worker.id == 0 else 60)


def source_of(data: Any, **options: Any) -> tuple[Source, Any]:
    loader: DataLoader[int] = DataLoader(data, 1, num_workers=WORKERS, prefetch_factor=PREFETCH, **options)
    iterator = iter(loader)
    return Source(SimpleNamespace(), iterator, SimpleNamespace()), iterator


def settled(source: Source, within_s: float = 30.0) -> bool | None:
    """Return whether all is made, once it is or the workers had so much time."""
    until = time.monotonic() + within_s
    while not source.has_all_made and time.monotonic() < until:
        time.sleep(0.01)
    return source.has_all_made


def look_for_a_batch(iterator: Any) -> None:
    """Have torch look for a batch that is not there yet: those that come meanwhile are before their turn."""

    def get_data() -> Any:
        found, data = iterator._try_get_data(0.3)
        if not found:
            raise TimeoutError
        return data

    iterator._get_data = get_data
    with pytest.raises(TimeoutError):
        next(iterator)
    del iterator._get_data


def test_batches_that_came_before_their_turn_count_once() -> None:
    data = OneWaits()
    source, iterator = source_of(data)
    for _ in range(3):
        next(iterator)
    look_for_a_batch(iterator)
    assert source.asked_batches == QUEUED
    assert settled(source, within_s=1.0) is False  # the slow worker has made neither of its own
    data.may_go.set()
    assert settled(source) is True
    assert source.asked_batches == QUEUED
    next(iterator)
    assert source.asked_batches == QUEUED


def test_batches_taken_out_of_order_are_owed_no_more() -> None:
    if "in_order" not in inspect.signature(DataLoader.__init__).parameters:
        pytest.skip(f"torch {torch.__version__} hands batches out in order only")
    data = OneWaits()
    source, iterator = source_of(data, in_order=False)
    for _ in range(8):
        next(iterator)
    assert source.asked_batches == QUEUED
    assert settled(source, within_s=1.0) is False
    data.may_go.set()
    assert settled(source) is True


def test_a_worker_that_ended_owes_nothing() -> None:
    source, iterator = source_of(OneEnds())
    for _ in range(20):
        next(iterator)
    assert 0 < source.asked_batches <= QUEUED
    assert settled(source) is True


def test_an_epoch_near_its_end_was_asked_for_less() -> None:
    data = OneWaits()
    data.may_go.set()
    source, iterator = source_of(data)
    for _ in range(58):
        next(iterator)
    assert source.asked_batches == 2
    assert settled(source) is True


class Numbers(Dataset[int]):
    """Samples that are their places."""

    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> int:
        return index


def taken_from(iterator: Any) -> Source:
    """A source that fetches as the watch does."""
    watch = SimpleNamespace(fetching=0, original_next=type(iterator).__next__)
    return Source(watch, iterator, SimpleNamespace())


@pytest.mark.parametrize("persistent", [False, True])
def test_the_queue_is_thrown_away_when_an_epoch_is_ended(persistent: bool) -> None:
    iterator = iter(DataLoader(Numbers(), 1, num_workers=WORKERS, persistent_workers=persistent))
    source, reported = taken_from(iterator), []
    next(iterator)
    source.end_epoch(time.perf_counter() + 60, lambda: reported.append(source.asked_batches))
    assert reported == list(reversed(range(QUEUED)))
    with pytest.raises(StopIteration):
        source.fetch()


def test_what_lies_ready_is_thrown_away_and_the_epoch_goes_on() -> None:
    iterator = iter(DataLoader(Numbers(), 1, num_workers=WORKERS))
    source = taken_from(iterator)
    next(iterator)
    assert settled(source)
    source.discard_ready(time.perf_counter() + 60, lambda: None)
    assert source.fetch().item() == 1 + QUEUED


def test_throwing_away_ends_in_time_and_at_a_batch_that_is_broken() -> None:
    iterator = iter(DataLoader(Numbers(), 1, num_workers=WORKERS))
    source = taken_from(iterator)
    source.end_epoch(time.perf_counter(), lambda: None)
    assert source.asked_batches == QUEUED - 1
    broken = iter(DataLoader([0, 1], 1, sampler=[0, 7, 1], num_workers=1))
    source = taken_from(broken)
    source.end_epoch(time.perf_counter() + 60, lambda: None)
    with pytest.raises(StopIteration):
        source.fetch()
