"""Autocast, a gradient scaler, accumulation over four batches and clipping, by hand.

The scale begins far too high, so that the scaler skips the first optimizer steps, and it doubles every
few steps, so that it skips again and again.
"""

import argparse
from pathlib import Path

import torch
from plain_loop import labelled_rows
from torch import nn
from torch.utils.data import DataLoader

EPOCHS, ACCUMULATE = 300, 4


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dtype", choices=["float16", "bfloat16"], default="float16")
    parser.add_argument("--init-scale", type=float, default=2.0**40)
    parser.add_argument("--growth-interval", type=int, default=2000)
    parser.add_argument("--output", default=None)
    args = parser.parse_args()
    loader = DataLoader(labelled_rows(), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    scaler = torch.amp.GradScaler("cpu", init_scale=args.init_scale, growth_interval=args.growth_interval)
    for epoch in range(EPOCHS):
        for step, (inputs, labels) in enumerate(loader):
            with torch.autocast("cpu", dtype=getattr(torch, args.dtype)):
                loss = nn.functional.cross_entropy(model(inputs), labels) / ACCUMULATE
            scaler.scale(loss).backward()
            if (step + 1) % ACCUMULATE == 0:
                scaler.unscale_(optimizer)
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad(set_to_none=True)
        print(f"epoch {epoch} loss {loss.item():.3f} scale {scaler.get_scale():g}", flush=True)
        if args.output:
            torch.save(model.state_dict(), Path(args.output) / "model.pt")


if __name__ == "__main__":
    main()
