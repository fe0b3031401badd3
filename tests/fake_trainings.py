"""Small trainings that are traced on fake cuda tensors, in a process of their own.

`told_of` starts it and reads what it tells, as JSON, of trainings by name: peaks predicted from batch sizes 8
and 24, ops, and at which sizes the trace between differs from a trace of its own.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

IS_KNOWN = torch.backends.cuda.is_built() or torch.__version__.startswith("2.13.")
NOT_KNOWN = "fake cuda tensors on a CPU-only build are known for torch 2.13"
_ROOT = Path(__file__).resolve().parents[1]
_PREDICTED_AT = 32


def told_of(names: tuple[str, ...], sizes: tuple[int, ...] = (40,)) -> dict[str, Any]:
    """Return what a process tells of trainings; `sizes` are traced to be compared with the prediction."""
    path = os.pathsep.join([str(_ROOT), str(_ROOT / "tests")])
    asked = json.dumps({"names": names, "sizes": sizes})
    done = subprocess.run(
        [sys.executable, "-m", "fake_trainings", asked],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


class Cnn(nn.Module):
    """Two convolutions with batch norm, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm1 = nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16)
        self.second, self.norm2 = nn.Conv2d(16, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32)
        self.head = nn.Linear(32, 10)

    def forward(self, images):
        images = nn.functional.relu(self.norm1(self.first(images)), inplace=True)
        images = nn.functional.relu(self.norm2(self.second(images)), inplace=True)
        return self.head(nn.functional.adaptive_avg_pool2d(images, 1).flatten(1))


class Block(nn.Module):
    """Attention and MLP, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1, self.norm2, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, words):
        samples, count, width = words.shape
        parts = self.qkv(self.norm1(words)).split(width, dim=2)
        parts = [one.view(samples, count, self.heads, -1).transpose(1, 2) for one in parts]
        mixed = nn.functional.scaled_dot_product_attention(*parts, is_causal=True)
        words = words + self.out(mixed.transpose(1, 2).reshape(samples, count, width))
        return words + self.down(nn.functional.gelu(self.up(self.norm2(words))))


class Gpt(nn.Module):
    """Tied embeddings around a few blocks, checkpointed or not."""

    def __init__(self, use_reentrant: bool | None = None, vocabulary: int = 128, blocks: int = 1) -> None:
        super().__init__()
        width = 64
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(blocks))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.words.weight
        self.use_reentrant = use_reentrant

    def forward(self, tokens):
        words = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            if self.use_reentrant is None:
                words = block(words)
            else:
                words = checkpoint(block, words, use_reentrant=self.use_reentrant)
        return self.head(self.norm(words)).flatten(0, 1)


class Recurrent(nn.Module):
    """An LSTM or a GRU of two layers between embeddings and a head."""

    def __init__(self, kind: Callable[..., nn.Module] = nn.LSTM) -> None:
        super().__init__()
        self.words, self.layers = nn.Embedding(128, 32), kind(32, 48, 2, batch_first=True)
        self.head = nn.Linear(48, 128)

    def forward(self, tokens):
        return self.head(self.layers(self.words(tokens))[0]).flatten(0, 1)


def images(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty(size, 3, 64, 64), torch.zeros(size, dtype=torch.long)


def images_with_channels_last(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    inputs, targets = images(size)
    return inputs.contiguous(memory_format=torch.channels_last), targets


def tokens(size: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(size, 64, dtype=torch.long), torch.zeros(size * 64, dtype=torch.long)


def trainings() -> dict[str, Any]:
    """Return them by name."""
    from tunekit.memory.vram.fake.step import FakeTraining

    def sgd(parameters, **options):
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, **options)

    adamw = torch.optim.AdamW
    cnn = FakeTraining(Cnn, sgd, images, nn.functional.cross_entropy)
    gpt = FakeTraining(Gpt, adamw, tokens, nn.functional.cross_entropy)
    wordy = replace(gpt, make_model=lambda: Gpt(vocabulary=1024))
    lstm = FakeTraining(Recurrent, adamw, tokens, nn.functional.cross_entropy)
    half = {"autocast_dtype": torch.bfloat16}
    scaled = {"autocast_dtype": torch.float16, "has_grad_scaler": True}

    def fused_adamw(parameters):
        return adamw(parameters, fused=True)

    return {
        "cnn": cnn,
        "cnn bf16": replace(cnn, **half),
        "cnn channels_last": replace(cnn, make_batch=images_with_channels_last, channels_last=True),
        "cnn fused": replace(cnn, make_optimizer=lambda parameters: sgd(parameters, fused=True)),
        "gpt": gpt,
        "gpt bf16": replace(gpt, **half),
        "deep gpt": replace(gpt, make_model=lambda: Gpt(blocks=3)),
        "deep gpt checkpointed": replace(gpt, make_model=lambda: Gpt(use_reentrant=False, blocks=3)),
        "deep gpt checkpointed, reentrant": replace(
            gpt, make_model=lambda: Gpt(use_reentrant=True, blocks=3)
        ),
        "gpt scaled": replace(gpt, **scaled),
        "gpt scaled, fused": replace(gpt, make_optimizer=fused_adamw, **scaled),
        "gpt fused": replace(gpt, make_optimizer=fused_adamw),
        "gpt one by one": replace(gpt, make_optimizer=lambda parameters: adamw(parameters, foreach=False)),
        "gpt kept gradients": replace(gpt, keeps_gradients=True),
        "gpt accumulated": replace(gpt, accumulate_batches=3),
        "wordy gpt bf16": replace(wordy, **half),
        "wordy gpt bf16 compiled": replace(wordy, is_compiled=True, **half),
        "lstm": lstm,
        "lstm bf16": replace(lstm, **half),
        "gru": replace(lstm, make_model=lambda: Recurrent(nn.GRU)),
    }


def _told(training: Any, sizes: tuple[int, ...]) -> dict[str, Any]:
    from tunekit.memory.vram.fake.step import traced_at
    from tunekit.memory.vram.predict import MemoryPrediction, replayed
    from tunekit.memory.vram.trace import AllocationTrace, in_order

    first, second = traced_at(training, (8, 24))
    prediction = MemoryPrediction.of(first, second)
    differs = []
    for size, direct in zip(sizes, traced_at(training, sizes), strict=True):
        own, between = in_order(AllocationTrace.of(direct)), prediction.trace(size)
        is_same = (own.blocks.tolist(), own.sizes_bytes.tolist()) == (
            between.blocks.tolist(),
            between.sizes_bytes.tolist(),
        )
        peak, allocator = prediction.peak(size), replayed(own)
        is_same &= peak.allocated_bytes == allocator.peak_allocated_bytes
        is_same &= peak.reserved_bytes == allocator.peak_reserved_bytes
        differs += [] if is_same else [size]
    peak = prediction.peak(_PREDICTED_AT)
    return {
        "allocated": peak.allocated_bytes,
        "by_purpose": {str(purpose): taken for purpose, taken in peak.by_purpose.items()},
        "blocks": [size for size in first.sizes if size >= 0],
        "ops": [list(op) for op in first.ops],
        "flops": sum(op.flops for op in first.ops),
        "differs": differs,
    }


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    known = trainings()
    sys.stdout.write(json.dumps({name: _told(known[name], asked["sizes"]) for name in asked["names"]}))
