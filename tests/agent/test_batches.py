"""Bytes and samples of batches in every nesting."""

import sys
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from _tunekit_agent.batches import leading_size, size_bytes

Pair = namedtuple("Pair", "images labels")


@dataclass
class Sample:
    """A batch as a data class."""

    images: torch.Tensor
    names: list[str]


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
        ([{"images": IMAGES}, [LABELS, None]], BYTES),
        (np.zeros((4, 5), dtype=np.float32), 80),
        (Sample(IMAGES, ["cat"]), BYTES - 32 + sys.getsizeof("cat")),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_batch_has_the_bytes_of_its_data(batch: object, size: int) -> None:
    assert size_bytes(batch) == size
    assert leading_size(batch) == 4


def test_the_formula_of_an_image_batch() -> None:
    assert size_bytes(torch.empty(256, 3, 224, 224, device="meta")) == 154_140_672


def test_what_has_no_tensor_has_no_leading_size() -> None:
    assert leading_size(["a", "b", 3, None]) is None
    assert leading_size([]) is None
    assert leading_size(torch.tensor(1.0)) is None


def test_a_batch_that_holds_itself_ends() -> None:
    endless: list[object] = [LABELS]
    endless.extend([endless] * 10)
    assert size_bytes(endless) == 32
