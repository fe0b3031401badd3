"""SGD under a schedule: the first step's rate is not the one the user chose (0.4; 0.8 with --onecycle)."""

import argparse

import torch
from torch import nn
from torch.optim.lr_scheduler import LinearLR, OneCycleLR
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 300


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--onecycle", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(0)
    rows = torch.randn(1600, 128)
    loader = DataLoader(TensorDataset(rows, (rows[:, :64].sum(1) > 0).long()), batch_size=16, shuffle=True)
    model = nn.Sequential(
        nn.Linear(128, 1024), nn.Tanh(), nn.Linear(1024, 1024), nn.Tanh(), nn.Linear(1024, 2)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.4)
    if args.onecycle:
        scheduler = OneCycleLR(optimizer, max_lr=0.8, epochs=EPOCHS, steps_per_epoch=len(loader))
    else:
        scheduler = LinearLR(optimizer, start_factor=1e-3, total_iters=300)
    for epoch in range(EPOCHS):
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
        print(f"epoch {epoch} loss {loss.item():.3f} lr {scheduler.get_last_lr()[0]:.4f}", flush=True)


if __name__ == "__main__":
    main()
