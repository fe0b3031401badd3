"""torchdata's StatefulDataLoader, whose state goes into the checkpoint to resume within an epoch."""

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader

EPOCHS = 300


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--output", default=None)
    parser.add_argument("--workers", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(0)
    rows = torch.randn(1600, 128)
    dataset = TensorDataset(rows, rows[:, :8].argmax(1))
    loader = StatefulDataLoader(dataset, batch_size=16, shuffle=True, num_workers=args.workers)
    model = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
    for epoch in range(EPOCHS):
        for step, (inputs, labels) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if args.output and step == 50:
                state = {"model": model.state_dict(), "loader": loader.state_dict()}
                torch.save(state, Path(args.output) / "state.pt")
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
