"""Two small sizes of a real step, traced in a scripted loop."""

import importlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from _tunekit_agent.loader.source import Replay
from _tunekit_agent.stages.runner import StageRunner
from _tunekit_agent.stages.trace import cuda_memory, stage
from _tunekit_agent.stages.trace.dry import DrySteps
from _tunekit_agent.stages.trace.stage import LoopTrace, TracedSteps
from build_loop import loop_of
from real_trials import ZOO
from torch import nn
from torch.utils._python_dispatch import _get_current_dispatch_mode

from tunekit.predict.vram.predict import MemoryPrediction
from tunekit.predict.vram.trace import AllocationTrace, in_order
from tunekit.records.details import TraceSeen
from tunekit.records.prediction import PURPOSES, Purpose, StepTrace

WIDTH = 16


@pytest.fixture(autouse=True)
def _torch_keeps_its_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave torch's kernels to the other tests of this process; theirs are tested in one of their own."""
    monkeypatch.setattr(cuda_memory, "take", lambda torch: None)


class ScriptedLoader:
    """A loader of full batches, that may end."""

    def __init__(self, size: int = 8, batch_size: int | None = 8, ends: bool = False) -> None:
        self.info = self
        self.facts = {"batch_size": batch_size}
        self._size, self._ends = size, ends

    def take(self) -> Any:
        if self._ends:
            raise StopIteration
        return {"rows": torch.randn(self._size, WIDTH), "names": ["one"] * self._size}


class Loop:
    """A training loop, its observer's view of it, and the stage that looks at it."""

    def __init__(self, folder: Path, model: nn.Module | None = None, **known: Any) -> None:
        self.folder = folder
        self.model = model or nn.Sequential(nn.Linear(WIDTH, 32), nn.ReLU(), nn.Linear(32, 1))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9)
        self.per_step = known.pop("batches_per_step", 1)
        loop = loop_of(
            trial_folder=str(folder),
            batches_per_step=self.per_step,
            dry=known.pop("dry", DrySteps(torch, lambda: False)),
            modules=lambda: [self.model],
            parameters=lambda: list(self.model.parameters()),
            buffers=lambda: list(self.model.buffers()),
            optimizers=lambda: [self.optimizer],
            **known,
        )
        self.stage = LoopTrace(loop)
        self.reported: list[dict[str, Any]] = []
        self.now = 100.0
        self.details = StageRunner([self.stage], 1.0, lambda name: None, lambda: self.now, passed=self.tell)
        self.given: list[int] = []
        self.dtypes: list[torch.dtype] = []
        self.turns = 0

    def tell(self) -> None:
        self.reported.append(self.details.facts()["trace"])

    def train(self, batch: Any) -> None:
        outputs = self.model(batch["rows"])
        self.dtypes.append(outputs.dtype)
        (outputs.sum() / self.per_step).backward()
        self.turns += 1
        if self.turns % self.per_step == 0:
            self.step()

    def step(self) -> None:
        self.details.call("step_began")
        self.optimizer.step()
        self.details.call("step_ended")
        self.optimizer.zero_grad()

    def run(self, train: Callable[[Any], None] | None = None, source: Any = "loader") -> TraceSeen:
        self.source = ScriptedLoader() if source == "loader" else source
        for batch in self.batches():
            (train or self.train)(batch)
        return TraceSeen.model_validate(self.details.facts()["trace"])

    def batches(self) -> Iterator[Any]:
        for _ in range(500):
            answer = self.details.asked(self.source)
            if self.details.is_over:
                return
            assert isinstance(answer, Replay)
            self.given.append(len(answer.batch["rows"]))
            batch = answer.batch
            del answer
            yield batch
        raise AssertionError("it never ends")

    def trace(self, name: str) -> StepTrace:
        return StepTrace.model_validate(json.loads((self.folder / name).read_text()))

    def prediction(self, precision: str = "own") -> MemoryPrediction:
        return MemoryPrediction.of(*(self.trace(f"trace-{precision}-{size}.json") for size in (2, 4)))


