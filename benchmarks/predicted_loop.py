"""Three trainings whose device memory is predicted and measured; part of gpu_check.py.

    python benchmarks/predicted_loop.py predict MODEL --batches 16,48,128 [--blas-bytes N] [--tiny]
    python benchmarks/predicted_loop.py measure MODEL --batches 16 --precision bf16 [--compile] [--tiny]

`predict` traces a few steps on fake cuda tensors and prints the peaks by precision and batch size; `measure`
runs the same steps on the GPU, prints torch's peaks, and stays until its standard input ends, so that the
driver can be asked meanwhile. Both print JSON on one line. Without a GPU `measure` runs on the CPU.
"""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

import torch  # noqa: E402
from torch import nn  # noqa: E402
from vram_models import resnet50, timm_resnet  # noqa: E402

from tunekit.memory.vram.fake import step as fake_step  # noqa: E402
from tunekit.memory.vram.fake.step import FakeTraining, traced  # noqa: E402
from tunekit.memory.vram.predict import MemoryPrediction  # noqa: E402

TRACED_SIZES = (8, 24)
STEPS = 4
PRECISIONS = ("fp32", "tf32", "bf16")


class GptBlock(nn.Module):
    """Causal attention and MLP, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        batch, length, width = tokens.shape
        parts = self.qkv(self.norm1(tokens)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        tokens = tokens + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return tokens + self.mlp(self.norm2(tokens))


class Gpt(nn.Module):
    """A decoder as GPT-2's, of another depth."""

    def __init__(self, blocks: int, width: int, heads: int, length: int, vocabulary: int) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(GptBlock(width, heads) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits, a row per token."""
        places = torch.arange(tokens.shape[1], device=tokens.device)
        hidden = self.blocks(self.tokens(tokens) + self.places(places))
        return self.head(self.norm(hidden)).flatten(0, 1)


class Recurrent(nn.Module):
    """Two layers of LSTM over tokens."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.layers, self.head = nn.LSTM(width, width, 2, batch_first=True), nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return logits, a row per token."""
        return self.head(self.layers(self.tokens(tokens))[0]).flatten(0, 1)


def training_of(model: str, precision: str, is_tiny: bool, is_compiled: bool = False) -> FakeTraining:
    """Return one of the trainings: "resnet50", "gpt" or "lstm"."""
    makers = {"resnet50": _images, "gpt": _gpt, "lstm": _lstm}
    make_model, make_optimizer, make_batch = makers[model](is_tiny)
    return FakeTraining(
        make_model=make_model,
        make_optimizer=make_optimizer,
        make_batch=make_batch,
        loss_of=nn.functional.cross_entropy,
        autocast_dtype=torch.bfloat16 if precision == "bf16" else None,
        is_compiled=is_compiled,
    )


_Parts = tuple[Callable[[], nn.Module], Callable[[Any], torch.optim.Optimizer], Callable[[int], Any]]


def _images(is_tiny: bool) -> _Parts:
    side = 32 if is_tiny else 224

    def batch(size: int) -> Any:
        return torch.zeros(size, 3, side, side), torch.zeros(size, dtype=torch.long)

    def optimizer(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)

    return (lambda: timm_resnet((1, 1), is_basic=True)) if is_tiny else resnet50, optimizer, batch


def _gpt(is_tiny: bool) -> _Parts:
    length, vocabulary = (16, 100) if is_tiny else (512, 50257)
    blocks, width, heads = (2, 64, 4) if is_tiny else (12, 768, 12)

    def optimizer(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.AdamW(parameters, lr=1e-4)

    return lambda: Gpt(blocks, width, heads, length, vocabulary), optimizer, _tokens(length)


def _lstm(is_tiny: bool) -> _Parts:
    length, vocabulary, width = (8, 100, 32) if is_tiny else (128, 10_000, 1024)

    def optimizer(parameters: Any) -> torch.optim.Optimizer:
        return torch.optim.Adam(parameters, lr=1e-4)

    return lambda: Recurrent(vocabulary, width), optimizer, _tokens(length)


def _tokens(length: int) -> Callable[[int], Any]:
    def batch(size: int) -> Any:
        return torch.zeros(size, length, dtype=torch.long), torch.zeros(size * length, dtype=torch.long)

    return batch


def predicted(model: str, batches: list[int], blas_bytes: int, is_tiny: bool) -> dict[str, Any]:
    """Return allocated and reserved bytes at the peak, by precision and batch size.

    Of "bf16 compiled" it is a bound; where a model can't be traced so, the reason stands in its place.
    """
    assert hasattr(fake_step, "BLAS_WORKSPACE_BYTES")
    fake_step.BLAS_WORKSPACE_BYTES = blas_bytes
    found: dict[str, Any] = {}
    for kind in ("fp32", "bf16", "bf16 compiled"):
        training = training_of(model, kind.split()[0], is_tiny, is_compiled="compiled" in kind)
        try:
            first, second = (traced(training, size) for size in TRACED_SIZES)
            prediction = MemoryPrediction.of(first, second)
            peaks = {batch: prediction.peak(batch) for batch in batches}
        except Exception as error:  # whatever torch says to a trace
            found[kind] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:150]}"
            continue
        found[kind] = {
            str(batch): [peak.allocated_bytes, peak.reserved_bytes] for batch, peak in peaks.items()
        }
    return {**found, "tf32": found["fp32"]}


