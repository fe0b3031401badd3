"""An optimizer of one's own whose step calls that of its parent, with gradients accumulated on request."""

import argparse

import torch
from plain_loop import labelled_rows
from torch import nn
from torch.utils.data import DataLoader

EPOCHS = 300


class ClippedSGD(torch.optim.SGD):
    """Clips each group before the step of its parent."""

    def step(self, closure=None):
        for group in self.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
        return super().step(closure)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--accumulate", type=int, default=1)
    args = parser.parse_args()
    loader = DataLoader(labelled_rows(), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 8))
    optimizer = ClippedSGD(model.parameters(), lr=0.05)
    for epoch in range(EPOCHS):
        for step, (inputs, labels) in enumerate(loader, start=1):
            loss = nn.functional.cross_entropy(model(inputs), labels)
            (loss / args.accumulate).backward()
            if step % args.accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
