"""Prints of samples, pinned generators, and what a script changes between epochs."""

import random
import threading
from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from _tunekit_agent.loader.read_state import changed_by_reading
from _tunekit_agent.loader.samples import (
    AttributeWatch,
    generators_of,
    id_of,
    is_seeded_by_index,
    pinned,
    prints_of,
)
from PIL import Image

Pair = namedtuple("Pair", "x y")


class Odd:
    """Answers nothing."""

    @property
    def shape(self) -> Any:
        raise RuntimeError

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError


GRAPH = {"x": torch.ones(3, 4), "edge_index": torch.zeros(2, 5, dtype=torch.long)}

CHANGED = [
    (torch.zeros(3), torch.tensor([0.0, 0.0, 1.0])),
    (torch.zeros(4), torch.zeros(2, 2)),
    (torch.zeros(3, dtype=torch.bfloat16), torch.ones(3, dtype=torch.bfloat16)),
    (torch.zeros(3, dtype=torch.bfloat16), torch.zeros(3, dtype=torch.float16)),
    (torch.zeros(4, 4), torch.eye(4).t()),
    (torch.tensor(True), torch.tensor(False)),
    (np.zeros(3), np.ones(3)),
    (np.array(["a"], dtype=object), np.array(["b"], dtype=object)),
    (np.float32(1.0), np.float32(2.0)),
    (Image.new("L", (4, 4), 0), Image.new("L", (4, 4), 9)),
    ("cat", "dog"),
    (b"cat", b"dog"),
    (1, 2),
    (True, False),
    ([1, [2, 3]], [1, [2, 4]]),
    ({"a": 1}, {"b": 1}),
    (Pair(1, 2), Pair(1, 3)),
    (SimpleNamespace(x=torch.zeros(2)), SimpleNamespace(x=torch.ones(2))),
    (SimpleNamespace(**GRAPH), SimpleNamespace(**GRAPH | {"x": torch.zeros(3, 4)})),
    ([0] * 20, [0] * 19 + [1]),
]


@pytest.mark.parametrize(("one", "other"), CHANGED, ids=[str(at) for at in range(len(CHANGED))])
def test_prints_tell_samples_apart(one: Any, other: Any) -> None:
    assert prints_of(one) == prints_of(one) != prints_of(other) == prints_of(other)


def test_a_print_is_by_leaf() -> None:
    first, second = (prints_of((torch.zeros(3), label, 0.5)) for label in (1, 2))
    assert [one == other for one, other in zip(first, second, strict=True)] == [True, False] + [True] * 6


@pytest.mark.parametrize(
    "sample",
    [Odd(), None, torch.eye(3).to_sparse(), [Odd(), 1], object()],
    ids=["odd", "none", "sparse", "list", "object"],
)
def test_what_has_no_data_is_no_error(sample: Any) -> None:
    assert prints_of(sample) == prints_of(sample)


def test_an_index_is_a_number_whatever_it_is() -> None:
    assert (id_of(7), id_of(np.int64(7)), id_of(torch.tensor(7))) == (7, 7, 7)
    others = [id_of(one) for one in ("a", "b", (1, 2), [1, 2], -1)]
    assert len({*others, 7}) == 6 and all(0 <= one < 1 << 63 for one in others)


class Augmented:
    """Draws from all that there is."""

    def __init__(self) -> None:
        self.transform = SimpleNamespace(steps=[SimpleNamespace(rng=np.random.default_rng(1))])
        self.own = [random.Random(2), np.random.RandomState(3)]
        self.generator = torch.Generator()

    def __getitem__(self, index: int) -> list[float]:
        return [
            random.random(),
            float(np.random.rand()),
            float(torch.rand(())),
            float(self.transform.steps[0].rng.random()),
            self.own[0].random(),
            float(self.own[1].rand()),
            float(torch.rand((), generator=self.generator.manual_seed(index))),
        ]


