"""Gradient checkpointing of a model's repeated blocks: which they are, and what their traced steps keep."""

import importlib
from pathlib import Path
from typing import Any

import pytest
import torch
from _tunekit_agent.stages.trace import cuda_memory
from _tunekit_agent.stages.trace.checkpointing import Blocks, repeated_blocks
from _tunekit_agent.stages.trace.dry import DrySteps
from agent.test_trace_stage import Known, Loop
from real_trials import ZOO
from torch import nn
from torch.utils.checkpoint import checkpoint

from tunekit.records.details import TraceSeen
from tunekit.records.prediction import Purpose

WIDTH, HEADS, WORDS = 32, 2, 24
BATCH = 64
AS_TORCH_COUNTS = 0.005
"""Torch's own allocator on a CPU counts bytes as they are asked for, a trace those of whole 512."""


@pytest.fixture(autouse=True)
def _torch_keeps_its_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_memory, "take", lambda torch: None)


class Encoder(nn.Module):
    """Blocks of attention over the columns of a batch's rows."""

    def __init__(self, blocks: int, is_checkpointed: bool = False) -> None:
        super().__init__()
        self.enter = nn.Linear(16, WIDTH)
        made = (nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, batch_first=True) for _ in range(blocks))
        self.blocks = nn.ModuleList(made)
        self.leave = nn.Linear(WIDTH, 1)
        self.is_checkpointed = is_checkpointed

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        words = self.enter(rows).unsqueeze(1).expand(-1, WORDS, -1)
        for block in self.blocks:
            if self.is_checkpointed:
                words = checkpoint(block, words, use_reentrant=False, preserve_rng_state=False)
            else:
                words = block(words)
        out: torch.Tensor = self.leave(words)
        return out


def files(seen: TraceSeen) -> list[str]:
    return [one.file for one in seen.steps]


# --- which blocks ----------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(channels, channels, 3), nn.ReLU())


def stage(count: int, channels: int) -> nn.Sequential:
    return nn.Sequential(*(Residual(channels) for _ in range(count)))


def test_the_blocks_of_all_stages_are_found():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), stage(2, 8), stage(3, 16), nn.Linear(16, 10))
    assert len(repeated_blocks(torch, [model])) == 5
    assert Blocks(torch, [model]).names == ["Residual"]


@pytest.mark.parametrize(
    "model",
    [
        nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU()),
        nn.ModuleList([Residual(8)]),
        nn.Linear(4, 4),
        nn.ModuleList([nn.Sequential(nn.Linear(4, 4)), nn.Sequential(nn.Linear(4, 4))]),
    ],
    ids=["layers", "one block", "no list", "lists alone"],
)
def test_a_model_without_repeated_blocks_says_so(model: nn.Module):
    assert repeated_blocks(torch, [model]) == []
    assert "no repeated blocks" in (Blocks(torch, [model]).why_not or "")


# --- how they are checkpointed ---------------------------------------------------------------


def switched(switch: str) -> Any:
    """A model with a switch of its own, as those of transformers have, in which a model has one too."""

    class Switched(nn.Module):
        supports_gradient_checkpointing = True

        def __init__(self, *inner: nn.Module) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([Residual(4), Residual(4), *inner])
            self.asked: list[dict[str, Any]] = []
            setattr(self, f"is_{switch}", False)

        def enable(self, **keywords: Any) -> None:
            self.asked.append(keywords[f"{switch}_kwargs"])
            setattr(self, f"is_{switch}", True)

        def disable(self) -> None:
            setattr(self, f"is_{switch}", False)

    setattr(Switched, f"{switch}_enable", Switched.enable)
    setattr(Switched, f"{switch}_disable", Switched.disable)
    return Switched(Switched())


both_names = pytest.mark.parametrize("switch", ["gradient_checkpointing", "activation_checkpointing"])


@both_names
def test_a_models_own_switch_is_used_and_put_back(switch: str):
    model = switched(switch)
    with Blocks(torch, [nn.Sequential(model)]).checkpointed():
        assert getattr(model, f"is_{switch}")
        assert [one["use_reentrant"] for one in model.asked] == [False]
        assert "forward" not in model.blocks[0].__dict__
        assert model.blocks[2].asked == [], "the outer model switches the inner one"
    assert not getattr(model, f"is_{switch}")


@both_names
def test_a_model_that_checkpoints_already_is_left_alone(switch: str):
    model = switched(switch)
    model.enable(**{f"{switch}_kwargs": {}})
    assert "already" in (Blocks(torch, [model]).why_not or "")


def test_a_forward_of_the_scripts_own_is_put_back():
    model = Encoder(2)
    own = model.blocks[0].forward = type(model.blocks[0]).forward.__get__(model.blocks[0])
    blocks = Blocks(torch, [model])
    with blocks.checkpointed():
        assert all("forward" in block.__dict__ for block in model.blocks)
        assert model.blocks[0].forward is not own
    assert model.blocks[0].forward is own
    assert "forward" not in model.blocks[1].__dict__


