"""Launch-bound: many layers so small that starting an operation costs more than computing it.

python benchmarks/grid_targets/many_layers.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WIDTH, LAYERS = 16, 24


class Deep(nn.Module):
    """Residual layers of sixteen features."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(WIDTH)) for _ in range(LAYERS))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows of the same shape."""
        for layer, scale in zip(self.layers, self.scales, strict=True):
            rows = rows + torch.tanh(layer(rows)) * scale
        return rows


def main() -> None:
    """Train."""
    rows = torch.randn(32768, WIDTH, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(rows, rows.roll(1, 1)), batch_size=16, shuffle=True)
    model = Deep()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(1000):
        for rows, wanted in loader:
            loss = nn.functional.mse_loss(model(rows), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
