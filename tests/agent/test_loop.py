"""The loop is learnt from the order of its fetches and steps."""

import itertools
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from _tunekit_agent.loader.info import LoaderInfo, epoch_of, repeats
from _tunekit_agent.model.loop import Loop
from torch.utils.data import DataLoader, RandomSampler, TensorDataset


class Scripted:
    """A script whose turns are written down: a letter is a fetch from that loader, "|" an optimizer step."""

    def __init__(self, addressed: str = "", **samples: int) -> None:
        self.samples = samples
        self.infos = {name: LoaderInfo((name,), 0) for name in sorted(samples)}
        loaders = SimpleNamespace(
            infos=list(self.infos.values()),
            address_of=lambda info: {"call_stack": info.call_stack, "ordinals": [0], "period": 1},
            is_addressed=lambda info: info.call_stack == (addressed,),
        )
        for info in loaders.infos:
            info.loader = lambda: None
        self.steps: dict[int, int] = {}
        self.optimizer = object()
        counted = SimpleNamespace(steps=self.steps, backwards=0, is_first=lambda optimizer: True)
        roots = SimpleNamespace(
            stepped=lambda optimizer: None,
            stop=lambda: None,
            roots=list,
            device_facts=lambda: {"type": "cpu"},
        )
        request: Any = SimpleNamespace(samples_per_step=None)
        self.loop = Loop(request, loaders, counted, roots, None, SimpleNamespace(stop=lambda: None))  # type: ignore[arg-type]

    def run(self, script: str) -> Loop:
        """Go through the turns; the loop concludes once it knows enough."""
        for turn in script:
            if turn != "|":
                info = self.infos[turn]
                self.loop.fetched(info)
                info.fetches += 1
                info.samples += self.samples[turn]
                continue
            self.steps[id(self.optimizer)] = self.steps.get(id(self.optimizer), 0) + 1
            if self.loop.complete:
                self.loop.step_counted(self.optimizer)
            elif self.loop.stepped(self.optimizer):
                self.loop.conclude()
        return self.loop

    def name_of(self, info: LoaderInfo | None) -> str:
        return info.call_stack[0] if info else ""

    @property
    def partners(self) -> str:
        return "".join(name for name, info in self.infos.items() if self.loop.is_partner(info))


@pytest.mark.parametrize(
    ("script", "training", "partners"),
    [
        ("ab|" * 9, "a", "b"),
        ("ba|" * 9, "b", "a"),
        ("abab|" * 9, "a", "b"),
        ("aab|" * 9, "b", "a"),
        ("aU|" * 9, "U", "a"),
        ("abc|" * 9, "a", "bc"),
        ("a" + "ab|" * 9, "a", "b"),
        ("vv" + "t|" * 9, "t", ""),
        ("t|t|t|vvvv" + "t|" * 9, "t", ""),
        ("t|t|v" * 9, "t", ""),
        ("t||" * 9, "t", ""),
    ],
)
def test_what_every_batch_is_read_with_is_part_of_the_loop(script: str, training: str, partners: str) -> None:
    scripted = Scripted(a=16, b=16, c=4, t=16, v=50, U=112)
    assert scripted.name_of(scripted.run(script).training) == training
    assert scripted.partners == partners


def test_a_loop_of_two_loaders_says_how_many_samples_each_gives() -> None:
    scripted = Scripted(a=16, U=112, v=50)
    loop = scripted.run("a" * 99 + "aU|" * 8)  # it looks through one of them at first
    assert [scripted.infos[name].facts.get("step_samples") for name in "aUv"] == [16, 112, None]
    assert loop.samples_ratio == pytest.approx(128 / 112)


def test_the_loader_that_has_the_knobs_trains_however_small_they_made_its_batches() -> None:
    scripted = Scripted(addressed="U", a=16, U=8)
    assert scripted.name_of(scripted.run("aU|" * 8).training) == "U"


