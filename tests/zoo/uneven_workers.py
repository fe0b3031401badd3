"""Batches that take one worker longer than the others, and a validation loader whose batches take longest."""

import argparse
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

EPOCHS = 500


class Rows(Dataset):
    """One sample is a batch's worth of time: 20 ms in worker 0, 5 ms elsewhere; asleep or computing."""

    def __init__(self, length, busy, pause_s=None):
        self.length, self.busy, self.pause_s = length, busy, pause_s
        self.within = DataLoader(range(4), batch_size=2)  # a loader in a data set: not what trains

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        if get_worker_info() is not None:
            list(self.within)
        spend(self.pause_s, self.busy)
        return torch.zeros(32) + index % 7, index % 2


class Stream(IterableDataset):
    """The same as a stream, each worker a share."""

    def __init__(self, length, busy):
        self.length, self.busy = length, busy

    def __iter__(self):
        info = get_worker_info()
        for index in range(info.id if info else 0, self.length, info.num_workers if info else 1):
            spend(None, self.busy)
            yield torch.zeros(32) + index % 7, index % 2


def spend(pause_s, busy):
    info = get_worker_info()
    if pause_s is None:
        pause_s = 0.02 if info is not None and info.id == 0 else 0.005
    if not busy:
        time.sleep(pause_s)
    end = time.thread_time() + pause_s
    while busy and time.thread_time() < end:
        pass


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--context", default=None)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--validate", action="store_true")
    parser.add_argument("--epoch", type=int, default=60)
    args = parser.parse_args()
    options = {"multiprocessing_context": args.context, "persistent_workers": args.persistent}
    data = (Stream if args.stream else Rows)(args.epoch, args.busy)
    loader = DataLoader(data, batch_size=1, num_workers=args.workers, **(options if args.workers else {}))
    validation = DataLoader(Rows(2, False, pause_s=0.1), batch_size=1, num_workers=min(args.workers, 1))
    model = nn.Linear(32, 2)
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(EPOCHS):
        for rows, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(rows), labels)
            loss.backward()
            optimizer.step()
        if args.validate:
            with torch.no_grad():
                [model(rows) for rows, _ in validation]
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
