"""Compile-friendly: long chains of elementwise operations over tensors that leave the cache.

python benchmarks/grid_targets/elementwise.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FEATURES = 16384


class Gated(nn.Module):
    """Elementwise gates, one after another, and a small head."""

    def __init__(self) -> None:
        super().__init__()
        self.gates = nn.ParameterList(nn.Parameter(torch.full((FEATURES,), 0.1)) for _ in range(4))
        self.head = nn.Linear(FEATURES, 4)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        for gate in self.gates:
            rows = rows * torch.sigmoid(rows * gate) + torch.tanh(rows - gate) * 0.5 - rows.abs() * gate
        return self.head(rows)


def main() -> None:
    """Train."""
    rows = torch.randn(2048, FEATURES, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(2048) % 4
    loader = DataLoader(TensorDataset(rows, labels), batch_size=8, shuffle=True)
    model = Gated()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for _ in range(1000):
        for rows, labels in loader:
            loss = nn.functional.cross_entropy(model(rows), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
