"""What is kept of the calls of a script's outermost modules, and when knobs reach them."""

import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from _tunekit_agent.apply import Applier
from _tunekit_agent.measure.record import model_bytes
from _tunekit_agent.model import knobs
from _tunekit_agent.model.roots import RootFinder, SeenModule
from _tunekit_agent.process import Owner
from torch import nn

from tunekit.records.attribution import ModelBytes
from tunekit.records.target import RootSeen


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


def test_the_sizes_are_those_of_the_largest_call_since_the_first_step(finder: RootFinder) -> None:
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.zeros(500, 4)).sum().backward()  # a look at the model before the loop
    for rows in ((20, 8), (20, 6)):
        for count in rows:
            model(torch.zeros(count, 4)).sum().backward()
        finder.stepped(optimizer)
    model(torch.zeros(8, 4)).sum().backward()  # an epoch's last batch
    assert inputs_of(finder) == [[20, 4]]


def lazy_model(is_shaped: bool = False) -> nn.Module:
    first = nn.LazyConv2d(8, 3), nn.LazyBatchNorm2d(), nn.Flatten()
    model = nn.Sequential(*first, nn.LazyLinear(4))
    if is_shaped:
        model(torch.zeros(2, 3, 8, 8))
    return model


def train(model: nn.Module, optimizer: torch.optim.Optimizer, finder: RootFinder) -> None:
    model(torch.randn(2, 3, 8, 8)).sum().backward()
    optimizer.step()
    finder.stepped(optimizer)


@pytest.mark.parametrize("is_shaped_before", [False, True], ids=["in the loop", "before the optimizer"])
def test_a_lazy_module_is_known_once_its_parameters_have_shapes(
    finder: RootFinder, is_shaped_before: bool
) -> None:
    model = lazy_model(is_shaped_before)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        train(model, optimizer, finder)
    (root,) = finder.roots()
    assert root.numel == sum(one.numel() for one in model.parameters()) == 1396
    assert (root.has_4d_weights, finder.cover_step()) == (True, True)


def test_knobs_reach_a_lazy_module_at_the_forward_that_follows_its_first() -> None:
    faults: list[Exception] = []
    known = SeenModule(torch, lazy_model(is_shaped=True), {}).facts()
    set_on: list[bool] = []

    def apply(torch: Any, seen: SeenModule) -> None:
        knobs.apply(torch, seen.module, {"channels_last": True}, "cpu")
        set_on.append(seen.module[0].weight.is_contiguous(memory_format=torch.channels_last))

    watching = RootFinder([known], apply, lambda: False, faults.append, lambda *seen: None)
    watching.install(torch.nn.modules.module)
    try:
        model = lazy_model()
        for _ in range(3):
            model(torch.randn(2, 3, 8, 8)).sum().backward()
    finally:
        watching.stop()
    assert (set_on, faults) == ([True], [])
    assert not model[0].weight.is_contiguous()


