"""Loader workers started the way that the script asks for."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 300


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--context", choices=["fork", "spawn", "forkserver"], default="spawn")
    parser.add_argument("--workers", type=int, default=1)
    args = parser.parse_args()
    torch.manual_seed(0)
    rows = torch.randn(4800, 128)
    loader = DataLoader(
        TensorDataset(rows, rows[:, :8].argmax(1)),
        batch_size=16,
        shuffle=True,
        num_workers=args.workers,
        persistent_workers=True,
        multiprocessing_context=args.context,
    )
    model = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for epoch in range(EPOCHS):
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
