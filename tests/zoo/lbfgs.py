"""L-BFGS, whose step evaluates a closure many times for one batch."""

import torch
from plain_loop import labelled_rows
from torch import nn
from torch.utils.data import DataLoader

EPOCHS = 300


def main():
    loader = DataLoader(labelled_rows(1600, 64), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 8))
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.02, max_iter=4, history_size=5)
    for epoch in range(EPOCHS):
        for inputs, labels in loader:

            def closure(inputs=inputs, labels=labels):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(inputs), labels)
                loss.backward()
                return loss

            loss = optimizer.step(closure)
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
