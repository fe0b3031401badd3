"""A data set that lies in memory as a whole; forked workers share it."""

import argparse

import numpy
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    """Rows of an array that was written once."""

    def __init__(self, mib):
        self.rows = numpy.ones((mib << 8, 1 << 10), dtype=numpy.float32)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--mib", type=int, default=400)
    args = parser.parse_args()
    loader = DataLoader(Rows(args.mib), batch_size=16, num_workers=args.workers)
    model = nn.Linear(1 << 10, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5)
    for rows in loader:
        optimizer.zero_grad()
        model(rows).square().mean().backward()
        optimizer.step()


if __name__ == "__main__":
    main()
