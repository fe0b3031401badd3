"""What trains several ranks together, as the agent sees it with a process group of one rank."""

import contextlib
import inspect
import sys
import types
from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from _tunekit_agent.model import knobs
from _tunekit_agent.model.data_parallel import DataParallelWatch
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel, distributed

from tunekit.records.data_parallel import DataParallelKind, DataParallelSeen

BYTES = 4 * (8 * 4 + 4)
STEPS = 8
"""Of an optimizer, after which a loop is known."""
CPU = torch.device("cpu")


@pytest.fixture(scope="module", autouse=True)
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    store = tmp_path_factory.mktemp("group") / "store"
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@contextlib.contextmanager
def watching(no_sync: bool) -> Iterator[DataParallelWatch]:
    """Hang a watch into torch's module, and take it out again."""
    original, watch = DistributedDataParallel.__init__, DataParallelWatch(no_sync)
    watch.install(distributed)
    try:
        yield watch
    finally:
        DistributedDataParallel.__init__ = original


def seen_by(watch: DataParallelWatch, *roots: nn.Module, world_size: int = 1) -> DataParallelSeen | None:
    watch.found(list(roots))
    for _ in range(STEPS):
        watch.stepped()
    facts = watch.facts(CPU, world_size)
    return None if facts is None else DataParallelSeen.model_validate(facts)


def seen(*roots: nn.Module, world_size: int = 1) -> DataParallelSeen | None:
    return seen_by(DataParallelWatch(no_sync=False), *roots, world_size=world_size)


def net() -> nn.Linear:
    return nn.Linear(8, 4)


@pytest.mark.parametrize("no_sync", [False, True])
def test_data_parallel_is_known_with_its_backend_gradients_and_whether_it_sums_them(
    no_sync: bool,
) -> None:
    with watching(no_sync) as watch:
        found = seen_by(watch, nn.Sequential(DistributedDataParallel(net())))
    assert found == DataParallelSeen(
        kind=DataParallelKind.DDP, backend="gloo", gradient_bytes=BYTES, syncs_gradients=not no_sync
    )


def test_torchs_class_stays_what_it_is_for_those_who_subclass_it() -> None:
    class Own(DistributedDataParallel):
        def __init__(self, module: nn.Module, name: str) -> None:
            super().__init__(module, bucket_cap_mb=9)
            self.name = name

    original = DistributedDataParallel.__init__
    with watching(no_sync=False):
        assert DistributedDataParallel.__init__ is original
    with watching(no_sync=True) as watch:
        assert inspect.signature(DistributedDataParallel.__init__) == inspect.signature(original)
        found = seen_by(watch, Own(net(), "own"))
        with pytest.raises(TypeError, match="no_such"):
            DistributedDataParallel(net(), no_such=1)
    assert found is not None and found.syncs_gradients is False


def test_gradients_stay_each_ranks_own_after_some_steps_where_that_is_asked() -> None:
    summed: list[int] = []

    def counted(state: None, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        summed.append(bucket.index())
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    def sums(no_sync: bool, static_graph: bool = False) -> int:
        summed.clear()
        with watching(no_sync) as watch:
            model = DistributedDataParallel(net(), static_graph=static_graph)
            model.register_comm_hook(None, counted)
            for _ in range(STEPS):
                model.zero_grad()
                model(torch.ones(2, 8)).sum().backward()
                assert model.module.weight.grad is not None
                watch.stepped()
        return len(summed)

    assert sums(no_sync=False) == STEPS
    assert 0 < sums(no_sync=True) < STEPS
    assert 0 < sums(no_sync=True, static_graph=True) < STEPS


def test_a_no_sync_of_the_scripts_own_is_not_taken_for_one_of_the_step() -> None:
    model, watch = DistributedDataParallel(net()), DataParallelWatch(no_sync=False)
    watch.found([model])
    watch.stepped()
    with model.no_sync():
        facts = watch.facts(CPU, 1)
    assert facts is not None and facts["syncs_gradients"] is True


def test_the_bytes_are_of_the_gradients_that_are_summed() -> None:
    model = nn.Sequential(net(), net(), net().to(torch.bfloat16))
    model[0].weight.requires_grad_(False)
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ["1.bias"])
    found = seen(DistributedDataParallel(model))
    assert found is not None
    assert found.gradient_bytes == 4 * 4 + 4 * 8 * 4 + BYTES // 2


def test_a_hook_in_the_sums_place_has_a_name() -> None:
    hooks = pytest.importorskip("torch.distributed.algorithms.ddp_comm_hooks.default_hooks")
    model = DistributedDataParallel(net())
    model.register_comm_hook(None, hooks.fp16_compress_hook)
    found = seen(model)
    assert found is not None and found.comm_hook == "fp16_compress_hook"


def test_a_model_of_sharded_parameters_is_known_with_their_whole_bytes() -> None:
    sharding = pytest.importorskip("torch.distributed.fsdp")
    if not hasattr(sharding, "fully_shard"):
        pytest.skip("this torch has no fully_shard")
    model = nn.Sequential(net())
    sharding.fully_shard(model, mesh=dist.init_device_mesh("cpu", (1,)))
    found = seen(model)
    assert found is not None
    assert (found.kind, found.gradient_bytes, found.syncs_gradients) == (DataParallelKind.FSDP2, BYTES, None)


def test_a_model_of_flat_parameters_is_known() -> None:
    model = FullyShardedDataParallel.__new__(FullyShardedDataParallel)  # on a CPU torch builds none
    nn.Module.__init__(model)
    found = seen(nn.Sequential(model))
    assert found is not None
    assert (found.kind, found.gradient_bytes) == (DataParallelKind.FSDP, None)


def test_gradients_that_a_script_sums_by_itself_have_no_wrapper() -> None:
    assert seen(net(), world_size=2) == DataParallelSeen(
        kind=DataParallelKind.NONE, backend="gloo", gradient_bytes=None, syncs_gradients=None
    )


def test_a_wrapped_module_keeps_its_memory_format_for_it_would_get_its_gradients_in_the_old_one() -> None:
    model = DistributedDataParallel(nn.Conv2d(3, 4, 3), find_unused_parameters=True)
    with pytest.raises(knobs.NotApplied):
        knobs.apply(torch, nn.Sequential(model), {"channels_last": True}, "cpu")
    assert model.module.weight.is_contiguous()


@pytest.mark.parametrize("world_size", [1, 2])
def test_processes_without_a_group_are_reported_where_there_are_several(
    world_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = types.SimpleNamespace(is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "torch.distributed.distributed_c10d", alone)
    found = seen(net(), world_size=world_size)
    assert (found is not None) is (world_size > 1)
    assert found is None or found.backend is None


def test_the_backend_is_that_of_the_roots_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist.distributed_c10d, "get_backend", lambda: "cpu:gloo,cuda:nccl")
    found = seen(net())
    assert found is not None and found.backend == "gloo"
