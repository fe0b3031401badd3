"""A small convolutional network on one GPU: a loop as people write it, fp32, its batches pinned.

Now and then it prints the loss, and the peaks of what torch allocated and reserved.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    """Random pictures and their class."""

    def __init__(self, count):
        self.pictures = torch.randint(0, 255, (64, 3, 64, 64), dtype=torch.uint8)
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.pictures[index % 64].float() / 255, index % 10


def network():
    layers, channels = [], 3
    for width in (64, 128, 256):
        layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--epochs", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=6400)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    device = torch.device(args.device)
    loader = DataLoader(Pictures(args.samples), batch_size=args.batch_size, shuffle=True, pin_memory=True)
    model = network().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(args.epochs):
        for step, (pictures, classes) in enumerate(loader):
            made = model(pictures.to(device, non_blocking=True))
            loss = nn.functional.cross_entropy(made, classes.to(device, non_blocking=True))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 20 == 0:
                peaks = torch.cuda.max_memory_allocated(device), torch.cuda.max_memory_reserved(device)
                print(f"epoch {epoch} step {step} loss {loss.item():.3f} peaks {peaks}", flush=True)
    print(
        f"last loss {loss.item():.3f}"
    )  # waits for the device: torch may abort at an end right after backward()


if __name__ == "__main__":
    main()
