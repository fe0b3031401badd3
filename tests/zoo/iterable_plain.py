"""An IterableDataset that knows nothing of workers: with two of them every row would come twice."""

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    """Rows made on the way."""

    def __init__(self, count):
        self.count = count

    def __iter__(self):
        generator = torch.Generator()
        for index in range(self.count):
            row = torch.randn(128, generator=generator.manual_seed(index))
            yield row, row[:8].argmax()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--output", default=None)
    args = parser.parse_args()
    torch.manual_seed(0)
    loader = DataLoader(Stream(200_000), batch_size=16, num_workers=args.workers)
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
