"""A million rows sorted by length, and a model whose memory grows with the square of it.

What a trial sees of it is short. With --room, the process may take that many MB more than before its loop.
"""

import argparse
import resource
from pathlib import Path

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

COUNT, SHORTEST, FEATURES = 1_000_000, 5, 4


class Sorted(Dataset):
    """Rows of ones, the longest last."""

    def __init__(self, longest):
        self.longest = longest

    def __len__(self):
        return COUNT

    def __getitem__(self, index):
        length = SHORTEST + index * (self.longest - SHORTEST) // COUNT
        return torch.ones(length, FEATURES), index % 2


def padded(samples):
    rows, labels = zip(*samples, strict=True)
    return pad_sequence(rows, batch_first=True), torch.tensor(labels)


class Pairs(nn.Module):
    """Looks at every two positions of a row."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(FEATURES, 2)

    def forward(self, rows):
        return self.head((rows.unsqueeze(1) * rows.unsqueeze(2)).mean((1, 2)))


def taken_bytes():
    return int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--longest", type=int, default=100)
    parser.add_argument("--room", type=int, default=None)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Sorted(args.longest), batch_size=16, collate_fn=padded)
    model = Pairs()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    if args.room is not None:
        most = taken_bytes() + args.room * 1_000_000
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
    for rows, labels in loader:
        loss = nn.functional.cross_entropy(model(rows), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    main()
