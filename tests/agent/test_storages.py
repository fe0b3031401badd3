"""Storages are counted once, on the device that is asked for."""

import torch
from _tunekit_agent.loader.storages import Storages, data_bytes, is_tensor


def test_a_storage_counts_once_and_as_a_whole() -> None:
    whole = torch.zeros(100)
    storages = Storages()
    for view in (whole[:10], whole[50:], whole.view(10, 10)):
        storages.add(view)
    assert storages.bytes == 400
    assert storages.shared_bytes == 4096


def test_another_device_does_not_count() -> None:
    storages = Storages("cpu")
    storages.add(torch.empty(100, device="meta"))
    assert storages.bytes == 0
    storages = Storages(torch.device("meta"))
    storages.add(torch.empty(100, device="meta"))
    assert storages.bytes == 400


def test_a_sharded_tensor_counts_with_its_local_part() -> None:
    class Sharded(torch.Tensor):
        """A tensor of which this process holds a part."""

    shard = torch.zeros(100).as_subclass(Sharded)
    shard._local_tensor = torch.zeros(25)
    assert data_bytes(shard) == 100
    assert is_tensor(shard)


def test_a_sparse_tensor_counts_with_indices_and_values() -> None:
    assert data_bytes(torch.eye(10).to_sparse()) == 10 * 2 * 8 + 10 * 4


def test_what_holds_its_data_in_its_own_way_counts_nothing() -> None:
    class Odd:
        element_size = untyped_storage = None

        @property
        def is_nested(self) -> bool:
            raise RuntimeError("not this one")

    assert data_bytes(Odd()) == 0
