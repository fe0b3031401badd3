"""A script whose settings come from a YAML file, the command line and a variable, as projects have them."""

import argparse
import os
from pathlib import Path

import torch
import yaml
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--accumulate", type=int, default=1)
    options = parser.parse_args()
    settings = yaml.safe_load(options.config.read_text())
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(4800, 64), torch.randint(0, 8, (4800,)))
    batch_size, lr = settings["data"]["batch_size"], settings["optim"]["lr"]
    loader = DataLoader(
        data, batch_size=batch_size, shuffle=True, num_workers=int(os.environ.get("WORKERS", "0"))
    )
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    criterion = nn.CrossEntropyLoss()
    print("batch", batch_size, "accumulate", options.accumulate, "lr", lr, flush=True)
    for _ in range(settings["epochs"]):
        for index, (inputs, labels) in enumerate(loader):
            (criterion(model(inputs), labels) / options.accumulate).backward()
            if (index + 1) % options.accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()


if __name__ == "__main__":
    main()
