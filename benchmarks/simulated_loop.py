"""Four training loops for simulated devices, and what each does with given knobs, without tunekit.

    python benchmarks/simulated_loop.py images|tokens|clicks|resnet50        # train for ever, fp32
    python benchmarks/simulated_loop.py images --plain '[{"batch_size": 64, "precision": "bf16"}]'

`images`: a convolutional net whose samples come from far away; `tokens`: a small GPT, which computes;
`clicks`: a small net of many launches; `resnet50`: what people train on ImageNet, whose files are listed
first. With --plain it trains with each of the knobs in turn, as people write them, and prints a line of
JSON with the steady samples/s of each; one that runs out of memory has null.
"""

import argparse
import contextlib
import gc
import json
import time
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from vram_models import resnet50

BATCHES = {"images": 16, "tokens": 16, "clicks": 16, "resnet50": 64}
LISTS_S = {"resnet50": 30.0}
"""How long a loop is at its data before it begins."""
SAMPLES = 1 << 20
LATENCY_S = 0.002
"""Of one image."""
WARM_S, WARM_BATCHES = 1.5, 6
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Images(Dataset[tuple[Tensor, int]]):
    """Images that are a request away each."""

    side = 96

    def __init__(self) -> None:
        self._image = torch.zeros(3, self.side, self.side)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        time.sleep(LATENCY_S)
        return self._image, place % 10


class Decoded(Dataset[tuple[Tensor, int]]):
    """ImageNet's images, as decoders that keep up hand them over."""

    def __init__(self) -> None:
        self._image = torch.zeros(3, 224, 224)

    def __len__(self) -> int:
        return 1_281_167

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        return self._image, place % 1000


class Rows(Dataset[Any]):
    """Rows at hand: a batch is a view."""

    def __init__(self, inputs: Tensor, classes: int) -> None:
        self._inputs, self._classes = inputs, classes

    def __len__(self) -> int:
        return SAMPLES

    def __getitems__(self, places: list[int]) -> tuple[Tensor, Tensor]:
        taken = self._inputs[: len(places)]
        return taken, torch.zeros(taken.shape if self._classes == 0 else len(places), dtype=torch.long)


class Block(nn.Module):
    """A layer of a GPT."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Attend, then think: (batch, length, width) to the same."""
        batch, length, width = x.shape
        heads = self.qkv(self.norms[0](x)).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(heads[0], heads[1], heads[2], is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norms[1](x))


class Gpt(nn.Module):
    """A small GPT over 128 tokens."""

    length, words, width = 128, 2048, 256

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(self.words, self.width)
        self.blocks = nn.Sequential(*(Block(self.width) for _ in range(2)))
        self.head = nn.Linear(self.width, self.words)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens (batch, length) to logits, the words as second dimension."""
        return self.head(self.blocks(self.embedding(tokens))).transpose(1, 2)


def conv_net() -> nn.Module:
    """Four convolutions, each with what usually follows."""
    layers: list[nn.Module] = []
    for before, after, stride in ((3, 32, 2), (32, 64, 1), (64, 64, 2), (64, 128, 2)):
        layers += [nn.Conv2d(before, after, 3, stride, 1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10))


def loop_parts(name: str) -> tuple[nn.Module, Dataset[Any]]:
    """Return a loop's model and its data."""
    if name == "images":
        return conv_net(), Images()
    if name == "resnet50":
        return resnet50(1000), Decoded()
    if name == "tokens":
        return Gpt(), Rows(torch.zeros(1024, Gpt.length, dtype=torch.long), 0)
    layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(64, 10)), Rows(torch.zeros(1024, 64), 10)


def as_it_is(batch: Any) -> Any:
    """Return what the data set already made a batch of."""
    return batch


def loader_of(data: Dataset[Any], batch_size: int, workers: int, **knobs: Any) -> DataLoader[Any]:
    """Return a loader."""
    collate = as_it_is if isinstance(data, Rows) else None
    return DataLoader(data, batch_size=batch_size, num_workers=workers, collate_fn=collate, **knobs)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """Return what steps a model."""
    return torch.optim.AdamW(model.parameters(), lr=1e-6)


def train(name: str) -> None:
    """Train for ever in one obvious way."""
    time.sleep(LISTS_S.get(name, 0))
    model, data = loop_parts(name)
    model.cuda()
    optimizer = optimizer_of(model)
    while True:
        for inputs, labels in loader_of(data, BATCHES[name], 0):
            loss = nn.functional.cross_entropy(model(inputs.cuda(non_blocking=True)), labels.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def steps(name: str, knobs: dict[str, Any]) -> Iterator[int]:
    """Train with knobs; yield the samples of each step once it is queued."""
    model, data = loop_parts(name)
    precision = knobs.get("precision", "fp32")
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    model.cuda()
    if knobs.get("channels_last"):
        model.to(memory_format=torch.channels_last)
    optimizer = optimizer_of(model)
    call = torch.compile(model) if knobs.get("compile") else model
    workers = knobs.get("num_workers", 0)
    prefetch = {"prefetch_factor": knobs.get("prefetch_factor") or 2} if workers else {}
    batch_size = knobs.get("batch_size", BATCHES[name])
    loader = loader_of(data, batch_size, workers, pin_memory=knobs.get("pin_memory", False), **prefetch)
    for batch in loader:
        inputs, labels = (one.cuda(non_blocking=True) for one in batch)
        optimizer.zero_grad()
        dtype = DTYPES.get(precision)
        autocast = torch.autocast("cuda", dtype) if dtype else contextlib.nullcontext()
        with autocast:
            outputs = call(inputs)
        nn.functional.cross_entropy(outputs.float(), labels).backward()
        optimizer.step()
        yield batch_size


def steady_rate(name: str, knobs: dict[str, Any], seconds: float) -> float:
    """Return samples/s after a warm-up."""
    samples = batches = 0
    begin = end = 0.0
    first = time.perf_counter()
    for count in steps(name, knobs):
        batches += 1
        now = time.perf_counter()
        if batches == 1:
            first = now  # what is compiled is compiled by now
        if not begin:
            if batches >= WARM_BATCHES and now - first >= WARM_S:
                torch.cuda.synchronize()
                begin = time.perf_counter()
            continue
        samples += count
        if now - begin >= seconds:
            torch.cuda.synchronize()
            end = time.perf_counter()
            break
    return samples / (end - begin)


def run_plainly(name: str, every: list[dict[str, Any]], seconds: float) -> None:
    """Print the rate and the peak of memory of each of some configs."""
    for knobs in every:
        torch.cuda.reset_peak_memory_stats()
        try:
            rate = steady_rate(name, knobs, seconds)
        except torch.OutOfMemoryError:
            rate = None
        result = {"knobs": knobs, "samples_per_s": rate, "reserved_bytes": torch.cuda.max_memory_reserved()}
        print(json.dumps(result), flush=True)
        torch._dynamo.reset()
        gc.collect()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("loop", choices=list(BATCHES))
    parser.add_argument("--plain", type=json.loads)
    parser.add_argument("--seconds", type=float, default=3.0)
    asked = parser.parse_args()
    if asked.plain is None:
        train(asked.loop)
    else:
        run_plainly(asked.loop, asked.plain, asked.seconds)
