"""Balanced: decoding a sample costs about what training on it does, and both want the same cores.

python benchmarks/grid_targets/decoded_images.py
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class DecodedImages(Dataset):
    """Images that are resized, flipped and normalised on the CPU."""

    def __len__(self) -> int:
        return 4096

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(place)
        image = torch.randint(0, 256, (1, 3, 96, 96), generator=generator, dtype=torch.uint8).float()
        for _ in range(2):
            image = nn.functional.interpolate(image, size=(80, 80), mode="bilinear", antialias=True)
        image = image[0, :, 8:72, 8:72]
        if place % 2:
            image = image.flip(-1)
        return (image - image.mean((1, 2), keepdim=True)) / (image.std((1, 2), keepdim=True) + 1), place % 10


def main() -> None:
    """Train."""
    loader = DataLoader(DecodedImages(), batch_size=16, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(3, 24, 3, stride=2, padding=1),
        nn.BatchNorm2d(24),
        nn.ReLU(),
        nn.Conv2d(24, 48, 3, stride=2, padding=1),
        nn.BatchNorm2d(48),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(768, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(1000):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