@pytest.mark.parametrize(
    ("learning", "later", "learnt", "latest"),
    [
        ("t|" * 8, "tt|ttt|" + "tttt|" * 9, 1, 4),
        ("tttt|" * 8, ("tttt|" * 12 + "tt|") * 3, 4, 4),
        ("tttt|tt|" * 4, "tttt|tt|" * 6, 3, 4),
        ("t|" * 8, "tt|" * 2, 1, 1),
        ("t||" * 8, "t||" * 9, 1, 1),
    ],
)
def test_the_batches_of_a_step_are_those_of_the_latest_steps(
    learning: str, later: str, learnt: int, latest: int
) -> None:
    scripted = Scripted(t=16)
    loop = scripted.run(learning)
    assert loop.batches_per_step == learnt
    scripted.run(later)
    assert loop.recount() == (learnt != latest)
    assert loop.batches_per_step == latest


def test_a_thread_that_is_ahead_of_the_loop_accumulates_nothing() -> None:
    scripted = Scripted(t=16)
    scripted.loop._steps.backwards = 9  # type: ignore[misc]
    scripted.loop._roots.roots = lambda: [SimpleNamespace(forwards=9)]  # type: ignore[method-assign]
    thread = threading.Thread(target=lambda: scripted.run("t" * 60))
    thread.start()
    thread.join()
    loop = scripted.run("|" * 9)
    assert loop.complete
    assert loop.reads_ahead
    assert (loop.batches_per_step, loop.own_batch_samples) == (1, 16)


@pytest.mark.parametrize(("draws", "epoch"), [(500, (500, 32)), (10**10, (None, None))])
def test_a_sampler_that_never_ends_has_no_epoch(draws: int, epoch: tuple[int | None, int | None]) -> None:
    data = TensorDataset(torch.zeros(100, 2))
    loader = DataLoader(data, batch_size=16, sampler=RandomSampler(data, replacement=True, num_samples=draws))
    info = LoaderInfo(("a",), 0)
    info.loader, info.facts = lambda: loader, {"batch_size": 16}
    assert epoch_of(info) == epoch


class Endless:
    """A batch sampler that begins again at its end."""

    def __init__(self, sampler: Any) -> None:
        self.sampler = sampler

    def __iter__(self) -> Any:
        return itertools.chain.from_iterable(itertools.repeat(self.sampler))


@pytest.mark.parametrize("is_endless", [False, True])
def test_an_epoch_is_that_of_the_batch_sampler_which_a_loader_repeats(is_endless: bool) -> None:
    class Repeating(DataLoader[Any]):
        def __len__(self) -> int:
            return len(self.batch_sampler.sampler)  # type: ignore[union-attr]

    loader: Any = (Repeating if is_endless else DataLoader)(TensorDataset(torch.zeros(100, 2)), batch_size=16)
    if is_endless:
        object.__setattr__(loader, "batch_sampler", Endless(loader.batch_sampler))
    info = LoaderInfo(("a",), 0)
    info.loader, info.facts = lambda: loader, {"batch_size": 16}
    assert epoch_of(info) == (100, 7)
    assert repeats(info) == is_endless
    info.epoch_fetches = 7 * (1 + is_endless)
    assert info.samples_in(torch.zeros(4, 2)) == 4
    assert info.samples_in(torch.zeros(361, 2)) == 16, "the nodes of graphs"


@pytest.mark.parametrize(("sizes", "samples"), [((64, 64, 21, 22), (64, 64, 21, 22)), ((21, 64), (64, 64))])
def test_a_stream_may_end_in_as_many_small_batches_as_it_had_whole_ones(sizes: Any, samples: Any) -> None:
    info = LoaderInfo(("a",), 0)
    info.loader, info.facts = lambda: None, {"batch_size": 64}
    assert tuple(info.samples_in(torch.zeros(size, 2)) for size in sizes) == samples


def test_the_loader_that_is_built_again_is_followed_and_one_that_evaluates_is_not() -> None:
    scripted, model = Scripted(t=16), torch.nn.Identity()
    loop = scripted.run("t|" * 8)
    loop._roots.roots = lambda: [SimpleNamespace(module=model)]  # type: ignore[method-assign]
    for is_training, samples, is_followed in ((False, 9, False), (True, 9, True), (False, 9, True)):
        built = LoaderInfo(("t",), 1)
        built.facts["dataset_samples"] = samples
        model.train(is_training)
        loop.epoch_started(built)
        assert (loop.training is built, built.credits) == (is_followed, is_followed)
