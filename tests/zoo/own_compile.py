"""torch.compile of the script's own: of the model, or with --function of the function that makes the loss."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 300


class Net(nn.Module):
    """Two layers."""

    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(128, 1024), nn.Linear(1024, 8)

    def forward(self, rows):
        return self.head(torch.relu(self.hidden(rows)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--function", action="store_true")
    parser.add_argument("--in-place", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    rows = torch.randn(1600, 128)
    loader = DataLoader(TensorDataset(rows, rows[:, :8].argmax(1)), batch_size=16, shuffle=True)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)

    def loss_of(inputs, labels):
        return nn.functional.cross_entropy(model(inputs), labels)

    if args.function:
        loss_of = torch.compile(loss_of)
    elif args.in_place:
        model.compile()
    else:
        model = torch.compile(model)
    for epoch in range(EPOCHS):
        for inputs, labels in loader:
            loss = loss_of(inputs, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
