"""Bytes and samples of batches in every nesting."""

import sys
from collections import UserDict, namedtuple
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import numpy as np
import pytest
import torch
from _tunekit_agent.loader.batches import (
    BatchWatch,
    batch_facts,
    extent_of,
    leading_size,
    size_bytes,
    sizes_in,
)
from _tunekit_agent.loader.info import LoaderInfo

from tunekit.records.attribution import BatchSeen
from tunekit.records.target import InputSeen

Pair = namedtuple("Pair", "images labels")


@dataclass
class Sample:
    """A batch as a data class."""

    images: torch.Tensor
    names: list[str]


@dataclass
class Slim:
    """One that keeps its parts in slots."""

    __slots__ = ("ids", "images")
    images: torch.Tensor
    ids: torch.Tensor


class Picture:
    """What an imaging library gives: pixels behind methods."""

    size, mode = (20, 10), "RGB"

    def getbands(self) -> tuple[str, ...]:
        return ("R", "G", "B")


class Encoding(dict):
    """A mapping of its own kind, as tokenizers give."""


IMAGES = torch.zeros(4, 3, 8, 8)
LABELS = torch.zeros(4, dtype=torch.int64)
BYTES = 4 * 3 * 8 * 8 * 4 + 4 * 8


@pytest.mark.parametrize(
    ("batch", "size"),
    [
        (IMAGES, BYTES - 32),
        ([IMAGES, LABELS], BYTES),
        ((IMAGES, LABELS), BYTES),
        (Pair(IMAGES, LABELS), BYTES),
        ({"images": IMAGES, "labels": LABELS}, BYTES),
        (Encoding(images=IMAGES, labels=LABELS), BYTES),
        (UserDict(images=IMAGES, labels=LABELS), BYTES),
        (Slim(IMAGES, LABELS), BYTES),
        ((IMAGES, [Picture()]), BYTES - 32 + 600),
        ((IMAGES, np.float64(1.5)), BYTES - 32 + 8),
        ([{"images": IMAGES}, [LABELS, None]], BYTES),
        (np.zeros((4, 5), dtype=np.float32), 80),
        (Sample(IMAGES, ["cat"]), BYTES - 32 + sys.getsizeof("cat")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_batch_has_the_bytes_of_its_data(batch: object, size: int) -> None:
    assert size_bytes(batch) == size
    assert leading_size(batch) == 4


def test_a_batch_that_holds_itself_ends() -> None:
    endless: list[object] = [LABELS]
    endless.extend([endless] * 10)
    assert size_bytes(endless) == 32


def leaves_of(batch: object) -> list[tuple[str, str, str | None, tuple[int, ...], int]]:
    record = BatchSeen.model_validate(batch_facts(batch, 4))
    return [(leaf.path, leaf.kind, leaf.dtype, leaf.shape, leaf.bytes) for leaf in record.leaves]


def test_leaves_are_told_in_the_order_of_the_batch() -> None:
    batch = [{"image": IMAGES, "text": ["a"]}, Pair(LABELS, np.zeros(3, np.int16)), None, 7, Picture()]
    assert leaves_of(batch) == [
        ("[0]['image']", "tensor", "float32", (4, 3, 8, 8), 3072),
        ("[0]['text'][0]", "text", None, (), sys.getsizeof("a")),
        ("[1].images", "tensor", "int64", (4,), 32),
        ("[1].labels", "array", "int16", (3,), 6),
        ("[3]", "number", None, (), sys.getsizeof(7)),
        ("[4]", "other", None, (), 600),
    ]
    assert leaves_of(Slim(IMAGES, LABELS))[1][:2] == (".ids", "tensor")
    assert leaves_of(np.float32(1))[0][1:3] == ("number", "float32")


def test_the_largest_leaves_are_kept_and_the_rest_counted() -> None:
    record = BatchSeen.model_validate(batch_facts([torch.zeros(size) for size in range(1, 101)], 4))
    assert [leaf.shape for leaf in record.leaves] == [(size,) for size in range(37, 101)]
    assert record.total_bytes == 5050 * 4


def test_what_is_no_tensor_goes_through_a_pipe() -> None:
    facts = batch_facts((IMAGES, np.zeros(100), b"bytes"), 4)
    assert facts["shared_bytes"] == 4096
    assert facts["piped_bytes"] == 800 + sys.getsizeof(b"bytes")
    assert facts["total_bytes"] == 3072 + facts["piped_bytes"]


@pytest.mark.filterwarnings("ignore:.*:UserWarning")
@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.ones(1024),
        lambda: torch.ones(1025),
        lambda: torch.ones(5000)[:3],
        lambda: torch.ones(10, 1).expand(10, 900),
        lambda: torch.ones(0),
        lambda: [(whole := torch.ones(2000))[:10], whole[10:], whole],
        lambda: torch.eye(100).to_sparse(),
        lambda: torch.eye(100).to_sparse_csr(),
        lambda: torch.nested.nested_tensor([torch.ones(3), torch.ones(5)]),
    ],
    ids=["page", "page-and-more", "slice", "expanded", "empty", "one-storage", "coo", "csr", "nested"],
)
def test_shared_bytes_are_what_torch_puts_into_shared_memory(make) -> None:
    batch = make()
    reported = batch_facts(batch, 4)["shared_bytes"]
    before = shared_files()
    ForkingPickler.dumps(batch)  # as a worker hands it over
    taken = {path: size for path, size in shared_files().items() if path not in before}
    assert reported == sum(taken.values())


def shared_files() -> dict[str, int]:
    """Return what this process holds open in /dev/shm, in bytes of whole blocks."""
    found = {}
    for link in Path("/proc/self/fd").iterdir():
        try:
            if (path := str(link.readlink())).startswith("/dev/shm/torch_"):
                found[path] = link.stat().st_blocks * 512
        except OSError:
            continue
    return found


def loader(batch_size: int | None) -> LoaderInfo:
    info = LoaderInfo(("train.py:1+2",), 0)
    info.facts = {"batch_size": batch_size}
    return info


def test_a_batch_is_scaled_until_a_full_one_comes() -> None:
    watch, info = BatchWatch(), loader(8)
    watch.take(info, torch.zeros(6, 1024), 6, is_training=True)
    assert watch.facts(info)["batch_bytes"] == 8 * 4096
    assert watch.facts(info)["batch"]["samples"] == 8
    watch.take(info, torch.zeros(8, 1025), 8, is_training=True)
    watch.take(info, torch.zeros(8, 9), 8, is_training=True)
    assert watch.facts(info)["batch_bytes"] == 8 * 1025 * 4


def test_the_training_loaders_batch_is_told_though_another_came_later() -> None:
    watch, training, other = BatchWatch(), loader(8), loader(2)
    watch.take(training, torch.zeros(8), 8, is_training=False)
    watch.take(other, torch.zeros(2), 2, is_training=False)
    assert watch.facts(training)["batch_bytes"] == 32
    assert watch.facts(None)["batch"] is None


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"ids": [1, 2, 3]}, {"ids": [1, 2]}),
        (("abc", 0), ("ab", 0)),
        (torch.ones(2, 6), torch.ones(3, 4)),
        ([np.zeros(4), torch.ones(3)], [np.zeros(5), torch.ones(3)]),
    ],
)
def test_samples_of_other_sizes_have_other_extents(one: object, other: object):
    assert extent_of(one) != extent_of(other)


