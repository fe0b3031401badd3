"""An iterable data set that asks which worker it is in can have more workers; another may not."""

from collections.abc import Iterator
from typing import Any

import torch.utils.data
from _tunekit_agent.loader.info import shards_itself
from torch.utils.data import IterableDataset, get_worker_info


class Plain(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


class Asking(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        info = torch.utils.data.get_worker_info()
        return iter(range(info.id if info else 0, 10, info.num_workers if info else 1))


class AskingByName(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter([0 if get_worker_info() is None else 1])


def share() -> int:
    info = get_worker_info()
    return info.id if info else 0


class AskingThroughAFunction(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(range(share(), 10))


class AskingInAMethod(IterableDataset[int]):
    def _share(self) -> Any:
        return get_worker_info()

    def __iter__(self) -> Iterator[int]:
        return iter([0 if self._share() is None else 1])


class Pipeline(IterableDataset[int]):
    """Stages in a list, as webdataset has them."""

    def __init__(self) -> None:
        self.pipeline = [list(range(10)), lambda samples: samples, lambda samples: samples[share() :]]

    def __iter__(self) -> Iterator[int]:
        return iter([])


class Endless(IterableDataset[int]):
    """A data set that holds itself."""

    def __init__(self) -> None:
        self.me = self

    def __iter__(self) -> Iterator[int]:
        return iter(range(10))


def test_a_data_set_that_asks_shards_itself():
    for dataset in (Asking(), AskingByName(), AskingThroughAFunction(), AskingInAMethod(), Pipeline()):
        assert shards_itself(dataset)


def test_a_data_set_that_never_asks_does_not():
    assert not shards_itself(Plain())
    assert not shards_itself(Endless())
