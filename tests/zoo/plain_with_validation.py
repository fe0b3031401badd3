"""The ordinary loop: a train loader, a validation loader, Adam; it also times itself, for comparison.

After each train step it prints `STEP <n> <samples> <seconds>`: steps and samples so far, and its clock.
"""

import argparse
import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

EPOCHS = 300


class Costly(Dataset):
    """Random rows and their class; each item costs some CPU."""

    def __init__(self, length):
        self.rows = torch.randn(length, 64)
        self.labels = (self.rows[:, :32].sum(1) > 0).long()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        row = self.rows[index]
        noise = torch.stack([torch.randn(64) for _ in range(60)]).sort(dim=1).values.mean()
        return row + 0.01 * noise, self.labels[index]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=1600)
    args = parser.parse_args()
    torch.manual_seed(0)
    train_loader = DataLoader(Costly(args.samples), batch_size=16, shuffle=True, num_workers=0)
    val_loader = DataLoader(Costly(200), batch_size=50, num_workers=0)
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    step = samples = 0
    for _ in range(EPOCHS):
        model.train()
        for rows, labels in train_loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(rows), labels).backward()
            optimizer.step()
            step, samples = step + 1, samples + len(rows)
            print(f"STEP {step} {samples} {time.perf_counter():.6f}", flush=True)
        model.eval()
        with torch.no_grad():
            wrong = sum((model(rows).argmax(1) != labels).sum().item() for rows, labels in val_loader)
        print(f"validation error {wrong / len(val_loader.dataset):.3f}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
