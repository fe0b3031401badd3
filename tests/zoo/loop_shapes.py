"""Loops that are no plain "for batch in loader": which one is the first word."""

import queue
import sys
import threading
import time
from itertools import chain

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Rows(Dataset):
    """Samples that take a while."""

    def __init__(self, count: int, seconds: float = 0.0) -> None:
        self.rows, self.seconds = torch.randn(count, 32), seconds

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> torch.Tensor:
        if self.seconds:
            time.sleep(self.seconds)
        return self.rows[place]


class Drained(DataLoader):
    """Its batches come from a thread that takes them ahead."""

    def __iter__(self):
        batches: queue.Queue = queue.Queue(6)
        own = super().__iter__()
        threading.Thread(target=lambda: [batches.put(one) for one in chain(own, [None])], daemon=True).start()
        return iter(batches.get, None)


class Endless:
    """A batch sampler that begins again at its end."""

    def __init__(self, sampler) -> None:
        self.sampler = sampler

    def __iter__(self):
        while True:
            yield from self.sampler


class Repeating(DataLoader):
    """One iterator for all epochs, as YOLOv5 has it."""

    def __init__(self, *args, **kwargs) -> None:
        super().__init__(*args, **kwargs)
        object.__setattr__(self, "batch_sampler", Endless(self.batch_sampler))
        self.iterator = super().__iter__()

    def __len__(self) -> int:
        return len(self.batch_sampler.sampler)

    def __iter__(self):
        for _ in range(len(self)):
            yield next(self.iterator)


class Sharp(torch.optim.Optimizer):
    """An optimizer that holds another."""

    def step(self, closure):
        closure()
        optimizer.zero_grad()
        closure()
        optimizer.step()


net = nn.Sequential(nn.Linear(32, 4))
optimizer = torch.optim.SGD(net.parameters(), 0.01)


def step(*batches: torch.Tensor) -> None:
    """Train on some batches together."""
    optimizer.zero_grad()
    sum(net(one).square().mean() for one in batches).backward()
    optimizer.step()


def pairs() -> int:
    """Train on a batch of each of two loaders, the smaller one without end; validate with a third."""
    labelled = DataLoader(Rows(100), batch_size=4, shuffle=True)
    others = DataLoader(Rows(1200), batch_size=12, shuffle=True)
    held_out = DataLoader(Rows(64), batch_size=32)

    def forever():
        while True:
            yield from labelled

    while True:
        for one, other in zip(forever(), others, strict=False):
            step(one, other)
            time.sleep(0.002)
        for one in held_out:
            net(one)


def one_batch() -> int:
    """Start two workers for each epoch of one batch."""
    loader = DataLoader(Rows(24), batch_size=16, drop_last=True, num_workers=2)
    return epochs(loader)


def drained() -> int:
    """Wait for a thread for next to no time: training takes longer than loading."""
    return epochs(Drained(Rows(320, 1e-4), batch_size=16), train_s=0.01)


def starved() -> int:
    """Wait for that thread most of the time."""
    return epochs(Drained(Rows(320, 5e-3), batch_size=16))


def repeating() -> int:
    """Go on with one iterator."""
    return epochs(Repeating(Rows(1600), batch_size=16, shuffle=True), train_s=0.002)


def warming_up() -> int:
    """Accumulate more and more gradients, up to four batches' but for the last three of an epoch of 99."""
    loader, done = DataLoader(Rows(1576), batch_size=16), 0
    while True:
        for place, one in enumerate(loader, 1):
            net(one).square().mean().backward()
            time.sleep(0.002)
            done += 1
            if place % min(4, 1 + done // 20) == 0 or place == len(loader):
                optimizer.step()
                optimizer.zero_grad()


def leaking() -> int:
    """Keep a MiB of each batch until the epoch's end, with a layer that is not trained."""
    kept: list = []
    net.append(nn.Linear(4, 4).requires_grad_(False))
    while True:
        kept.clear()
        for one in DataLoader(Rows(1600), batch_size=16):
            step(one)
            kept.append(torch.ones(1 << 18))
            time.sleep(0.01)


def two_passes() -> int:
    """Train as SAM does: an optimizer whose step passes twice and steps another one."""
    sharp = Sharp(net.parameters(), {})
    return epochs(DataLoader(Rows(1600), batch_size=16, drop_last=True), train_s=0.002, stepping=sharp)


def shrinking() -> int:
    """Rebuild the loader with half the batch until a step fits, as accelerate's decorator does."""
    for batch_size in (128, 64, 32):
        try:
            epochs(DataLoader(Rows(1600), batch_size=batch_size), train_s=0.002, most=40)
        except RuntimeError:
            continue
    raise RuntimeError("No executable batch size found, reached zero.")


def rollouts() -> int:
    """Collect 0.2 s long what four passes of minibatches then train on, without a loader."""
    samples, began = 0, time.perf_counter()
    while True:
        time.sleep(0.2)
        rows = torch.randn(320, 32)
        for _ in range(4):
            for places in torch.randperm(320).split(16):
                step(rows[places])
                samples += len(places)
        print("EPOCH", samples, time.perf_counter() - began, flush=True)


def epochs(loader: DataLoader, train_s: float = 0.0, stepping: Sharp | None = None, most: int = 1000) -> int:
    """Train without end, and print the samples and the seconds of what was trained on so far."""
    samples, began = 0, time.perf_counter()
    while True:
        for one in loader:
            if len(one) > most:
                raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB")
            if stepping is None:
                step(one)
            else:
                stepping.step(lambda batch=one: net(batch).square().mean().backward())
            time.sleep(train_s)
            samples += len(one)
        print("EPOCH", samples, time.perf_counter() - began, flush=True)


if __name__ == "__main__":
    globals()[sys.argv[1]]()
