"""Takes about 20 MB of memory per sample of a batch, so that its batch of 64 needs over a gigabyte."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS, FLOATS_PER_SAMPLE = 300, 5_000_000


def main():
    torch.manual_seed(0)
    rows = torch.randn(1600, 16)
    loader = DataLoader(TensorDataset(rows, rows[:, :4].argmax(1)), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for epoch in range(EPOCHS):
        for inputs, labels in loader:
            scratch = torch.ones(len(inputs), FLOATS_PER_SAMPLE)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs) + 0 * scratch[:, :4], labels)
            loss.backward()
            optimizer.step()
            del scratch
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
