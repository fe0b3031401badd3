"""The training alone at other batch sizes, proved on a scripted clock and a scripted loader."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from _tunekit_agent.loader.source import Replay
from _tunekit_agent.stages.batch_sizes import BatchSizes
from _tunekit_agent.stages.runner import StageRunner
from build_loop import loop_of
from simulated_cuda import SimulatedCuda, Torch

from tunekit.records.details import ComputeSweep

STEP_S, ROW_S = 0.02, 0.01


class ScriptedLoader:
    """A loader of batches of given sizes, the last over and over, on a clock of its own."""

    def __init__(self, *sizes: int, batch_size: int | None = 4) -> None:
        self.now = 100.0
        self.info = self
        self.facts = {"batch_size": batch_size}
        self.has_all_made = True
        self._sizes = list(sizes) or [4]

    def clock(self) -> float:
        return self.now

    def take(self) -> Any:
        size = self._sizes.pop(0) if len(self._sizes) > 1 else self._sizes[0]
        if not size:
            raise StopIteration
        return {"rows": torch.arange(size), "labels": torch.zeros(size)}


class Loop:
    """A loop that takes STEP_S for each batch and ROW_S for each row of it."""

    def __init__(
        self,
        *sizes: int,
        loader: ScriptedLoader | None = None,
        cuda: SimulatedCuda | None = None,
        **asked: Any,
    ) -> None:
        self.loader = loader or ScriptedLoader()
        self.reported: list[dict[str, Any]] = []
        self.given: list[int] = []
        if cuda is not None:
            asked |= {"torch": Torch(cuda), "device": "cuda:1"}
        loop = loop_of(sizes=list(sizes), **asked)
        self.stage = BatchSizes(loop, self.loader.clock, lambda seconds: None)
        self.details = StageRunner([self.stage], 1.0, lambda name: None, self.loader.clock, passed=self.tell)

    def tell(self) -> None:
        self.reported.append(self.details.facts()["sizes"])

    def run(self, train: Callable[[Any], None] = lambda batch: None, source: Any = "loader") -> ComputeSweep:
        for _ in range(5000):
            answer = self.details.asked(self.loader if source == "loader" else source)
            if self.details.is_over:
                return ComputeSweep.model_validate(self.details.facts()["sizes"])
            assert isinstance(answer, Replay)
            self.given.append(len(answer.batch["rows"]))
            train(answer.batch)
            answer.batch.clear()
            self.loader.now += STEP_S + ROW_S * self.given[-1]
        raise AssertionError("it never ends")


def test_each_size_shows_its_own_time() -> None:
    loop = Loop(2, 4, 32)
    seen = loop.run()
    assert seen.why_ended is None
    assert [one.batch_size for one in seen.sizes] == [2, 4, 32]
    for one in seen.sizes:
        assert one.step_s == pytest.approx(STEP_S + ROW_S * one.batch_size)
        assert one.peak_reserved_bytes is None
        assert one.batches >= 4
    assert loop.given == sorted(loop.given)
    assert set(loop.given) == {2, 4, 32}


def test_batches_that_warm_up_are_not_timed() -> None:
    loop = Loop(2, 8)

    def train(batch: Any) -> None:
        if loop.given[-3:] in ([2], [2, 2], [2, 2, 8], [2, 8, 8]):
            loop.loader.now += 3.0

    for one in loop.run(train).sizes:
        assert one.step_s == pytest.approx(STEP_S + ROW_S * one.batch_size)


def test_what_is_known_is_told_before_each_size() -> None:
    loop = Loop(2, 8)
    loop.run()
    assert [[one["batch_size"] for one in reported["sizes"]] for reported in loop.reported] == [[], [2]]
    assert all(reported["why_ended"] is None for reported in loop.reported)


def test_a_size_too_slow_is_the_last() -> None:
    loop = Loop(2, 500, 800)
    seen = loop.run()
    assert [one.batch_size for one in seen.sizes] == [2]
    assert seen.why_ended == "batch size 500 was too slow: 0 batches were timed"
    assert 800 not in loop.given
    assert "took too long" in loop.details.facts()["faults"][0]


def test_a_validation_in_between_is_left_out() -> None:
    loop = Loop(2, 8)

    def train(batch: Any) -> None:
        if len(loop.given) % 5 == 0:
            loop.details.call("interrupted")
            loop.loader.now += 1.0

    for one in loop.run(train).sizes:
        assert one.step_s == pytest.approx(STEP_S + ROW_S * one.batch_size)


def test_a_batch_that_is_changed_in_place_says_why_and_stays_as_it_was() -> None:
    loop = Loop(2, 8)
    seen = loop.run(lambda batch: batch["rows"].add_(1))
    assert seen.sizes == ()
    assert "in place" in (seen.why_ended or "")
    assert len(loop.given) == 1


class Unresizable(ScriptedLoader):
    """A loader whose batch no one can resize."""

    def take(self) -> Any:
        return {"rows": torch.eye(4).to_sparse()}


@pytest.mark.parametrize(
    ("loader", "asked", "reported"),
    [
        (None, {}, "no DataLoader"),
        (ScriptedLoader(), {"world_size": 2}, "2 ranks"),
        (ScriptedLoader(), {"graphs_captured": lambda: 1}, "torch.compile would compile anew for every size"),
        (ScriptedLoader(0), {}, "no further epoch"),
        (ScriptedLoader(30), {}, "first tensor is 30, not its loader's batch size, 4"),
        (Unresizable(), {}, "can't be resized"),
    ],
)
def test_a_loop_that_has_no_other_sizes_says_why(loader: Any, asked: dict[str, Any], reported: str) -> None:
    loop = Loop(8, **asked)
    seen = loop.run(source=loader)
    assert seen.sizes == ()
    assert reported in (seen.why_ended or "")
    assert loop.given == []


def test_what_was_timed_before_a_batch_could_not_be_made_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    original = torch.Tensor.clone

    def clone(tensor: torch.Tensor) -> torch.Tensor:
        if len(tensor) == 3:
            raise MemoryError("no room")
        return original(tensor)

    monkeypatch.setattr(torch.Tensor, "clone", clone)
    seen = Loop(2, 3, 4).run()
    assert [one.batch_size for one in seen.sizes] == [2]
    assert seen.why_ended == "no batch of 3 could be made: MemoryError: no room"


def test_each_size_has_a_peak_of_its_own_whatever_was_reserved_before() -> None:
    cuda = SimulatedCuda()
    cuda.hold(1000)

    def train(batch: Any) -> None:
        cuda.hold(100 * len(batch["rows"]))
        cuda.hold(-100 * len(batch["rows"]))

    seen = Loop(32, 2, 8, cuda=cuda).run(train)
    assert [one.peak_reserved_bytes for one in seen.sizes] == [4200, 1200, 1800]
    assert cuda.asked_devices == {"cuda:1"}
