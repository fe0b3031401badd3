"""DistributedDataParallel as the agent sets it and tells of it, with a process group of one rank."""

import contextlib
import inspect
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from _tunekit_agent.model.data_parallel import DataParallelWatch
from _tunekit_agent.model.knobs import NotApplied
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel, distributed

from tunekit.records.data_parallel import DataParallelKind, DataParallelSeen, DdpSettings

BYTES = 4 * (8 * 4 + 4)
STEPS = 8
"""Of an optimizer, after which a loop is known."""
CPU = torch.device("cpu")
EACH: dict[str, Any] = {"gradient_as_bucket_view": True, "static_graph": True, "bucket_cap_mb": 0.5}


@pytest.fixture(scope="module", autouse=True)
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    store = tmp_path_factory.mktemp("group") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


class Watched:
    """A watch that is hung into torch's module, and what it said of its own faults."""

    def __init__(self, **settings: Any) -> None:
        self.faults: list[NotApplied] = []
        self.watch = DataParallelWatch(settings, self.faults.append)

    def seen(self, *roots: nn.Module, world_size: int = 1) -> DataParallelSeen | None:
        self.watch.found(list(roots))
        for _ in range(STEPS):
            self.watch.stepped()
        facts = self.watch.facts(CPU, world_size)
        return None if facts is None else DataParallelSeen.model_validate(facts)


@contextlib.contextmanager
def watching(**settings: Any) -> Iterator[Watched]:
    """Hang a watch into torch's module, and take it out again."""
    original, watched = DistributedDataParallel.__init__, Watched(**settings)
    watched.watch.install(distributed)
    try:
        yield watched
    finally:
        DistributedDataParallel.__init__ = original


def net() -> nn.Linear:
    return nn.Linear(8, 4)


def test_each_setting_is_in_force() -> None:
    with watching(**EACH, sync_gradients=False) as watched:
        seen = watched.seen(DistributedDataParallel(net()))
    assert seen is not None
    assert seen.settings == DdpSettings(**EACH, sync_gradients=False)
    assert (seen.kind, seen.backend, seen.gradient_bytes, seen.comm_hook) == ("ddp", "gloo", BYTES, None)
    assert watched.faults == []


@pytest.mark.parametrize("name", EACH)
def test_what_is_not_set_stays_as_the_script_has_it(name: str) -> None:
    own: dict[str, Any] = {"gradient_as_bucket_view": False, "static_graph": False, "bucket_cap_mb": 7}
    with watching(**{name: EACH[name]}) as watched:
        seen = watched.seen(DistributedDataParallel(net(), **own))
    assert seen is not None
    assert seen.settings == DdpSettings(**{**own, name: EACH[name]}, sync_gradients=True)


def test_without_a_setting_torchs_class_is_left_alone() -> None:
    original = DistributedDataParallel.__init__
    with watching():
        assert DistributedDataParallel.__init__ is original


def test_words_in_their_places_keep_them() -> None:
    with watching(bucket_cap_mb=3.0) as watched:
        model = DistributedDataParallel(net(), None, None, 1)  # its last one is dim
    assert (model.dim, model.bucket_bytes_cap) == (1, 3 << 20)
    assert watched.faults == []


def test_the_class_stays_what_it_is_for_those_who_subclass_it_and_ask_for_its_arguments() -> None:
    class Own(DistributedDataParallel):
        def __init__(self, module: nn.Module, name: str) -> None:
            super().__init__(module, bucket_cap_mb=9)
            self.name = name

    before = inspect.signature(DistributedDataParallel.__init__)
    with watching(gradient_as_bucket_view=True) as watched:
        model = Own(net(), "own")
        assert inspect.signature(DistributedDataParallel.__init__) == before
        seen = watched.seen(nn.Sequential(model))  # another module may be the outermost
    assert type(model) is Own and isinstance(model, DistributedDataParallel)
    assert seen is not None and seen.settings is not None
    assert (model.name, seen.settings.bucket_cap_mb, seen.settings.gradient_as_bucket_view) == (
        "own",
        9,
        True,
    )