class Worded(nn.Module):
    """A block whose forward has words of its own, which torch's checkpoint has too."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, rows: torch.Tensor, *, debug: float, function: str, use_reentrant: str) -> torch.Tensor:
        assert (function, use_reentrant) == ("mean", "never")
        out: torch.Tensor = debug * self.layer(rows)
        return out


def test_a_blocks_own_words_reach_it_as_they_are():
    blocks = nn.ModuleList([Worded(), Worded()])
    rows = torch.ones(2, 4)

    def gradient() -> torch.Tensor:
        out = rows
        for block in blocks:
            out = block(out, debug=3.0, function="mean", use_reentrant="never")
        (of_first,) = torch.autograd.grad(out.sum(), [blocks[0].layer.weight])
        return of_first

    plain = gradient()
    with Blocks(torch, [blocks]).checkpointed():
        torch.testing.assert_close(gradient(), plain)


def test_gradients_are_those_without_it():
    torch.manual_seed(0)
    model = Encoder(3).eval()  # without dropout
    rows = torch.randn(4, 16)
    model(rows).square().mean().backward()
    plain = [parameter.grad.clone() for parameter in model.parameters()]
    model.zero_grad()
    with Blocks(torch, [model]).checkpointed():
        model(rows).square().mean().backward()
        with torch.no_grad():
            assert model(rows).shape == (4, WORDS, 1)
    for parameter, expected in zip(model.parameters(), plain, strict=True):
        torch.testing.assert_close(parameter.grad, expected)


# --- what their traced steps keep ------------------------------------------------------------


def test_steps_are_traced_with_it_last_as_the_script_is(tmp_path: Path):
    loop = Loop(tmp_path, Encoder(2))
    seen = loop.run()
    assert seen.checkpointing is not None
    assert (seen.checkpointing.blocks, seen.checkpointing.why_not) == (2, None)
    assert files(seen) == [
        *(f"trace-{way}-{size}.json" for way in ("own", "bf16", "own-checkpointed") for size in (2, 4))
    ]
    assert [one.is_checkpointed for one in seen.steps] == [False] * 4 + [True] * 2
    assert not any("forward" in module.__dict__ for module in loop.model.modules())


def test_it_takes_one_more_forward(tmp_path: Path):
    loop = Loop(tmp_path, Encoder(4))
    loop.run()
    usual, more = (
        sum(op.flops for op in loop.trace(f"trace-{name}-4.json").ops) for name in ("own", "own-checkpointed")
    )
    # Backward is two forwards, so that a third comes on top; entering and leaving the blocks is run once.
    assert more / usual == pytest.approx(4 / 3, rel=0.002)


def test_a_script_that_checkpoints_its_blocks_itself_allocates_the_same(tmp_path: Path):
    traces = []
    for name, model in (("own-checkpointed", Encoder(3)), ("own", Encoder(3, is_checkpointed=True))):
        (tmp_path / name).mkdir()
        loop = Loop(tmp_path / name, model)
        loop.run()
        traces.append(loop.prediction(name).peak(BATCH))
    assert traces[0] == traces[1]


@pytest.mark.parametrize("name", ["own", "own-checkpointed"])
def test_the_bytes_are_those_that_torch_counts_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
):
    monkeypatch.syspath_prepend(str(ZOO))
    known: Any = importlib.import_module("known_memory")

    class Checkpointed(known.Gpt):  # type: ignore[misc]
        """Four blocks, checkpointed as a script would."""

        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.Sequential(*(known.Block() for _ in range(4)))

        def forward(self, tokens: torch.Tensor) -> Any:
            words = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
            for block in self.blocks:
                words = checkpoint(block, words, use_reentrant=False) if self.is_real else block(words)
            return self.head(self.norm(words)).flatten(0, 1)

    def train(loop: Loop, batch: Any) -> None:
        known.loss_of(loop.model(batch["rows"]), batch["targets"]).backward()
        loop.step()

    loop = Loop(tmp_path, Checkpointed(), dry=DrySteps(torch, lambda: False))
    loop.model.is_real = False  # type: ignore[assignment]
    loop.run(lambda batch: train(loop, batch), Known(known, "gpt"))
    predicted = loop.prediction(name).peak(8).by_purpose
    loop.model.is_real = name == "own-checkpointed"  # type: ignore[assignment]
    samples = [known.sample("gpt") for _ in range(8)]
    inputs, targets = zip(*samples, strict=True)
    batch = {"rows": torch.stack(inputs), "targets": torch.stack(targets)}
    train(loop, batch)
    measured = _most_bytes(lambda: train(loop, batch))
    counted = predicted[Purpose.ACTIVATIONS] + predicted[Purpose.GRADIENTS]
    assert counted == pytest.approx(measured, rel=AS_TORCH_COUNTS)


def _most_bytes(run: Any) -> int:
    """Return what torch had allocated at most, beside what was there before."""
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True
    ) as profiler:
        run()
    events = [one for one in profiler.profiler.kineto_results.events() if one.name() == "[memory]"]
    now = most = 0
    for event in sorted(events, key=lambda one: one.start_ns()):
        now += event.nbytes()
        most = max(most, now)
    return most
