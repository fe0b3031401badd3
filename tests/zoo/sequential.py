"""A bare nn.Sequential, on which `.compile()` compiles nothing and says nothing; its loader as flags ask.

With --whole-batches each item is a batch and the loader has batch_size=None; with --mini-batch too, and its
collate function keeps one; with --batch-sampler its batches are not the loader's to set. Few --rows and a
worker make epochs whose boundaries cost as much as their steps.
With --daemon it first prints `daemon PID` and `child PID` of processes that run for ten minutes.
"""

import argparse
import multiprocessing
import os
import time

import torch
from plain_loop import labelled_rows, train
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler


class Batches(Dataset):
    """Item i is the i-th batch."""

    def __init__(self, rows, size=16):
        self.rows, self.size = rows, size

    def __len__(self):
        return len(self.rows) // self.size

    def __getitem__(self, index):
        return self.rows[self.size * index : self.size * (index + 1)]


def start_daemon():
    """Start `sleep 600` in a session of its own, adopted by init, its streams closed; return its pid."""
    reader, writer = os.pipe()
    if not (middle := os.fork()):
        os.setsid()
        if not (daemon := os.fork()):
            null = os.open(os.devnull, os.O_RDWR)
            for stream in range(3):
                os.dup2(null, stream)
            os.execvp("sleep", ["sleep", "600"])
        os.write(writer, str(daemon).encode())
        os._exit(0)
    os.waitpid(middle, 0)
    return int(os.read(reader, 20))


def make_loader(args):
    rows = labelled_rows(args.rows)
    if args.whole_batches:
        return DataLoader(Batches(rows), batch_size=None, shuffle=True)
    if args.mini_batch:
        return DataLoader(Batches(rows, args.mini_batch), collate_fn=lambda batches: batches[0])
    if args.batch_sampler:
        sampler = BatchSampler(RandomSampler(rows), 16, False)
        return DataLoader(rows, batch_sampler=sampler, num_workers=args.workers)
    started = {"multiprocessing_context": args.context, "persistent_workers": True} if args.context else {}
    return DataLoader(rows, batch_size=16, shuffle=True, num_workers=args.workers, **started)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1600)
    parser.add_argument("--mini-batch", type=int)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--context", default=None)
    for switch in ("--whole-batches", "--batch-sampler", "--daemon"):
        parser.add_argument(switch, action="store_true")
    args = parser.parse_args()
    if args.daemon:
        print(f"daemon {start_daemon()}", flush=True)
        child = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,), daemon=True)
        child.start()
        print(f"child {child.pid}", flush=True)
    loader = make_loader(args)
    model = nn.Sequential(
        nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 8)
    )
    train(model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9), loader, epochs=1000)


if __name__ == "__main__":
    main()
