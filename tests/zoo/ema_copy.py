"""A model and its moving average: a copy of its shape, called before the model, stepped by no optimizer."""

import copy

import torch
from plain_loop import labelled_rows, train
from torch import nn
from torch.utils.data import DataLoader


def main():
    model = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 8))
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)

    def scores(inputs):
        with torch.no_grad():
            average(inputs)
        return model(inputs)

    @torch.no_grad()
    def follow():
        for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
            slow.lerp_(fast, 0.01)

    train(scores, optimizer, DataLoader(labelled_rows(), batch_size=16, shuffle=True), after=follow)


if __name__ == "__main__":
    main()
