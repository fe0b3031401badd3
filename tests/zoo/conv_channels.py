"""A small convolutional network: 4-D weights and images, so that channels_last means something."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 300


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
    torch.manual_seed(0)
    images, labels = torch.randn(1600, 3, 24, 24), torch.randint(0, 10, (1600,))
    images += labels.view(-1, 1, 1, 1) / 5
    loader = DataLoader(TensorDataset(images, labels), batch_size=16, shuffle=True)
    model = ConvNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(EPOCHS):
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
