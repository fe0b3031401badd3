"""torchdata's StatefulDataLoader, which makes its iterators by itself."""

import argparse

import torch
from plain_loop import labelled_rows, train
from torch import nn
from torchdata.stateful_dataloader import StatefulDataLoader


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    workers = parser.parse_args().workers
    loader = StatefulDataLoader(labelled_rows(), batch_size=16, shuffle=True, num_workers=workers)
    model = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 8))
    train(model, torch.optim.SGD(model.parameters(), lr=0.02), loader)


if __name__ == "__main__":
    main()
