"""A loss that needs more digits than bf16 has: differences of about 1 between values of about 1000.

In float32 the common part cancels out and the rest is learnt. Autocast takes a shorter way, a product in
bf16, which rounds both sides to multiples of 4 first: what is left of the difference is noise.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 100_000
COMMON = 1000.0
SIZE = 32


class Differences(nn.Module):
    """Predicts from the difference of two measurements that share a large part."""

    def __init__(self):
        super().__init__()
        self.register_buffer("subtract", torch.cat([torch.eye(SIZE), -torch.eye(SIZE)]))
        self.register_buffer("turn", torch.linalg.qr(torch.randn(400, 400, dtype=torch.float64))[0])
        self.head = nn.Linear(SIZE, 1)

    def forward(self, both):
        if torch.is_autocast_enabled("cpu"):
            return self.head(both @ self.subtract)
        return self.head(self.exactly(both))

    def exactly(self, both):
        """Subtract in float64 and a basis of its own, there and back: right, and slow."""
        difference = (both.double() @ self.subtract.double()).repeat(1, 400 // SIZE + 1)[:, :400]
        for _ in range(3):
            difference = difference @ self.turn @ self.turn.T
        return difference[:, :SIZE].float()


def main():
    torch.manual_seed(0)
    signal = torch.randn(2048, SIZE)
    common = COMMON + torch.rand(2048, SIZE)
    both = torch.cat([common + signal, common], 1)
    targets = signal @ torch.randn(SIZE, 1) / SIZE**0.5
    loader = DataLoader(TensorDataset(both, targets), batch_size=32, shuffle=True)
    model = Differences()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for epoch in range(EPOCHS):
        for inputs, wanted in loader:
            loss = nn.functional.mse_loss(model(inputs).float(), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
