"""Two heads whose losses go through torch.autograd.backward together."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 300


class TwoHeads(nn.Module):
    """A shared trunk, a class and a value."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Linear(128, 1024)
        self.label, self.value = nn.Linear(1024, 8), nn.Linear(1024, 1)

    def forward(self, rows):
        hidden = torch.relu(self.trunk(rows))
        return self.label(hidden), self.value(hidden).squeeze(1)


def main():
    torch.manual_seed(0)
    rows = torch.randn(1600, 128)
    dataset = TensorDataset(rows, rows[:, :8].argmax(1), rows.mean(1))
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    model = TwoHeads()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)
    for epoch in range(EPOCHS):
        for inputs, labels, values in loader:
            scores, guesses = model(inputs)
            losses = [
                nn.functional.cross_entropy(scores, labels),
                nn.functional.mse_loss(guesses, values),
            ]
            optimizer.zero_grad()
            torch.autograd.backward(losses)
            optimizer.step()
        print(f"epoch {epoch} losses {losses[0].item():.3f} {losses[1].item():.3f}", flush=True)


if __name__ == "__main__":
    main()