def test_two_sizes_are_traced_as_the_script_is_and_in_bf16(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    seen = loop.run()
    assert (seen.why_ended, seen.doubts, seen.is_own_batch) == (None, (), False)
    assert [(one.precision, one.batch_size, one.file) for one in seen.steps] == [
        (None, 2, "trace-own-2.json"),
        (None, 4, "trace-own-4.json"),
        ("bf16", 2, "trace-bf16-2.json"),
        ("bf16", 4, "trace-bf16-4.json"),
    ]
    assert loop.given == [2] * 6 + [4] * 6 + [2] * 6 + [4] * 6
    assert loop.details.facts()["faults"] == []
    for one in seen.steps:
        assert loop.trace(one.file).batch_size == one.batch_size


@pytest.mark.parametrize(("turns", "steps"), [(0, 4), (1, 5), (2, 5), (3, 5)])
def test_gradients_of_a_step_whose_end_is_not_traced_are_known_as_gradients(
    turns: int, steps: int, tmp_path: Path
) -> None:
    loop = Loop(tmp_path, batches_per_step=4)
    loop.turns = turns  # the trace begins between two steps, or within one
    loop.run()
    of_gradients = PURPOSES.index(Purpose.GRADIENTS)
    parameters = len(list(loop.model.parameters()))
    for size in (2, 4):
        assert loop.trace(f"trace-own-{size}.json").purposes.count(of_gradients) == steps * parameters


def test_what_is_traced_holds_for_any_size(tmp_path: Path) -> None:
    loop = Loop(tmp_path)
    loop.run()
    parameters = 4 * (WIDTH * 32 + 32 + 32 + 1)
    taken = loop.prediction().peak(1000).by_purpose
    assert taken[Purpose.BATCH] == 1000 * WIDTH * 4
    assert parameters <= taken[Purpose.PARAMETERS] < parameters + 4 * 512
    assert taken[Purpose.OPTIMIZER] == taken[Purpose.PARAMETERS]
    assert taken[Purpose.ACTIVATIONS] > 1000 * 32 * 4
    flops = 2 * 1000 * (WIDTH * 32 + 32)
    (forward, *_), last = [one.flops for one in loop.trace("trace-own-4.json").ops if one.flops], 4
    assert forward == 2 * last * WIDTH * 32
    total = sum(one.flops for one in loop.trace("trace-own-4.json").ops)
    assert 2 * flops / 1000 * last < total <= 3 * flops / 1000 * last


def test_bf16_keeps_less_and_is_put_back(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(WIDTH, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1))
    loop = Loop(tmp_path, model)
    loop.run()
    own, half = (
        loop.prediction(name).peak(100_000).by_purpose[Purpose.ACTIVATIONS] for name in ("own", "bf16")
    )
    assert half < 0.7 * own
    assert {op.dtype for op in loop.trace("trace-bf16-2.json").ops if op.name == "addmm"} == {"bfloat16"}
    assert "forward" not in loop.model.__dict__
    assert set(loop.dtypes) == {torch.float32}


@pytest.mark.parametrize(
    "known",
    [
        {"has_own_autocast": True},
        {"model": nn.Linear(WIDTH, 1).bfloat16()},
        {"roots_cover_step": False},
    ],
)
def test_a_precision_that_the_script_chose_or_that_would_not_reach_all_is_the_only_one(
    tmp_path: Path, known: dict[str, Any]
) -> None:
    loop = Loop(tmp_path, **known)

    def train(batch: Any) -> None:
        batch["rows"] = batch["rows"].to(next(loop.model.parameters()).dtype)
        loop.train(batch)

    assert [one.precision for one in loop.run(train).steps] == [None, None]


def test_whole_steps_are_traced_where_gradients_are_accumulated(tmp_path: Path) -> None:
    loop = Loop(tmp_path, batches_per_step=3)
    seen = loop.run()
    assert seen.batches_per_step == 3
    assert len(loop.given) == 4 * (3 + 4 * 3)
    ops = [op.name for op in loop.trace("trace-own-2.json").ops]
    assert ops.count("relu") == 3


def test_a_loop_that_asks_far_ahead_is_traced_once_it_has_caught_up(tmp_path: Path) -> None:
    loop, waiting = Loop(tmp_path), []

    def train(batch: Any) -> None:
        waiting.append(batch)
        if len(waiting) > 6:
            loop.train(waiting.pop(0))

    assert len(loop.run(train).steps) == 4
    loop.prediction()
    ops = {size: sum(op.flops for op in loop.trace(f"trace-own-{size}.json").ops) for size in (2, 4)}
    assert ops[4] == 2 * ops[2]


def test_a_step_with_a_validation_in_it_is_traced_anew(tmp_path: Path) -> None:
    loop = Loop(tmp_path)

    def train(batch: Any) -> None:
        loop.train(batch)
        if len(loop.given) in (3, 9):
            loop.details.call("interrupted")
            loop.model(torch.zeros(100, WIDTH)).exp().exp()

    seen = loop.run(train)
    assert len(seen.steps) == 4
    assert "exp" not in {op.name for op in loop.trace("trace-own-2.json").ops}


def test_steps_that_differ_by_their_size_are_told(tmp_path: Path) -> None:
    loop = Loop(tmp_path)

    def train(batch: Any) -> None:
        loop.train(batch)
        if len(batch["rows"]) == 4:
            torch.zeros(100).exp()

    seen = loop.run(train)
    assert [(one.precision, one.batch_size) for one in seen.steps] == [(None, 2), (None, 4)]
    assert seen.doubts == ("the steps at two sizes differ in more than their size",)


def test_a_forward_in_a_thread_of_its_own_is_not_traced(tmp_path: Path) -> None:
    loop = Loop(tmp_path)

    def train(batch: Any) -> None:
        made: list[torch.Tensor] = []
        thread = threading.Thread(target=lambda: made.append(loop.model(batch["rows"])))
        thread.start()
        thread.join()
        (made[0] - batch["rows"][:, :1]).square().mean().backward()
        loop.step()

    seen = loop.run(train)
    assert seen.steps == ()
    assert "runs in a thread of its own" in (seen.why_ended or "")


@pytest.mark.parametrize("kind", ["closure", "functional"])
def test_a_forward_within_the_step_or_on_detached_parameters_is_traced(tmp_path: Path, kind: str) -> None:
    loop = Loop(tmp_path)

    def in_closure(batch: Any) -> None:
        def closure() -> float:
            loop.optimizer.zero_grad()
            loss = loop.model(batch["rows"]).sum()
            loss.backward()
            return float(loss.detach())

        loop.details.call("step_began")
        loop.optimizer.step(closure)
        loop.details.call("step_ended")

    def functional(batch: Any) -> None:
        def loss_of(parameters: dict[str, torch.Tensor]) -> torch.Tensor:
            outputs: torch.Tensor = torch.func.functional_call(loop.model, parameters, (batch["rows"],))
            return outputs.sum()

        detached = {name: one.detach() for name, one in loop.model.named_parameters()}
        gradients = torch.func.grad(loss_of)(detached)
        for name, parameter in loop.model.named_parameters():
            parameter.grad = gradients[name]
        loop.step()

    seen = loop.run(in_closure if kind == "closure" else functional)
    assert seen.why_ended is None
    assert [one.precision for one in seen.steps][:2] == [None, None]


def never_steps(loop: Loop, batch: Any) -> None:
    loop.model(batch["rows"]).sum().backward()


def reads_another(loop: Loop, batch: Any) -> None:
    loop.train(batch)
    loop.details.call("interrupted")


def leaves_batches(loop: Loop, batch: Any) -> None:
    loop.train({"rows": torch.zeros(8, WIDTH)})


def does_nothing(loop: Loop, batch: Any) -> None:
    """Train elsewhere."""


@pytest.mark.parametrize(
    ("train", "reported"),
    [
        (never_steps, "no uninterrupted batch"),
        (reads_another, "no uninterrupted batch"),
        (leaves_batches, "does not train on every batch"),
        (does_nothing, "no op was seen"),
    ],
)
def test_a_loop_without_steps_to_trace_says_why(
    tmp_path: Path, train: Callable[[Loop, Any], None], reported: str
) -> None:
    loop = Loop(tmp_path)
    seen = loop.run(lambda batch: train(loop, batch))
    assert seen.steps == ()
    assert reported in (seen.why_ended or "")
    assert "forward" not in loop.model.__dict__


@pytest.mark.parametrize("per_step", [1, 3])
def test_a_loop_that_makes_its_batches_itself_is_traced_at_its_own_size(
    tmp_path: Path, per_step: int
) -> None:
    known = {"own_batch_samples": 6, "batches_per_step": per_step, "batches_per_turn": per_step}
    loop = Loop(tmp_path, **known)
    for _ in range(100):
        for _ in range(per_step):
            loop.train({"rows": torch.randn(6, WIDTH)})
        assert loop.details.asked(None) is None
        if loop.details.is_over:
            break
    seen = TraceSeen.model_validate(loop.details.facts()["trace"])
    assert (seen.why_ended, seen.is_own_batch) == (None, True)
    assert [(one.precision, one.batch_size) for one in seen.steps] == [(None, 6), ("bf16", 6)]
    ops = loop.trace("trace-own-6.json").ops
    assert [op.name for op in ops].count("relu") == per_step
    assert ops[[op.name for op in ops].index("addmm")].flops == 2 * 6 * WIDTH * 32


def spread() -> nn.Module:
    """Return what looks like a model on two GPUs."""
    model = nn.Linear(WIDTH, 1)
    model.device_ids = [0, 1]  # type: ignore[assignment]
    return model


@pytest.mark.parametrize(
    ("loader", "known", "reported"),
    [
        (ScriptedLoader(), {"world_size": 2}, "2 ranks"),
        (ScriptedLoader(), {"device_type": "mps"}, "a device of type mps"),
        (ScriptedLoader(), {"model": spread()}, "several devices"),
        (ScriptedLoader(), {"model": nn.DataParallel(nn.Linear(WIDTH, 1))}, "nn.DataParallel spreads"),
        (ScriptedLoader(), {"torch": SimpleNamespace(__version__="2.1.2+cpu")}, "torch 2.1.2+cpu does not"),
        (ScriptedLoader(ends=True), {}, "no further epoch"),
    ],
)
def test_a_loop_that_can_not_be_traced_says_why(
    tmp_path: Path, loader: Any, known: dict[str, Any], reported: str
) -> None:
    loop = Loop(tmp_path, **known)
    seen = loop.run(source=loader)
    assert seen.steps == ()
    assert reported in (seen.why_ended or "")
    assert loop.given == []
    assert loop.details.facts()["faults"] == []


def test_compiled_steps_are_traced_as_they_were_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("_tunekit_agent.model.knobs.graphs_captured", lambda: 1)
    assert "without torch.compile" in Loop(tmp_path).run().doubts[0]


@pytest.mark.parametrize("method", ["step_began", "step_ended", "interrupted", "leave"])
def test_a_fault_within_a_step_keeps_what_was_traced_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    loop = Loop(tmp_path)
    original = getattr(TracedSteps, method)

    def faulty(one: TracedSteps) -> None:
        original(one)
        if one.precision is not None:
            raise ValueError(f"broken {method}")

    monkeypatch.setattr(TracedSteps, method, faulty)

    def train(batch: Any) -> None:
        loop.train(batch)
        if method == "interrupted" and len(loop.given) == 16:
            loop.details.call("interrupted")

    seen = loop.run(train)
    assert [one.file for one in seen.steps] == ["trace-own-2.json", "trace-own-4.json"]
    assert seen.why_ended == f"ValueError: broken {method}"
    assert loop.details.facts()["faults"] == []
    assert "forward" not in loop.model.__dict__
    assert _get_current_dispatch_mode() is None
    assert "cpu" not in torch.utils._foreach_utils._get_foreach_kernels_supported_devices()


def test_a_size_too_slow_is_the_last_and_everything_is_put_back(tmp_path: Path) -> None:
    loop = Loop(tmp_path)

    def train(batch: Any) -> None:
        loop.train(batch)
        if len(loop.given) == 16:
            assert "forward" in loop.model.__dict__
            loop.now += 1000.0

    seen = loop.run(train)
    assert [one.precision for one in seen.steps] == [None, None]
    assert seen.why_ended == "batch size 2 was too slow to be traced"
    assert "forward" not in loop.model.__dict__
    assert "cpu" not in torch.utils._foreach_utils._get_foreach_kernels_supported_devices()


class Known(ScriptedLoader):
    """A loader of samples for a model of the zoo."""

    def __init__(self, known: Any, name: str) -> None:
        super().__init__()
        self._made = [known.sample(name) for _ in range(8)]

    def take(self) -> Any:
        inputs, targets = zip(*self._made, strict=True)
        return {"rows": torch.stack(inputs), "targets": torch.stack(targets)}


@pytest.mark.parametrize("name", ["cnn", "gpt"])
def test_what_two_sizes_say_of_a_third_is_what_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.syspath_prepend(str(ZOO))
    known = importlib.import_module("known_memory")
    for sizes in ((2, 4), (8, 16)):
        monkeypatch.setattr(stage, "_SIZES", sizes)
        loop = Loop(tmp_path, known.make_model(name))

        def train(batch: Any, loop: Loop = loop) -> None:
            known.loss_of(loop.model(batch["rows"]), batch["targets"]).backward()
            loop.step()

        loop.run(train, Known(known, name))
    for precision in ("own", "bf16", *(["own-checkpointed"] if name == "gpt" else [])):
        prediction = loop.prediction(precision)
        for size in (8, 16):
            direct = in_order(AllocationTrace.of(loop.trace(f"trace-{precision}-{size}.json")))
            between = prediction.trace(size)
            assert (direct.sizes_bytes == between.sizes_bytes).all()
            assert (direct.blocks == between.blocks).all()
            assert direct.purposes == between.purposes
