"""Data sets whose samples depend on the loader's knobs, and some whose samples only seem to."""

import argparse
import random
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, RandomSampler, get_worker_info


def row(index, scale=1.0):
    x = torch.randn(64, generator=torch.Generator().manual_seed(index)) * scale
    return x, x[:4].argmax()


class SeedsByWorker(IterableDataset):
    """Shuffles by its worker's id, and reads everything in each."""

    def __init__(self, rows):
        self.rows = rows

    def order(self):
        worker = get_worker_info()
        indices = list(range(self.rows))
        random.Random(worker.id if worker else 0).shuffle(indices)
        return indices

    def __iter__(self):
        for index in self.order():
            time.sleep(0.0005)
            yield row(index)


class Sharded(SeedsByWorker):
    """Each worker reads its share."""

    def order(self):
        worker = get_worker_info()
        return range(worker.id, self.rows, worker.num_workers) if worker else range(self.rows)


def share_out(worker):
    """Give a worker its share from outside, as PyTorch's documentation does."""
    info = get_worker_info()
    info.dataset.order = lambda: range(worker, info.dataset.rows, info.num_workers)


class Rows(Dataset):
    """Rows that follow their index alone."""

    def __init__(self, rows):
        self.rows = rows

    def __len__(self):
        return self.rows

    def __getitem__(self, index):
        time.sleep(0.0005)
        return row(index)


class Curriculum(Rows):
    """Harder with each epoch."""

    epoch = 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __getitem__(self, index):
        return row(index, 1 + 0.1 * self.epoch)


class Augmented(Rows):
    """Draws from a generator of its own."""

    def __init__(self, rows):
        super().__init__(rows)
        self.rng = np.random.default_rng(7)

    def __getitem__(self, index):
        return row(index, 0.5 + self.rng.random())


class SeededByIndex(Rows):
    """Has a generator of its own that it seeds for each sample."""

    def __init__(self, rows):
        super().__init__(rows)
        self.generator = torch.Generator()

    def __getitem__(self, index):
        return row(index, 0.5 + torch.rand((), generator=self.generator.manual_seed(index)))


class Unseeded(Rows):
    """Rows that each process makes anew, and that torch's own generator changes."""

    def __init__(self, rows):
        super().__init__(rows)
        torch.seed()
        self.data = torch.randn(rows, 64)

    def __getitem__(self, index):
        time.sleep(0.0005)
        x = self.data[index] + torch.randn(64)
        return x, x[:4].argmax()


class Logged(Rows):
    """Notes what was read, for the loop to take."""

    def __init__(self, rows):
        super().__init__(rows)
        self.log = []

    def __getitem__(self, index):
        self.log.append(index)
        return super().__getitem__(index)


class SharedFile(Rows):
    """Reads from a file that is opened once, so that forked workers move each other's place in it."""

    def __init__(self, rows):
        super().__init__(rows)
        self.file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        self.file.write(random.Random(0).randbytes(128 * rows))  # no worker reads beyond its end

    def __getitem__(self, index):
        self.file.seek(64 * index)
        time.sleep(0.0005)
        x = torch.frombuffer(bytearray(self.file.read(64)), dtype=torch.uint8).float() / 256
        return x, x[:4].argmax()


KINDS = {
    "seeds-by-worker": SeedsByWorker,
    "sharded": Sharded,
    "shared-out": SeedsByWorker,
    "plain": Rows,
    "curriculum": Curriculum,
    "augmented": Augmented,
    "seeded-by-index": SeededByIndex,
    "unseeded": Unseeded,
    "logged": Logged,
    "shared-file": SharedFile,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--rows", type=int, default=640)
    parser.add_argument("--replacement", action="store_true")
    parser.add_argument("--drop-last", action="store_true")
    parser.add_argument("--in-order", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    data = KINDS[args.kind](args.rows)
    options = {"num_workers": args.workers, "drop_last": args.drop_last}
    if args.kind == "shared-out":
        options["worker_init_fn"] = share_out
    if not isinstance(data, IterableDataset) and not args.in_order:
        options["sampler"] = RandomSampler(data, replacement=args.replacement)
    loader = DataLoader(data, batch_size=32, **options)
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 4))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for epoch in range(100_000):
        if hasattr(data, "set_epoch"):
            data.set_epoch(epoch)
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(inputs), labels).backward()
            optimizer.step()
            getattr(data, "log", []).clear()


if __name__ == "__main__":
    main()
