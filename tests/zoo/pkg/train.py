"""The loop, with an import relative to its package."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from .model import Net

EPOCHS = 300


def main():
    torch.manual_seed(0)
    rows = torch.randn(1600, 128)
    loader = DataLoader(TensorDataset(rows, rows[:, :8].argmax(1)), batch_size=16, shuffle=True)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    for epoch in range(EPOCHS):
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
