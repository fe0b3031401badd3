"""Batches that take 20 ms to make and 10 ms to train on, in a dict that the loop takes apart."""

import argparse
import time
from collections import UserDict

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LOAD_S, TRAIN_S = 0.020, 0.010


class Rows(Dataset):
    """Rows of ones, made when their batch is."""

    def __init__(self, features, stacked, kind=dict):
        self.features, self.stacked, self.kind = features, stacked, kind

    def __len__(self):
        return 160_000

    def __getitems__(self, indices):
        time.sleep(LOAD_S)
        return [self.made([index]) for index in indices] if self.stacked else indices

    def made(self, indices):
        labels = torch.tensor([index % 2 for index in indices])
        return self.kind(rows=torch.ones(len(indices), self.features), labels=labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--features", type=int, default=64)
    parser.add_argument(
        "--stacked", action="store_true", help="torch stacks samples that are made one by one"
    )
    parser.add_argument("--in-place", action="store_true")
    parser.add_argument("--encoding", action="store_true", help="batches are a mapping as tokenizers give")
    parser.add_argument(
        "--per-row", type=float, default=0.0, help="seconds that training takes more for each"
    )
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--state", action="store_true", help="keeps something as long as its own batch size")
    args = parser.parse_args()
    torch.manual_seed(0)
    data = Rows(args.features, args.stacked, UserDict if args.encoding else dict)
    loader = DataLoader(
        data, args.batch_size, num_workers=args.workers, collate_fn=None if args.stacked else data.made
    )
    model = nn.Linear(8, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    state = torch.zeros(args.batch_size, 2) if args.state else 0.0
    for batch in loader:
        labels = batch.pop("labels").flatten()
        if args.in_place:
            batch["rows"].mul_(0.5)
        loss = nn.functional.cross_entropy(state + model(batch["rows"].flatten(0, -2)[:, :8]), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        time.sleep(TRAIN_S + args.per_row * len(labels))


if __name__ == "__main__":
    main()
