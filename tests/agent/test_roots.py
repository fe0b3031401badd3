"""What is kept of the calls of a script's outermost modules."""

from collections.abc import Iterator

import pytest
import torch
from _tunekit_agent.model.roots import RootFinder


@pytest.fixture
def finder() -> Iterator[RootFinder]:
    faults: list[Exception] = []
    watching = RootFinder([], lambda *seen: None, lambda: False, faults.append, lambda *seen: None)
    watching.install(torch.nn.modules.module)
    yield watching
    watching.stop()
    assert faults == []


def inputs_of(finder: RootFinder) -> list[list[int]]:
    (root,) = finder.roots()
    return [one["sizes"] for one in root.facts()["inputs"]]


def test_the_sizes_are_those_of_the_latest_step_and_there_of_its_largest_call(finder: RootFinder) -> None:
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.zeros(500, 4)).sum().backward()  # a look at the model before the loop
    for rows in ((20, 8), (20, 6)):
        for count in rows:
            model(torch.zeros(count, 4)).sum().backward()
        finder.stepped(optimizer)
    assert inputs_of(finder) == [[20, 4]]
    model(torch.zeros(8, 4)).sum().backward()
    assert inputs_of(finder) == [[8, 4]]
