"""The training on a batch of the data set's largest samples, proved on real loaders and a scripted clock."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from _tunekit_agent.loader.source import Replay
from _tunekit_agent.stages.runner import StageRunner
from _tunekit_agent.stages.worst_batch import Samples, WorstBatch
from build_loop import loop_of
from hypothesis import given
from hypothesis import strategies as st
from simulated_cuda import SimulatedCuda, Torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, IterableDataset, SubsetRandomSampler

from tunekit.records.details import LargestSamples

STEP_S = 0.02
FLOAT_BYTES = 4


class Clock:
    """Seconds that only the loop and the data set move."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Rows(Dataset[torch.Tensor]):
    """Rows of given lengths; each draws from every global generator and takes its time."""

    def __init__(self, lengths: Sequence[int], clock: Clock | None = None, read_s: float = 0.0) -> None:
        self.lengths, self.clock, self.read_s = lengths, clock, read_s
        self.asked: list[int] = []

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, index: int) -> torch.Tensor:
        self.asked.append(index)
        if self.clock is not None:
            self.clock.now += self.read_s
        return torch.full((self.lengths[index],), random.random() + np.random.random() + float(torch.rand(1)))


class Broken(Rows):
    """A data set that only its workers can read."""

    def __getitem__(self, index: int) -> torch.Tensor:
        raise RuntimeError("opened in worker_init_fn")


class Endless(IterableDataset[torch.Tensor]):
    """Rows without number."""

    def __iter__(self) -> Iterator[torch.Tensor]:
        while True:
            yield torch.ones(3)


class OwnBatches:
    """A batch sampler of the script's own."""

    def __init__(self, batch_size: int | None) -> None:
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[list[int]]:
        return iter([[0, 1, 2, 3]])

    def __len__(self) -> int:
        return 1


class Unsized(Rows):
    """A data set that does not know its length."""

    def __len__(self) -> int:
        raise TypeError("no length")


def padded(samples: list[torch.Tensor]) -> torch.Tensor:
    return pad_sequence(samples, batch_first=True)


class Source:
    """One iterator of a loader, whose workers rest."""

    def __init__(self, loader: Any, walked: int | None = None, **facts: Any) -> None:
        self._loader = loader
        self.live = object()
        self.has_all_made = True
        self.info = self
        self.batch = None if walked is None else {"samples": walked}
        self.facts = {"batch_size": loader.batch_size, "iterable": False} | facts

    def loader(self) -> Any:
        return self._loader


def source_of(data: Any, batch_size: int = 4, walked: int | None = None, **made: Any) -> Source:
    return Source(DataLoader(data, batch_size=batch_size, collate_fn=padded, **made), walked)


class Loop:
    """A loop that takes STEP_S for each batch, whatever its size."""

    def __init__(self, clock: Clock | None = None, cuda: SimulatedCuda | None = None, **asked: Any) -> None:
        self.clock = clock or Clock()
        self.reported: list[dict[str, Any]] = []
        self.given: list[tuple[int, ...]] = []
        self.moved: list[str] = []
        if cuda is not None:
            asked |= {"torch": Torch(cuda), "device": "cuda:1"}
        self.stage = WorstBatch(loop_of(**asked), self.clock, lambda seconds: None)
        self.details = StageRunner([self.stage], 1.0, self.moved.append, self.clock, passed=self.tell)

    def tell(self) -> None:
        self.reported.append(self.details.facts()["largest"])

    def run(self, source: Any, train: Callable[[Any], None] = lambda batch: None) -> LargestSamples:
        for _ in range(1000):
            answer = self.details.asked(source)
            if self.details.is_over:
                return LargestSamples.model_validate(self.details.facts()["largest"])
            assert isinstance(answer, Replay)
            self.given.append(tuple(answer.batch.shape))
            train(answer.batch)
            self.clock.now += STEP_S
        raise AssertionError("it never ends")


MIXED = [5 + 7 * index % 90 for index in range(300)]
"""Lengths from 5 to 94, in no order."""


def test_a_data_set_of_equal_samples_is_known_after_sixteen() -> None:
    data = Rows([8] * 1000)
    loop = Loop()
    seen = loop.run(source_of(data))
    assert (seen.varies, seen.samples_read, seen.data_set_samples) == (False, 16, 1000)
    assert not seen.is_given
    assert loop.given == []
    assert seen.why_ended is None
    assert max(data.asked) > 800, "they come from all over the data set"


def test_the_script_trains_on_the_largest_samples_there_are() -> None:
    loop = Loop()
    seen = loop.run(source_of(Rows(MIXED)))
    assert set(loop.given) == {(4, 94)}
    assert (seen.varies, seen.samples_read, seen.data_set_samples) == (True, 300, 300)
    assert seen.batch_bytes == 4 * 94 * FLOAT_BYTES
    assert seen.usual_batch_bytes is not None
    assert seen.usual_batch_bytes < seen.batch_bytes
    assert seen.survived
    assert (seen.peak_reserved_bytes, seen.why_ended) == (None, None)


def test_what_is_known_is_told_before_the_script_gets_the_batch() -> None:
    loop = Loop()

    def train(batch: Any) -> None:
        assert len(loop.reported) == 1

    loop.run(source_of(Rows(MIXED)), train)
    reported = LargestSamples.model_validate(loop.reported[0])
    assert reported.is_given
    assert not reported.survived
    assert reported.batch_bytes == 4 * 94 * FLOAT_BYTES


