"""SGD under a schedule: the first step's rate is not the one the user chose, 0.8."""

import torch
from plain_loop import labelled_rows, train
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import DataLoader


def main():
    loader = DataLoader(labelled_rows(), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(128, 1024), nn.Tanh(), nn.Linear(1024, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.4)
    scheduler = OneCycleLR(optimizer, max_lr=0.8, epochs=300, steps_per_epoch=len(loader))
    train(model, optimizer, loader, after=scheduler.step)


if __name__ == "__main__":
    main()
