"""bf16 autocast of the script's own, within the forward."""

import torch
from plain_loop import labelled_rows, train
from torch import nn
from torch.utils.data import DataLoader


class Net(nn.Module):
    """Two layers, under autocast."""

    def __init__(self):
        super().__init__()
        self.hidden, self.head = nn.Linear(128, 1024), nn.Linear(1024, 8)

    def forward(self, rows):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            scores = self.head(torch.relu(self.hidden(rows)))
        return scores.float()


def main():
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    train(model, optimizer, DataLoader(labelled_rows(), batch_size=16, shuffle=True))


if __name__ == "__main__":
    main()
