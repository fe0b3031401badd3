"""Wide layers, whose update takes most of a step: the larger the batch the better, until memory ends.

With words of JSON it trains a few steps with each of these configs, as people write them, and prints for each
what torch then says of its memory and when its steps had ended; a config that memory ends on has null.
"""

import contextlib
import gc
import json
import sys
import time

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

WIDTH, LENGTH, LAYERS, KEPT = 2048, 16, 3, 16
STEPS = 5
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def parts() -> tuple[nn.Module, torch.optim.Optimizer]:
    """A net on the device, and what steps it."""
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), *(nn.GELU(),) * KEPT)]
    net = nn.Sequential(nn.Embedding(64, WIDTH), *layers, nn.Linear(WIDTH, 64)).cuda()
    return net, torch.optim.AdamW(net.parameters(), lr=1e-6)


def loader(batch_size: int) -> DataLoader[tuple[Tensor, ...]]:
    """Batches of tokens."""
    return DataLoader(TensorDataset(torch.zeros(1 << 15, LENGTH, dtype=torch.long)), batch_size=batch_size)


def train() -> None:
    """Train for ever."""
    net, optimizer = parts()
    while True:
        for (batch,) in loader(16):
            tokens = batch.cuda()
            loss = nn.functional.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def some_steps(batch_size: int, precision: str) -> list[int]:
    """Train some steps; return when each had ended, in ns."""
    torch.set_float32_matmul_precision("high" if precision == "tf32" else "highest")
    net, optimizer = parts()
    dtype = DTYPES.get(precision)
    ends: list[int] = []
    for (batch,) in loader(batch_size):
        tokens = batch.cuda()
        with torch.autocast("cuda", dtype) if dtype else contextlib.nullcontext():
            outputs = net(tokens).float()
        loss = nn.functional.cross_entropy(outputs.flatten(0, 1), tokens.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.cuda.synchronize()
        ends.append(time.monotonic_ns())
        if len(ends) == STEPS:
            break
    return ends


def run_plainly() -> None:
    """Train with each config of the command line."""
    for knobs in map(json.loads, sys.argv[1:]):
        ends = None
        with contextlib.suppress(torch.OutOfMemoryError):
            ends = some_steps(**knobs)
        reserved = torch.cuda.max_memory_reserved()
        print(json.dumps({**knobs, "ends_ns": ends, "reserved_bytes": reserved}), flush=True)
        gc.collect()
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    run_plainly() if sys.argv[1:] else train()