def test_gradients_stay_each_ranks_own_after_some_steps_where_that_is_asked() -> None:
    summed: list[int] = []

    def counted(state: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        summed.append(bucket.index())
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    def sums(**settings: Any) -> int:
        summed.clear()
        with watching(**settings) as watched:
            model = DistributedDataParallel(net())
            model.register_comm_hook(None, counted)
            for _ in range(STEPS):
                model.zero_grad()
                model(torch.ones(2, 8)).sum().backward()
                assert model.module.weight.grad is not None
                watched.watch.stepped()
        return len(summed)

    assert sums(sync_gradients=True) == STEPS
    assert 0 < sums(sync_gradients=False) < STEPS
    assert 0 < sums(sync_gradients=False, static_graph=True) < STEPS


def test_a_no_sync_of_the_scripts_own_is_not_taken_for_one_of_the_step() -> None:
    with watching() as watched:
        model = DistributedDataParallel(net())
        watched.watch.found([model])
        watched.watch.stepped()
        with model.no_sync():
            facts = watched.watch.facts(CPU, 1)
    assert facts is not None and facts["settings"]["sync_gradients"] is True


def test_a_script_that_takes_the_setting_back_is_told() -> None:
    with watching(sync_gradients=False) as watched:
        model = DistributedDataParallel(net())
        seen = watched.seen(model)
        assert seen is not None and seen.settings is not None and not seen.settings.sync_gradients
        model.require_backward_grad_sync = True
        watched.watch.stepped()
        facts = watched.watch.facts(CPU, 1)
    assert facts is not None and facts["settings"]["sync_gradients"]


def test_a_setting_that_it_can_not_be_built_with_is_told_and_left_out() -> None:
    with watching(bucket_cap_mb="a size") as watched:
        model = DistributedDataParallel(net(), bucket_cap_mb=5)
    assert model.bucket_bytes_cap == 5 << 20
    assert [one.knobs for one in watched.faults] == [("bucket_cap_mb",)]
    assert isinstance(watched.faults[0].__cause__, ValueError)


@pytest.mark.parametrize("more", [{"no_such": 1}, {"delay_all_reduce_named_params": []}])
def test_what_the_script_itself_does_wrong_is_raised_and_is_no_fault(more: dict[str, Any]) -> None:
    with watching(**EACH) as watched, pytest.raises((TypeError, ValueError)) as raised:
        DistributedDataParallel(net(), **more)
    with pytest.raises(raised.type) as bare:
        DistributedDataParallel(net(), **more)
    assert str(raised.value) == str(bare.value)
    assert watched.faults == []


def test_the_bytes_are_of_the_gradients_that_are_summed() -> None:
    model = nn.Sequential(net(), net(), net().to(torch.bfloat16))
    model[0].weight.requires_grad_(False)
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ["1.bias"])
    seen = Watched().seen(DistributedDataParallel(model))
    assert seen is not None
    assert seen.gradient_bytes == 4 * 4 + 4 * 8 * 4 + BYTES // 2


def test_a_hook_in_the_sums_place_has_a_name() -> None:
    hooks = pytest.importorskip("torch.distributed.algorithms.ddp_comm_hooks.default_hooks")
    model = DistributedDataParallel(net())
    model.register_comm_hook(None, hooks.fp16_compress_hook)
    seen = Watched().seen(model)
    assert seen is not None and seen.comm_hook == "fp16_compress_hook"


def test_a_model_of_sharded_parameters_is_known_with_their_whole_bytes() -> None:
    sharding = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(sharding, "fully_shard"):
        pytest.skip("this torch has no fully_shard")
    model = nn.Sequential(net())
    sharding.fully_shard(model, mesh=dist.init_device_mesh("cpu", (1,)))
    seen = Watched().seen(model)
    assert seen is not None
    assert (seen.kind, seen.gradient_bytes, seen.settings) == (DataParallelKind.FSDP2, BYTES, None)


def test_a_model_of_flat_parameters_is_known() -> None:
    model = FullyShardedDataParallel.__new__(FullyShardedDataParallel)  # on a CPU torch builds none
    nn.Module.__init__(model)
    seen = Watched().seen(nn.Sequential(model))
    assert seen is not None
    assert (seen.kind, seen.gradient_bytes) == (DataParallelKind.FSDP, None)


def test_gradients_that_a_script_sums_by_itself_have_no_wrapper() -> None:
    seen = Watched().seen(net(), world_size=2)
    assert seen == DataParallelSeen(
        kind=DataParallelKind.NONE, backend="gloo", gradient_bytes=None, settings=None
    )


@pytest.mark.parametrize(("world_size", "is_told"), [(1, False), (2, True)])
def test_processes_without_a_group_are_told_where_there_are_several(
    world_size: int, is_told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = types.SimpleNamespace(is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "torch.distributed.distributed_c10d", alone)
    seen = Watched().seen(net(), world_size=world_size)
    assert (seen is not None) is is_told
    assert seen is None or seen.backend is None


def test_of_a_group_with_a_backend_for_each_device_the_roots_one_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dist.distributed_c10d, "get_backend", lambda: "cpu:gloo,cuda:nccl")
    seen = Watched().seen(net())
    assert seen is not None and seen.backend == "gloo"
