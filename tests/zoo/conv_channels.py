"""A small convolutional network: 4-D weights and images, so that channels_last means something.

With --channels-last the script itself puts it and its images into that layout.
"""

import argparse

import torch
from plain_loop import train
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.head = nn.Linear(64, 10)

    def forward(self, images):
        return self.head(self.features(images).mean((2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--channels-last", action="store_true")
    layout = torch.channels_last if parser.parse_args().channels_last else torch.contiguous_format
    torch.manual_seed(0)
    images, labels = torch.randn(1600, 3, 24, 24), torch.randint(0, 10, (1600,))
    images += labels.view(-1, 1, 1, 1) / 5
    loader = DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True)
    model = ConvNet().to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    train(lambda images: model(images.to(memory_format=layout)), optimizer, loader)


if __name__ == "__main__":
    main()