def test_the_scripts_random_states_stay_as_they_were() -> None:
    def drawn() -> tuple[float, float, float]:
        return random.random(), float(np.random.random()), float(torch.rand(1))

    def seeded() -> None:
        random.seed(3)
        np.random.seed(3)
        torch.manual_seed(3)

    seeded()
    expected = drawn()
    seeded()
    loop = Loop()
    seen: list[tuple[float, float, float]] = []
    loop.run(source_of(Rows(MIXED)), lambda batch: seen.append(drawn()))
    assert seen[0] == expected


def test_a_large_data_set_is_read_all_over_as_long_as_there_is_time() -> None:
    clock = Clock()
    data = Rows(range(5, 100_005), clock, read_s=0.01)
    seen = Loop(clock).run(source_of(data))
    assert 150 <= seen.samples_read <= 250  # of two seconds
    gaps = np.diff(sorted(data.asked))
    assert gaps.max() < 4 * 100_000 / seen.samples_read
    assert seen.batch_bytes is not None
    assert seen.batch_bytes > 0.95 * 4 * 100_000 * FLOAT_BYTES


@given(st.integers(1, 3000), st.integers(1, 200))
def test_however_many_samples_are_taken_each_comes_once_and_no_gap_is_wide(samples: int, taken: int) -> None:
    numbers = list(Samples(source_of(Rows([1] * samples))).spread(taken))
    assert len(set(numbers)) == len(numbers) == min(samples, taken)
    gaps = np.diff([*sorted(numbers), samples + min(numbers)])
    assert gaps.max() <= 5 * samples / len(numbers) + 1


def test_only_what_the_sampler_may_give_is_read() -> None:
    lengths = [5 + index for index in range(100)]
    data = Rows(lengths)
    seen = Loop().run(source_of(data, sampler=SubsetRandomSampler(range(40))))
    assert (seen.data_set_samples, max(data.asked)) == (40, 39)
    assert seen.batch_bytes == 4 * (5 + 39) * FLOAT_BYTES


@pytest.mark.parametrize(
    ("source", "asked", "reported"),
    [
        (None, {}, "no DataLoader"),
        (source_of(Rows(MIXED)), {"world_size": 2}, "2 ranks"),
        (Source(DataLoader(Endless(), batch_size=4), iterable=True), {}, "IterableDataset"),
        (source_of(Unsized(MIXED), sampler=range(8)), {}, "no length"),
        (source_of(Rows(MIXED), sampler=range(150)), {}, "gives 150 of 300 samples"),
        (source_of(Broken(MIXED)), {}, "RuntimeError: opened in worker_init_fn"),
        (Source(DataLoader(Rows(MIXED), batch_size=None)), {}, "makes its batches itself"),
        (
            Source(DataLoader(Rows(MIXED), batch_sampler=OwnBatches(None)), walked=4),
            {},
            "made by the script's own OwnBatches",
        ),
        (Source(DataLoader(Rows(MIXED), batch_size=4)), {}, "no batch of chosen samples could be made"),
    ],
)
def test_a_loop_without_a_batch_of_the_largest_says_why(
    source: Any, asked: dict[str, Any], reported: str
) -> None:
    loop = Loop(**asked)
    seen = loop.run(source)
    assert reported in (seen.why_ended or "")
    assert not seen.is_given
    assert loop.given == []


def test_a_batch_that_is_changed_in_place_is_given_once() -> None:
    loop = Loop()
    seen = loop.run(source_of(Rows(MIXED)), lambda batch: batch.add_(1))
    assert len(loop.given) == 1
    assert "in place" in (seen.why_ended or "")
    assert seen.survived


def test_a_script_too_slow_on_it_says_so() -> None:
    loop = Loop()

    def train(batch: Any) -> None:
        loop.clock.now += loop.details.deadline_s

    seen = loop.run(source_of(Rows(MIXED)), train)
    assert (seen.is_given, seen.survived) == (True, False)
    assert "too slow" in (seen.why_ended or "")


def test_the_devices_peaks_are_those_of_the_batch_among_what_torch_had_kept() -> None:
    cuda = SimulatedCuda()
    cuda.hold(5000)
    cuda.hold(-4000)

    def train(batch: Any) -> None:
        cuda.hold(10 * batch.shape[1])
        cuda.hold(-10 * batch.shape[1])

    seen = Loop(cuda=cuda).run(source_of(Rows(MIXED)), train)
    assert seen.peak_reserved_bytes == 5000
    assert cuda.asked_devices == {"cuda:1"}


def test_a_collate_fn_that_takes_samples_apart_gets_each_anew() -> None:
    def torn(samples: list[dict[str, torch.Tensor]]) -> torch.Tensor:
        return torch.stack([sample.pop("rows") for sample in samples])

    batching = Samples(Source(DataLoader(Rows([3] * 4), batch_size=4, collate_fn=torn)))
    samples: list[Any] = [{"rows": torch.zeros(3)}, {"rows": torch.ones(3)}]
    assert batching.batch_of(samples).shape == (4, 3)
    assert batching.batch_of(samples).shape == (4, 3)
    assert all("rows" in sample for sample in samples)
