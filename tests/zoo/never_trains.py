"""Goes over a loader again and again and never takes an optimizer step: an evaluation script, say."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 300


def main():
    torch.manual_seed(0)
    rows = torch.randn(1600, 128)
    dataset = TensorDataset(rows, rows[:, :8].argmax(1))
    loader = DataLoader(dataset, batch_size=16)
    model = nn.Sequential(
        nn.Linear(128, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 8)
    )
    for epoch in range(EPOCHS):
        right = 0
        with torch.no_grad():
            for inputs, labels in loader:
                right += (model(inputs).argmax(1) == labels).sum().item()
        print(f"pass {epoch} accuracy {right / len(rows):.3f}", flush=True)


if __name__ == "__main__":
    main()
