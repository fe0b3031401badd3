"""A batch of another size has the values, dtypes and containers of the one that it is made of."""

from collections import OrderedDict, UserDict, namedtuple
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from _tunekit_agent.stages.replay import resized
from _tunekit_agent.stages.runner import Missing
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.rnn import pack_sequence

Pair = namedtuple("Pair", "first second")
TORCH_DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.uint8)
NUMPY_DTYPES = (np.float32, np.int64, np.bool_)


@dataclass(frozen=True)
class Held:
    """A batch as a data class that may not be changed."""

    first: Any
    second: Any


class Slim:
    """One that keeps its parts in slots."""

    __slots__ = ("first", "second")

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second


class Encoding(UserDict):  # type: ignore[type-arg]
    """A mapping of its own kind, as tokenizers give."""


class Shared:
    """A mapping whose copy shares what it holds."""

    def __init__(self, **held: Any) -> None:
        self.held = held

    def items(self) -> Any:
        return self.held.items()

    def __getitem__(self, key: str) -> Any:
        return self.held[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.held[key] = value


def tensors(size: int) -> Any:
    def made(dtype: torch.dtype, more: int) -> torch.Tensor:
        return torch.arange(size * more).reshape(size, more).to(dtype)

    return st.builds(made, st.sampled_from(TORCH_DTYPES), st.integers(1, 3))


def arrays(size: int) -> Any:
    def made(dtype: Any, more: int) -> Any:
        return np.arange(size * more).reshape(size, more).astype(dtype)

    return st.builds(made, st.sampled_from(NUMPY_DTYPES), st.integers(1, 3))


def nestings(size: int) -> Any:
    """Return batches of a size in nestings of all kinds, with parts of other sizes among them."""
    texts = st.just([f"text {i}" for i in range(size)])
    numbers = st.just(tuple(range(size)))
    others = st.sampled_from([None, 3, "name", torch.zeros(size + 1, 2), torch.tensor(1.0), {"epoch": 1}])
    leaves = st.one_of(tensors(size), arrays(size), texts, numbers, others)

    def containers(inner: Any) -> Any:
        pairs = st.tuples(inner, inner)
        return st.one_of(
            st.lists(inner, min_size=1, max_size=3).filter(lambda parts: len(parts) != size),
            pairs if size != 2 else st.tuples(inner, inner, inner),
            pairs.map(lambda pair: {"first": pair[0], "second": pair[1]}),
            pairs.map(lambda pair: OrderedDict(first=pair[0], second=pair[1])),
            pairs.map(lambda pair: Encoding(first=pair[0], second=pair[1])),
            pairs.map(lambda pair: Pair(*pair)),
            pairs.map(lambda pair: Held(*pair)),
            pairs.map(lambda pair: Slim(*pair)),
        )

    return st.recursive(leaves, containers, max_leaves=6)


def parts_of(item: Any) -> list[Any] | None:
    """Return what a container of the test holds, None for a leaf."""
    if isinstance(item, (dict, UserDict)):
        return list(item.values())
    if isinstance(item, (list, tuple)):
        return list(item)
    return [item.first, item.second] if isinstance(item, (Held, Slim)) else None


def check(before: Any, after: Any, size: int, wanted: int) -> None:
    """Check that a part is the same, or the same in another size."""
    assert type(after) is type(before)
    numbers = [i % size for i in range(wanted)]
    if isinstance(before, torch.Tensor) and before.ndim and len(before) == size:
        assert after.dtype == before.dtype
        assert torch.equal(after, before[numbers])
        assert after.is_contiguous()
        assert after.untyped_storage().data_ptr() != before.untyped_storage().data_ptr()
    elif isinstance(before, np.ndarray):
        assert after.dtype == before.dtype
        assert np.array_equal(after, before[numbers])
        assert not np.shares_memory(after, before)
    elif is_list_of_plain(before) and len(before) == size:
        assert list(after) == [before[i] for i in numbers]
    elif (parts := parts_of(before)) is not None:
        for part, other in zip(parts, parts_of(after) or [], strict=True):
            check(part, other, size, wanted)
    else:
        assert after is before


def is_list_of_plain(item: Any) -> bool:
    """Whether it is one value a sample; the fields of a named tuple are not, however many there are."""
    is_list = isinstance(item, (list, tuple)) and not hasattr(item, "_fields")
    return is_list and all(isinstance(part, (str, int)) for part in item)


def leaves(item: Any) -> list[Any]:
    """Return a batch's tensors and arrays, themselves and as they are now."""
    parts = parts_of(item)
    if parts is not None:
        return [leaf for part in parts for leaf in leaves(part)]
    return [(item, item.copy() if isinstance(item, np.ndarray) else item.clone())] if has_values(item) else []


def has_values(item: Any) -> bool:
    return isinstance(item, (torch.Tensor, np.ndarray))


@given(data=st.data(), size=st.integers(1, 5), wanted=st.integers(1, 12))
def test_any_nesting_has_all_of_its_parts_in_the_size_that_is_wanted(
    data: st.DataObject, size: int, wanted: int
) -> None:
    batch = {"rows": torch.arange(size), "more": data.draw(nestings(size))}
    before = leaves(batch)
    made = resized(batch, size, wanted)
    check(batch, made, size, wanted)
    assert len(made["rows"]) == wanted
    for (now, _), (then, values) in zip(leaves(batch), before, strict=True):
        assert now is then
        assert np.array_equal(
            np.asarray(now.float() if isinstance(now, torch.Tensor) else now), as_array(values)
        )


def as_array(values: Any) -> Any:
    return np.asarray(values.float() if isinstance(values, torch.Tensor) else values)


@pytest.mark.parametrize("wanted", [2, 4, 10])
def test_the_layout_of_images_is_kept(wanted: int) -> None:
    images = torch.randn(4, 3, 8, 8).to(memory_format=torch.channels_last)
    made = resized(images, 4, wanted)
    assert made.shape == (wanted, 3, 8, 8)
    assert made.is_contiguous(memory_format=torch.channels_last)


def test_a_batch_that_is_its_loaders_whole_buffer_takes_no_more_than_it_needs() -> None:
    buffer = torch.arange(1000)
    made = resized(buffer[:8], 8, 4)
    assert made.untyped_storage().nbytes() == 4 * 8


def test_a_tensor_that_is_held_twice_stays_one() -> None:
    rows = torch.ones(4, 2)
    made = resized({"rows": rows, "nested": [rows]}, 4, 8)
    assert made["nested"][0] is made["rows"]


def test_a_gradient_that_is_wanted_is_wanted_of_the_new_one() -> None:
    made = resized(torch.ones(4, requires_grad=True), 4, 2)
    assert made.requires_grad
    assert made.is_leaf


class Named(NamedTuple):
    """One with a text per sample and one text."""

    rows: torch.Tensor
    names: list[str]
    title: str


def test_texts_follow_their_samples_and_other_lists_stay() -> None:
    other = ["x", "y"]
    made = resized((Named(torch.arange(3), ["a", "b", "c"], "all"), other), 3, 5)
    assert made[0].names == ["a", "b", "c", "a", "b"]
    assert made[0].title == "all"
    assert made[1] is other


@pytest.mark.parametrize(
    ("batch", "reported"),
    [
        ([torch.ones(3, 4), "four"], "nothing in the batch has its size, 4"),
        (pack_sequence([torch.ones(3), torch.ones(1)]), "packed sequence"),
        ({"rows": torch.ones(4), "packed": pack_sequence([torch.ones(4)])}, "packed sequence"),
        (torch.eye(4).to_sparse(), "layout that can't be resized"),
        (Shared(rows=torch.ones(4)), "Shared of the batch takes no other parts"),
        (
            (torch.ones(4, 3), [{"boxes": torch.ones(2, 4)} for _ in range(4)]),
            "4 parts of kind dict, perhaps one per sample",
        ),
        ((torch.ones(4, 3), [torch.ones(2), torch.ones(1), torch.ones(4), torch.ones(3)]), "4 parts of kind"),
        ({"set": frozenset([torch.ones(4)])}, "frozenset of the batch takes no other parts"),
    ],
    ids=["none", "packed", "packed among others", "sparse", "shared", "boxes", "uneven", "set"],
)
def test_what_cannot_be_resized_is_told(batch: Any, reported: str) -> None:
    with pytest.raises(Missing, match=reported):
        resized(batch, 4, 8)


def test_a_mapping_that_could_not_be_copied_is_as_it_was() -> None:
    rows = torch.ones(4)
    batch = Shared(rows=rows)
    with pytest.raises(Missing):
        resized(batch, 4, 8)
    assert batch["rows"] is rows
