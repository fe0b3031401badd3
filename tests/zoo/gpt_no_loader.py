"""A small GPT in the manner of nanoGPT: batches are cut from a memory map, there is no DataLoader."""

import argparse
import contextlib
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

VOCABULARY, BLOCK, WIDTH, HEADS, LAYERS = 64, 32, 64, 4, 2
MAX_STEPS, WARMUP_STEPS, LEARNING_RATE, MIN_LEARNING_RATE = 20_000, 100, 6e-4, 6e-5


class Block(nn.Module):
    """Causal attention and a feed-forward layer."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        batch, length, _ = x.shape
        parts = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.feed(self.norm2(x))


class GPT(nn.Module):
    """Returns (logits, loss) as its caller expects them."""

    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.ModuleList([Block() for _ in range(LAYERS)])
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.tokens.weight = self.head.weight

    def forward(self, tokens, targets=None):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.size(1)))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits, None
        return logits, nn.functional.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def learning_rate_at(step):
    if step < WARMUP_STEPS:
        return LEARNING_RATE * (step + 1) / (WARMUP_STEPS + 1)
    share = (step - WARMUP_STEPS) / (MAX_STEPS - WARMUP_STEPS)
    return MIN_LEARNING_RATE + 0.5 * (1 + math.cos(math.pi * share)) * (LEARNING_RATE - MIN_LEARNING_RATE)


def train(args, folder):
    torch.manual_seed(0)
    path = folder / "train.bin"
    np.random.default_rng(0).integers(0, VOCABULARY, 200_000, dtype=np.uint16).tofile(path)

    def get_batch():
        data = np.memmap(path, dtype=np.uint16, mode="r")
        starts = torch.randint(len(data) - BLOCK, (args.batch_size,))
        x = torch.stack([torch.from_numpy(data[i : i + BLOCK].astype(np.int64)) for i in starts])
        y = torch.stack([torch.from_numpy(data[i + 1 : i + 1 + BLOCK].astype(np.int64)) for i in starts])
        return x, y

    context = contextlib.nullcontext()
    if args.dtype == "bfloat16":
        context = torch.amp.autocast(device_type="cpu", dtype=torch.bfloat16)
    model = GPT()
    decayed = [p for p in model.parameters() if p.dim() >= 2]
    others = [p for p in model.parameters() if p.dim() < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=LEARNING_RATE, betas=(0.9, 0.95))
    if args.compile:
        model = torch.compile(model)
    x, y = get_batch()
    started = time.perf_counter()
    for step in range(MAX_STEPS):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate_at(step)
        for _ in range(args.gradient_accumulation_steps):
            with context:
                _, loss = model(x, y)
                loss = loss / args.gradient_accumulation_steps
            x, y = get_batch()
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        step_s, started = time.perf_counter() - started, time.perf_counter()
        if step % 5 == 0:
            shown = loss.item() * args.gradient_accumulation_steps
            print(f"iter {step}: loss {shown:.4f}, time {1000 * step_s:.2f}ms", flush=True)
        if args.output and step % 100 == 99:
            torch.save({"model": model.state_dict(), "iter_num": step}, Path(args.output) / "ckpt.pt")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default=None)
    parser.add_argument("--batch_size", type=int, default=12)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        train(args, Path(folder))


if __name__ == "__main__":
    main()