def measured(
    model: str, batch: int, precision: str, is_compiled: bool, is_tiny: bool
) -> dict[str, int | None]:
    """Train a few steps and return torch's peaks; None of them on a CPU."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    training = training_of(model, precision, is_tiny)
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    # cuDNN takes TF32 for convolutions unless it is told otherwise.
    torch.backends.cudnn.allow_tf32 = precision == "tf32"
    own = training.make_model().to(device)
    optimizer = training.make_optimizer(own.parameters())
    called: Any = own
    if is_compiled:
        called = torch.compile(own, backend="inductor" if device == "cuda" else "eager")
    inputs = targets = None
    for _ in range(STEPS):
        del inputs, targets
        with torch.device(device):
            inputs, targets = training.make_batch(batch)
        _train_on(training, called, optimizer, inputs, targets)
    if device == "cpu":
        return {"allocated_bytes": None, "reserved_bytes": None, "now_reserved_bytes": None}
    torch.cuda.synchronize()
    return {
        "allocated_bytes": torch.cuda.max_memory_allocated(),
        "reserved_bytes": torch.cuda.max_memory_reserved(),
        "now_reserved_bytes": torch.cuda.memory_reserved(),
    }


def _train_on(
    training: FakeTraining, model: Any, optimizer: torch.optim.Optimizer, inputs: Any, targets: Any
) -> None:
    optimizer.zero_grad()
    enabled = training.autocast_dtype is not None
    with torch.autocast(inputs.device.type, training.autocast_dtype, enabled=enabled):
        loss = training.loss_of(model(inputs), targets)
    loss.backward()
    optimizer.step()


def main() -> None:
    """Predict or measure."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("predict", "measure"))
    parser.add_argument("model", choices=("resnet50", "gpt", "lstm"))
    parser.add_argument("--batches", required=True, help="batch sizes; to measure, one")
    parser.add_argument("--precision", choices=PRECISIONS, default="fp32")
    parser.add_argument("--blas-bytes", type=int, default=fake_step.BLAS_WORKSPACE_BYTES)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    batches = [int(batch) for batch in options.batches.split(",")]
    if options.what == "predict":
        told = predicted(options.model, batches, options.blas_bytes, options.tiny)
    else:
        told = measured(options.model, batches[0], options.precision, options.compile, options.tiny)
    print("\n" + json.dumps(told), flush=True)
    if options.what == "measure":
        sys.stdin.read()


if __name__ == "__main__":
    main()
