"""A script that scales its learning rate with the batch, as timm does, and ignores one of its own flags."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("-b", "--batch-size", type=int, default=32)
parser.add_argument("--workers", type=int, default=0, help="ignored")
parser.add_argument("--lr-base", type=float, default=0.1, help="for a batch of 256")
parser.add_argument("--api-key", default="sk-planted")
options = parser.parse_args()
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(4096, 16)), batch_size=options.batch_size, drop_last=True)
model = nn.Linear(16, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=options.lr_base * options.batch_size / 256)
while True:
    for (inputs,) in loader:
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
