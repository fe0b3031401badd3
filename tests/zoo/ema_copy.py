"""A model and its moving average: a copy of its shape, called before the model, stepped by no optimizer."""

import copy

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 300


def main():
    torch.manual_seed(0)
    rows = torch.randn(1600, 128)
    loader = DataLoader(TensorDataset(rows, (rows[:, :64].sum(1) > 0).long()), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(128, 768), nn.ReLU(), nn.Linear(768, 768), nn.ReLU(), nn.Linear(768, 2))
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(EPOCHS):
        agreed = 0
        for inputs, labels in loader:
            with torch.no_grad():
                guess = average(inputs).argmax(1)
            agreed += (guess == labels).sum().item()
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
                    slow.lerp_(fast, 0.01)
        print(f"epoch {epoch} loss {loss.item():.3f} average right {agreed / len(rows):.3f}", flush=True)


if __name__ == "__main__":
    main()
