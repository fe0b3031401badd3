"""An IterableDataset: with --shards each worker has its own share, without it every row would come twice."""

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

ROWS = 200_000


def made(indexes):
    generator = torch.Generator()
    for index in indexes:
        row = torch.randn(128, generator=generator.manual_seed(index))
        yield row, row[:8].argmax()


class Stream(IterableDataset):
    """Rows made on the way."""

    def __iter__(self):
        return made(range(ROWS))


class Sharded(IterableDataset):
    """Every worker makes the rows that are its own."""

    def __iter__(self):
        worker = get_worker_info()
        return made(range(ROWS) if worker is None else range(worker.id, ROWS, worker.num_workers))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shards", action="store_true")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--output", default=None)
    args = parser.parse_args()
    torch.manual_seed(0)
    data = Sharded() if args.shards else Stream()
    loader = DataLoader(data, batch_size=16, num_workers=args.workers)
    model = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for step, (inputs, labels) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 200 == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
            if args.output:
                torch.save(model.state_dict(), Path(args.output) / "model.pt")


if __name__ == "__main__":
    main()
