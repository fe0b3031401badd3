"""A transform that is itself a module with parameters runs before the model, and while batches are fetched.

Whoever takes the first module that is called for the model takes the wrong one.
"""

import argparse

import torch
from plain_loop import train
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Normalise(nn.Module):
    """Scale and shift; the parameters look learnable, but no optimizer has them."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((3, 1, 1), 0.9))
        self.shift = nn.Parameter(torch.zeros(3, 1, 1))
        self.register_buffer("mean", torch.full((3, 1, 1), 0.1))

    def forward(self, images):
        return (images - self.mean) * self.scale + self.shift


class Images(Dataset):
    def __init__(self, transform):
        self.images, self.transform = torch.randn(1600, 3, 16, 16), transform
        self.labels = torch.randint(0, 10, (1600,))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        with torch.no_grad():
            return self.transform(self.images[index]), self.labels[index]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(0)
    transform = Normalise()
    loader = DataLoader(Images(transform), batch_size=16, shuffle=True, num_workers=args.workers)
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 2048), nn.ReLU(), nn.Linear(2048, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    train(lambda images: model(transform(images)), optimizer, loader)


if __name__ == "__main__":
    main()
