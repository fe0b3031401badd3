"""A batch that is handed out again and again keeps its tensors and lends its containers."""

from collections import OrderedDict, UserDict
from typing import Any, NamedTuple

import torch
from _tunekit_agent.stages.replay import ReplayedBatch
from torch.nn.utils.rnn import PackedSequence, pack_sequence


class Pair(NamedTuple):
    rows: torch.Tensor
    more: dict[str, Any]


def test_a_script_may_take_its_copy_apart() -> None:
    rows, labels = torch.ones(2, 3), torch.zeros(2)
    replayed = ReplayedBatch({"rows": rows, "nested": [labels, Pair(rows, {"names": ["a", "b"]})]})
    first = replayed.copy()
    first.pop("rows")
    first["nested"][1].more["names"].clear()
    first["nested"].pop(0)

    second = replayed.copy()
    assert second["rows"] is rows
    assert second["nested"][0] is labels
    assert isinstance(second["nested"][1], Pair)
    assert second["nested"][1].more == {"names": ["a", "b"]}


def test_containers_of_other_kinds_keep_their_kind() -> None:
    packed = pack_sequence([torch.ones(3), torch.ones(2)])
    user = UserDict(rows=torch.ones(2))
    ordered = OrderedDict(rows=torch.ones(2))
    copied = ReplayedBatch((packed, user, ordered, "text", torch.Size([1]))).copy()
    assert isinstance(copied[0], PackedSequence)
    assert isinstance(copied[2], OrderedDict)
    copied[1].pop("rows")
    copied[2].pop("rows")
    assert "rows" in user
    assert "rows" in ordered
    assert copied[3:] == ("text", torch.Size([1]))


def test_a_change_in_place_is_seen_wherever_the_tensor_is() -> None:
    tensor = torch.ones(3)
    replayed = ReplayedBatch([{"deep": (tensor,)}])
    assert not replayed.was_changed
    replayed.copy()[0]["deep"][0].add_(1)
    assert replayed.was_changed
