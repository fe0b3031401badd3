"""The loop, with an import relative to its package."""

import torch
from plain_loop import labelled_rows, train
from torch.utils.data import DataLoader

from .model import Net


def main():
    loader = DataLoader(labelled_rows(), batch_size=16, shuffle=True)
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    train(model, optimizer, loader)


if __name__ == "__main__":
    main()
