"""A schedule whose steps come from the flag for the batch size, which the loader may ignore or not have."""

import argparse
import sys

import torch
from plain_loop import labelled_rows
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader

EPOCHS, OWN_BATCH = 400, 16


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ignore", action="store_true", help="the next flag")
    if "--flagless" not in sys.argv:
        parser.add_argument("--batch-size", type=int, default=OWN_BATCH)
    parser.add_argument("--flagless", action="store_true")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    options = parser.parse_args()
    batch = getattr(options, "batch_size", OWN_BATCH)
    rows = labelled_rows(width=32)
    loader = DataLoader(rows, batch_size=OWN_BATCH if options.ignore else batch, shuffle=True, drop_last=True)
    model = nn.Linear(32, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    planned, steps = options.epochs * (len(rows) // batch), 0
    schedule = OneCycleLR(optimizer, max_lr=0.1, total_steps=planned)
    for _ in range(options.epochs):
        for inputs, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()
            schedule.step()
            steps += 1
    print(f"made {steps} of {planned} steps", flush=True)


if __name__ == "__main__":
    main()