class Unhelpful(torch.Tensor):
    """A tensor that answers next to no call, though it has all of them."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ in ("__get__", "detach", "requires_grad_"):  # an attribute, or nn.Parameter's
            return super().__torch_function__(func, types, args, kwargs or {})
        raise TypeError(f"{func.__name__} is not for this kind")


def image() -> torch.Tensor:
    return torch.ones(2, 3, 2, 2)


KINDS: dict[str, Callable[[], torch.Tensor]] = {
    "lazy": nn.UninitializedBuffer,
    "meta": lambda: torch.empty(2, 3, 2, 2, device="meta"),
    "volume": lambda: torch.ones(2, 3, 2, 2, 2),
    "sparse": lambda: image().to_sparse(),
    "nested": lambda: torch.nested.nested_tensor([image(), image()[:, :2]]),
    "quantised": lambda: torch.quantize_per_tensor(image(), 0.1, 0, torch.qint8),
    "a kind of its own": lambda: image().as_subclass(Unhelpful),
}


@pytest.mark.filterwarnings("ignore")  # torch's, of kinds that are new, or old
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_parameter", [False, True], ids=["buffer", "parameter"])
def test_a_tensor_of_any_kind_is_looked_at_and_left_alone_where_knobs_are_none_of_its(
    kind: str, is_parameter: bool
) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3))
    odd = KINDS[kind]()
    if is_parameter:
        model.odd = nn.UninitializedParameter() if kind == "lazy" else nn.Parameter(odd, requires_grad=False)
    else:
        model.register_buffer("odd", odd)
    seen = SeenModule(torch, model, {})
    RootSeen.model_validate(seen.facts())
    knobs.apply(torch, seen.module, {"channels_last": True, "precision": "bf16"}, "cpu")
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert model(torch.ones(1, 3, 8, 8)).dtype is torch.float32
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    told = ModelBytes.model_validate(model_bytes([seen], [optimizer]))
    assert told.parameters_bytes >= 4 * (4 * 3 * 9 + 4)


def test_the_order_of_a_sharded_weight_is_left_to_what_shards_it(tmp_path: Path) -> None:
    tensors = pytest.importorskip("torch.distributed.tensor")
    store = f"file://{tmp_path / 'store'}"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        mesh = torch.distributed.init_device_mesh("cpu", (1,))
        model = nn.Conv2d(3, 4, 3)
        sharded = tensors.distribute_tensor(model.weight.detach(), mesh, [tensors.Shard(0)])
        model.weight = nn.Parameter(sharded)
        seen = SeenModule(torch, model, {})
        knobs.apply(torch, seen.module, {"channels_last": True}, "cpu")
        assert (seen.has_4d_weights, seen.numel) == (False, 4 * 3 * 9 + 4)
        assert model.weight.to_local().is_contiguous()
        told = ModelBytes.model_validate(model_bytes([seen], []))
        assert told.parameters_bytes == 4 * (4 * 3 * 9 + 4)
    finally:
        torch.distributed.destroy_process_group()


def test_channels_last_changes_nothing_in_a_resumed_training_with_a_fused_optimizer() -> None:
    weights = []
    for is_set in (False, True):
        torch.manual_seed(0)
        model, images = nn.Conv2d(3, 4, 3), torch.randn(2, 3, 8, 8)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1, fused=True)
        for channels_last in (False, is_set):
            knobs.apply(torch, model, {"channels_last": channels_last}, "cpu")
            optimizer.zero_grad()
            model(images).square().sum().backward()
            optimizer.step()
        weights.append(model.weight)
    torch.testing.assert_close(*weights)


def test_a_real_training_holds_no_module_once_its_knobs_are_set() -> None:
    asked: Any = SimpleNamespace(knobs={}, loader=None, roots=[], records=False, world_size=1)
    applier = Applier(asked, SimpleNamespace(emit=lambda *event, **facts: None), Owner())
    applier.roots.install(torch.nn.modules.module)
    model = nn.Linear(2, 1)
    gone = weakref.ref(model)
    model(torch.ones(1, 2))
    applier.first_steps(True)
    del model
    assert gone() is None


@pytest.mark.filterwarnings("ignore")  # torch's, of torch.jit
def test_a_compiled_model_is_traced_as_the_script_wrote_it() -> None:
    model = nn.Linear(2, 1)
    knobs.apply(torch, model, {"compile": True}, "cpu")
    assert torch.jit.trace(model, torch.ones(1, 2))(torch.ones(3, 2)).shape == (3, 1)


class Parts(list[torch.Tensor]):
    """A list that is made in a way of its own."""

    def __init__(self, *, of: list[torch.Tensor]) -> None:
        super().__init__(of)


class Couple(tuple[torch.Tensor, ...]):
    """A tuple that is made in a way of its own."""

    def __new__(cls, *, first: torch.Tensor) -> "Couple":
        return super().__new__(cls, (first,))


@pytest.mark.parametrize(
    ("wrap", "dtype"),
    [
        (lambda one: [one], torch.float32),
        (lambda one: (one,), torch.float32),
        (lambda one: {"logits": one}, torch.float32),
        (lambda one: Parts(of=[one]), torch.float32),
        (lambda one: nn.utils.rnn.PackedSequence(one, torch.tensor([2])), torch.float32),
        (lambda one: Couple(first=one), torch.bfloat16),  # it can't be made anew
    ],
    ids=["list", "tuple", "dict", "own list", "named tuple", "own tuple"],
)
def test_outputs_of_every_form_pass_a_root_under_autocast(
    wrap: Callable[[torch.Tensor], Any], dtype: torch.dtype
) -> None:
    class Wrapping(nn.Linear):
        def forward(self, rows: torch.Tensor) -> Any:
            return wrap(super().forward(rows))

    model = Wrapping(4, 2)
    knobs.apply(torch, model, {"precision": "bf16"}, "cpu")
    outputs = model(torch.ones(2, 4))
    (first, *_) = outputs.values() if isinstance(outputs, dict) else outputs
    assert type(outputs) is type(wrap(torch.ones(2, 4)))
    assert first.dtype is dtype


def broken(*_: object) -> None:
    raise RuntimeError("no")


@pytest.mark.parametrize("knob", ["channels_last", "precision", "compile"])
def test_a_knob_that_can_not_be_set_is_named(knob: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stubborn(nn.Linear):
        parameters = broken  # type: ignore[assignment]
        __dict__ = property(broken)  # type: ignore[assignment]

    monkeypatch.setattr(torch, "compile", broken)
    values = {"channels_last": True, "precision": "bf16", "compile": True}
    model = Stubborn.__new__(Stubborn)
    with pytest.raises(knobs.NotApplied) as raised:
        knobs.apply(torch, model, {knob: values[knob]}, "cpu")
    assert raised.value.knobs == (knob,)
    assert str(raised.value.__cause__) == "no"


def test_knobs_that_can_not_be_set_are_named_together_and_keep_no_other_from_being_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Unordered(nn.Linear):
        def parameters(self, *_: Any) -> Any:
            raise TypeError("no order")

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            assert (rows @ rows.T).dtype is torch.bfloat16
            return rows

    monkeypatch.setattr(torch, "compile", broken)
    model = Unordered(4, 2)
    with pytest.raises(knobs.NotApplied) as raised:
        knobs.apply(torch, model, {"channels_last": True, "precision": "bf16", "compile": True}, "cpu")
    causes = {knob: str(cause) for knob, cause in raised.value.causes.items()}
    assert causes == {"channels_last": "no order", "compile": "no"}
    assert model(torch.ones(1, 4)).shape == (1, 4)


def test_a_knob_that_there_is_no_memory_for_is_the_scripts_outcome() -> None:
    class Large(nn.Linear):
        def parameters(self, *_: Any) -> Any:
            raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(torch.OutOfMemoryError):
        knobs.apply(torch, Large(2, 2), {"channels_last": True}, "cpu")
