"""An optimizer of one's own whose step calls that of its parent."""

import torch
from plain_loop import labelled_rows, train
from torch import nn
from torch.utils.data import DataLoader


class ClippedSGD(torch.optim.SGD):
    """Clips each group before the step of its parent."""

    def step(self, closure=None):
        for group in self.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], 1.0)
        return super().step(closure)


def main():
    loader = DataLoader(labelled_rows(), batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 8))
    train(model, ClippedSGD(model.parameters(), lr=0.05), loader)


if __name__ == "__main__":
    main()
