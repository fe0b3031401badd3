"""bf16 autocast of the script's own: around the forward, or with --inside within it."""

import argparse
import contextlib

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 300


class Net(nn.Module):
    """Two layers, under autocast on request."""

    def __init__(self, own_autocast):
        super().__init__()
        self.own_autocast = own_autocast
        self.hidden, self.head = nn.Linear(128, 1024), nn.Linear(1024, 8)

    def forward(self, rows):
        if not self.own_autocast:
            return self.head(torch.relu(self.hidden(rows)))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores = self.head(torch.relu(self.hidden(rows)))
        return scores.float()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--inside", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    rows = torch.randn(1600, 128)
    loader = DataLoader(TensorDataset(rows, rows[:, :8].argmax(1)), batch_size=16, shuffle=True)
    model = Net(args.inside)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    for epoch in range(EPOCHS):
        for inputs, labels in loader:
            around = torch.autocast("cpu", dtype=torch.bfloat16)
            with contextlib.nullcontext() if args.inside else around:
                loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
