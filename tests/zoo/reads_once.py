"""Reads its DataLoader once into memory and trains from there."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    rows = torch.randn(320, 64)
    loader = DataLoader(TensorDataset(rows, rows[:, :4].argmax(1)), batch_size=16)
    batches = list(loader)
    model = nn.Sequential(nn.Linear(64, 1024), nn.ReLU(), nn.Linear(1024, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for _ in range(5000):
        for inputs, labels in batches:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()


if __name__ == "__main__":
    main()
