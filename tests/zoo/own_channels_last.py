"""A convolutional network that the script itself puts into channels_last, its images with it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 300


def main():
    torch.manual_seed(0)
    images = torch.randn(1600, 3, 16, 16)
    dataset = TensorDataset(images, torch.randint(0, 10, (1600,)))
    loader = DataLoader(dataset, batch_size=16, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 16, 3, padding=1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 10),
    ).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(EPOCHS):
        for inputs, labels in loader:
            inputs = inputs.to(memory_format=torch.channels_last)  # noqa: PLW2901
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    main()
