"""Pictures that are packed in memory and unpacked one by one, as JPEGs are decoded; or as many sleeps."""

import argparse
import os
import time
import zlib

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = 500
BATCH = 8


class Packed(Dataset):
    """Samples that all cost some milliseconds to unpack, and never a read."""

    def __init__(self, length, pause_s):
        self.length, self.pause_s = length, pause_s
        self.packed = zlib.compress(os.urandom(1 << 20) + bytes(1 << 20), 6)

    def __len__(self):
        return self.length

    def __getitems__(self, indexes):
        if self.pause_s:
            time.sleep(self.pause_s * len(indexes))
        return [self.sample(index) for index in indexes]

    def sample(self, index):
        if not self.pause_s:
            for _ in range(4):
                zlib.decompress(self.packed)
        return torch.zeros(32) + index % 7, index % 2


def trained_on(rows, labels, model, optimizer):
    loss = nn.functional.cross_entropy(model(rows), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--sleep", type=float, default=0.0)
    args = parser.parse_args()
    torch.set_num_threads(1)
    loader = DataLoader(Packed(400, args.sleep), batch_size=BATCH, num_workers=args.workers)
    model = nn.Linear(32, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(EPOCHS):
        losses = [trained_on(rows, labels, model, optimizer) for rows, labels in loader]
        print(f"mean loss {sum(losses) / len(losses):.3f}", flush=True)


if __name__ == "__main__":
    main()
