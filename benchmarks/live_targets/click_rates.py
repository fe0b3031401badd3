"""A recommender: rows of categories looked up in tables, and a wide perceptron.

python benchmarks/live_targets/click_rates.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BATCH_SIZE = 64
TABLES, ROWS, WIDTH = 12, 5000, 16


class Clicks(Dataset):
    """Rows of twelve categories and four numbers, each normalised as it is read."""

    def __init__(self) -> None:
        source = torch.Generator().manual_seed(0)
        self._categories = torch.randint(0, ROWS, (65536, TABLES), generator=source)
        self._numbers = torch.rand(65536, 4, generator=source)
        self._clicked = (self._numbers.sum(1) > 2).float()

    def __len__(self) -> int:
        return len(self._clicked)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        numbers = self._numbers[place].log1p()
        return self._categories[place], (numbers - 0.4) / 0.2, self._clicked[place]


class Recommender(nn.Module):
    """Tables of embeddings, then a perceptron over all of them."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(ROWS, WIDTH) for _ in range(TABLES))
        self.perceptron = nn.Sequential(
            nn.Linear(TABLES * WIDTH + 4, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1)
        )

    def forward(self, categories: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        """Return one logit per row."""
        looked_up = [table(categories[:, place]) for place, table in enumerate(self.tables)]
        return self.perceptron(torch.cat([*looked_up, numbers], dim=1))[:, 0]


def make_dataset() -> Dataset:
    """Return the training data."""
    return Clicks()


def make_model() -> nn.Module:
    """Return the untrained model."""
    return Recommender()


def loss_of(model: nn.Module, batch: list[torch.Tensor]) -> torch.Tensor:
    """Return the loss of a batch."""
    categories, numbers, clicked = batch
    return nn.functional.binary_cross_entropy_with_logits(model(categories, numbers), clicked)


def main() -> None:
    """Train."""
    loader = DataLoader(make_dataset(), batch_size=BATCH_SIZE, shuffle=True)
    model = make_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(1000):
        for batch in loader:
            loss = loss_of(model, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
