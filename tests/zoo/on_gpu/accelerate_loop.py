"""A loop on Accelerate, on the GPU that it finds: model, optimizer and loader prepared, gradients clipped."""

import argparse

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mixed_precision", default="no")
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    rows = torch.randn(12800, 512)
    loader = DataLoader(TensorDataset(rows, rows[:, :8].argmax(1)), batch_size=64, shuffle=True)
    model = nn.Sequential(
        nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 8)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(1000):
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
