"""Loader-bound: every sample waits for storage that is far away, then trains a small net.

python benchmarks/grid_targets/remote_storage.py
"""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LATENCY_S = 0.0015


class RemoteImages(Dataset):
    """Small images, each a request away."""

    def __len__(self) -> int:
        return 8192

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        time.sleep(LATENCY_S)
        generator = torch.Generator().manual_seed(place)
        return torch.randn(3, 32, 32, generator=generator), place % 10


def main() -> None:
    """Train."""
    loader = DataLoader(RemoteImages(), batch_size=16, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(1000):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
