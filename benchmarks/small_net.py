"""A real training loop on a small data set; alone it times its own whole epochs.

python benchmarks/small_net.py --workers 2 --persistent --batch-size 32 --samples 2000 --epochs 6

Prints the seconds of each epoch, from its iterator being made to the next one's.
"""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    """Rows that take some work to make, as decoding does."""

    def __init__(self, samples: int) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(place)
        row = torch.randn(3, 24, 24, generator=generator)
        return row / row.std(), place % 8


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--epochs", type=int, default=10_000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    loader = DataLoader(
        Rows(options.samples),
        batch_size=options.batch_size,
        shuffle=True,
        num_workers=options.workers,
        persistent_workers=options.persistent and options.workers > 0,
    )
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(6400, 8)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(options.epochs):
        started = time.perf_counter()
        for rows, labels in loader:
            loss = nn.functional.cross_entropy(model(rows), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(time.perf_counter() - started, flush=True)


if __name__ == "__main__":
    main()