def test_all_generators_are_pinned_and_put_back() -> None:
    data = Augmented()
    names = [name for name, _ in generators_of(data)]
    assert names[:3] == ["random", "numpy.random", "torch"]
    assert set(names[3:]) == {"transform.steps[0].rng", "own[0]", "own[1]", "generator"}
    draws = []
    for seed in (1, 1, 2):
        with pinned(data, seed):
            draws.append(data[0])
    assert draws[0] == draws[1]
    assert [one == other for one, other in zip(draws[0], draws[2], strict=True)] == [False] * 6 + [True]
    before, kept = data[0], random.getstate()
    with pinned(data, 1):
        data[0]
    assert random.getstate() == kept and data[0] != before


def test_a_generator_that_the_index_seeds_is_told_from_one_that_runs_on() -> None:
    seeded = {name: is_seeded_by_index(Augmented(), name, 5) for name, _ in generators_of(Augmented())}
    assert [name for name, is_seeded in seeded.items() if is_seeded] == ["generator"]


def test_what_the_script_changes_between_epochs_is_found_and_what_the_data_set_changes_is_not() -> None:
    data = SimpleNamespace(epoch=0, reads=0, dataset=SimpleNamespace(level=0.0), items=[1, 2])
    watch = AttributeWatch()
    for has_workers in (False, False):
        watch.began(data, has_workers)
        data.reads += 10  # in its __getitem__
        watch.ended(data)
        data.epoch += 1
        data.dataset.level += 0.1
        data.items.append(3)
    watch.began(data, False)
    assert watch.has_seen
    assert watch.names == {"epoch", "dataset.level", "len(items)"}


def test_epochs_that_the_observer_begins_do_not_count() -> None:
    data, watch = SimpleNamespace(epoch=0), AttributeWatch()
    watch.began(data, True)
    data.epoch, watch.is_paused = 1, True
    watch.began(data, True)
    assert (watch.has_seen, watch.names) == (False, set())
    watch.is_paused = False
    watch.began(data, True)  # the script left its epoch before the end
    assert (watch.has_seen, watch.names) == (True, {"epoch"})


class Kept:
    """Reads as it is told to, and keeps something from that."""

    def __init__(self, read: Any) -> None:
        self.read, self.calls, self.chunk, self.cache = read, 5_000, [0, 0], {}
        self.visits, self.lock = np.zeros(4), threading.Lock()

    def __getitem__(self, index: int) -> float:
        return float(self.read(self, index))


def counted(data: Kept, index: int) -> float:
    data.calls += 1
    return index * min(1.0, data.calls / 4_000)


def averaged(data: Kept, index: int) -> float:
    data.cache[index] = (data.cache.get(index, 0.0) + random.random()) / 2
    return data.cache[index]


def visited(data: Kept, index: int) -> float:
    data.visits[index] += 1
    return data.visits[index]


def chunked(data: Kept, index: int) -> float:
    data.calls, data.chunk = index, [index, index]
    return data.chunk[0]


@pytest.mark.parametrize(
    ("read", "changed", "is_decisive"),
    [
        (counted, {"calls"}, True),
        (averaged, {"cache"}, True),
        (visited, {"visits"}, True),
        (chunked, {"calls", "chunk"}, False),
        (lambda data, index: data.cache.setdefault(index, index) + random.random(), {"cache"}, False),
        (lambda data, index: data.chunk.append(index) or index, {"chunk"}, False),
        (
            lambda data, index: data.cache.update({index: 1}) or random.SystemRandom().random(),
            {"cache"},
            False,
        ),
        (lambda data, index: index, set(), False),
    ],
)
def test_what_reading_changes_and_samples_depend_on(read: Any, changed: set[str], is_decisive: bool) -> None:
    data = Kept(read)
    before = repr(vars(data))
    assert changed_by_reading(data, 3, {"calls": 0}) == (changed, is_decisive)
    assert repr(vars(data)) == before
