"""A whole little training: reads its standard input, prints every loss, saves a checkpoint, exits as told."""

import argparse
import signal
import sys
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--output", type=Path)
    parser.add_argument("--exit", type=int, default=0)
    parser.add_argument("--wait-for-signal", action="store_true")
    options = parser.parse_args()
    torch.manual_seed(0)
    print("read", sys.stdin.readline().strip(), flush=True)
    data = TensorDataset(torch.randn(4096, 64), torch.randint(0, 8, (4096,)))
    loader = DataLoader(data, batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    for epoch in range(options.epochs):
        for inputs, labels in loader:
            optimizer.zero_grad()
            loss = criterion(model(inputs), labels)
            loss.backward()
            optimizer.step()
            print("loss", repr(loss.item()), "of", len(inputs), "lr", optimizer.param_groups[0]["lr"])
        print("epoch", epoch, "workers", loader.num_workers, flush=True)
    if options.output is not None:
        torch.save(model.state_dict(), options.output)
    if options.wait_for_signal:
        signal.signal(signal.SIGUSR1, lambda *_: sys.exit(7))
        print("waiting", flush=True)
        signal.pause()
    return options.exit


if __name__ == "__main__":
    sys.exit(main())