def test_a_samples_extent_does_not_depend_on_its_values():
    one = {"image": torch.zeros(3, 4), "label": 0, "name": "a.png", "at": np.float32(0.5)}
    other = {"image": torch.ones(3, 4), "label": 1 << 40, "name": "b.png", "at": np.float32(1e9)}
    assert extent_of(one) == extent_of(other)
    assert extent_of(one)[0] == 12 * 4 + 8 + len("a.png") + 8


def sizes_of(*arguments: object, **keywords: object) -> dict[str, tuple[int, ...]]:
    """The dimensions of what a module would be called with, as the parent's record takes them."""
    reported = [InputSeen.model_validate(one) for one in sizes_in(arguments, keywords)]
    return {one.path: one.sizes for one in reported}


def test_the_sizes_of_inputs_are_told_by_their_place():
    hidden = (torch.zeros(1, 20, 8), torch.zeros(1, 20, 8))
    assert sizes_of(torch.zeros(35, 20), hidden, None, 0.5, mask=np.zeros((20, 3))) == {
        "[0]": (35, 20),
        "[1]": (2,),
        "[1][0]": (1, 20, 8),
        "[1][1]": (1, 20, 8),
        "['mask']": (20, 3),
    }


class Secretive:
    """Answers no question, not even for its class."""

    def __getattribute__(self, name: str) -> object:
        raise RuntimeError("this is no business of yours")


class Pretending:
    """Looks like a container, an array and a tensor, and is none."""

    shape = dtype = nbytes = property(lambda self: 1 / 0)

    def items(self) -> list[int]:
        return [1, 2]

    def __len__(self) -> int:
        raise ValueError("no length")


class Unwritable(str):
    """A key that can't be written."""

    def __repr__(self) -> str:
        raise ValueError("not in words")

    __hash__ = str.__hash__


@pytest.mark.parametrize(
    "odd",
    [
        Secretive,
        Pretending,
        torch.nn.UninitializedParameter,
        lambda: torch.ones(2, device="meta"),
        lambda: {Unwritable("ids"): torch.ones(2)},
    ],
    ids=["secretive", "pretending", "lazy", "meta", "key"],
)
def test_what_answers_nothing_is_a_part_like_any_other(odd) -> None:
    batch = [IMAGES, odd()]
    assert leading_size(batch) == 4
    assert BatchSeen.model_validate(batch_facts(batch, 4)).leaves[0].path == "[0]"
    assert extent_of(batch)[0] >= 4 * 3 * 8 * 8 * 4
    assert sizes_of(batch)["[0][0]"] == (4, 3, 8, 8)
