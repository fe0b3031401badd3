"""Train a bottleneck ResNet on images in zarr chunks: `python images.py --epochs 3`.

The images are made on first use and kept in a cache folder. Defaults fit the machine: ResNet-50 on 224-pixel
images with a GPU, a small ResNet on 64-pixel images without one.
"""

from pathlib import Path

import torch
import zarr
from images_store import Contents
from stores import store_folder
from torch import nn
from torch.nn import functional
from torch.optim import SGD
from torch.utils.data import Dataset
from training import accuracy, fit, loaders, option_parser, parse, split

# name: (blocks in each stage, channels of the first stage)
MODELS = {
    "resnet11": ((1, 1, 1), 48),
    "resnet26": ((2, 2, 2, 2), 64),
    "resnet50": ((3, 4, 6, 3), 64),
    "resnet101": ((3, 4, 23, 3), 64),
}
DEFAULTS = {
    "cuda": {"model": "resnet50", "batch_size": 64, "workers": 2, "lr": 0.1},
    "cpu": {"model": "resnet11", "batch_size": 16, "workers": 0, "lr": 0.1},
}
MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)
LUMA = torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)


class ZarrImages(Dataset):
    """Images of the store as `(float32 3 x size x size, label)`; augmented if `augmented`."""

    def __init__(self, folder: Path, image_size: int, indices: range, augmented: bool) -> None:
        self.folder, self.image_size, self.indices, self.augmented = folder, image_size, indices, augmented
        self.group = None

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, item: int) -> tuple[torch.Tensor, int]:
        if self.group is None:  # opened in each worker, not before the fork
            self.group = zarr.open_group(self.folder, mode="r")
            self.images, self.labels = self.group["images"], self.group["labels"][:]
        index = self.indices[item]
        image = torch.from_numpy(self.images[index]).permute(2, 0, 1)
        image = augment(image, self.image_size) if self.augmented else centre_crop(image, self.image_size)
        return image, int(self.labels[index])


def augment(image: torch.Tensor, size: int) -> torch.Tensor:
    """Return a random crop of a uint8 image (3, H, W), resized, randomly flipped, jittered and normalised."""
    side = image.shape[-1]
    aspect = float(torch.empty(1).uniform_(3 / 4, 4 / 3)) ** 0.5
    edge = side * float(torch.empty(1).uniform_(0.2, 1.0)) ** 0.5
    height, width = min(side, round(edge / aspect)), min(side, round(edge * aspect))
    top = int(torch.randint(side - height + 1, ()))
    left = int(torch.randint(side - width + 1, ()))
    crop = image[None, :, top : top + height, left : left + width].float() / 255
    crop = functional.interpolate(crop, (size, size), mode="bilinear", antialias=True, align_corners=False)[0]
    if torch.rand(()) < 0.5:
        crop = crop.flip(-1)
    return (jitter(crop) - MEAN) / STD


def jitter(image: torch.Tensor, strength: float = 0.4) -> torch.Tensor:
    """Return a float image in 0..1 with random brightness, contrast and saturation."""
    brightness, contrast, saturation = (1 + strength * (2 * torch.rand(3) - 1)).tolist()
    image = (image * brightness).clamp_(0, 1)
    image = torch.lerp((image * LUMA).sum(0).mean(), image, contrast).clamp_(0, 1)
    return torch.lerp((image * LUMA).sum(0, keepdim=True), image, saturation).clamp_(0, 1)


def centre_crop(image: torch.Tensor, size: int) -> torch.Tensor:
    """Return the middle of a uint8 image (3, H, W), normalised."""
    margin = (image.shape[-1] - size) // 2
    crop = image[:, margin : margin + size, margin : margin + size].float() / 255
    return (crop - MEAN) / STD


class Bottleneck(nn.Module):
    """A residual block (He et al. 2015): 1x1 down, 3x3 with the stride, 1x1 up to 4x the channels."""

    expansion = 4

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        channels_out = channels * self.expansion
        self.relu = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(channels_in, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, channels_out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels_out)
        self.shortcut = nn.Identity()
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False), nn.BatchNorm2d(channels_out)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, channels_in, H, W) to (N, 4 * channels, H / stride, W / stride)."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        return self.relu(self.bn3(self.conv3(out)) + self.shortcut(x))


class ResNet(nn.Module):
    """A stem, stages of bottleneck blocks that halve the image and double the channels, a linear head."""

    def __init__(self, blocks: tuple[int, ...], width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, 2, 1),
        )
        stages, channels_in = [], width
        for stage, depth in enumerate(blocks):
            channels = width << stage
            for block in range(depth):
                stages.append(Bottleneck(channels_in, channels, 2 if stage and not block else 1))
                channels_in = channels * Bottleneck.expansion
        self.stages = nn.Sequential(*stages)
        self.head = nn.Linear(channels_in, classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, Bottleneck):
                nn.init.zeros_(module.bn3.weight)  # each block starts as the identity, which trains steadier

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map images (N, 3, H, W) to logits (N, classes)."""
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


def main() -> None:
    """Train as the command line says."""
    args = parse(option_parser(__doc__, Contents, MODELS), Contents.sizes, DEFAULTS)
    folder = store_folder(Contents(args.samples, args.image_size), args.data)
    train_set, val_set = (ZarrImages(folder, args.image_size, *part) for part in split(args.samples))
    model = ResNet(*MODELS[args.model]).to(args.device)
    optimizer = SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=args.weight_decay)
    fit(args, model, optimizer, nn.CrossEntropyLoss(), accuracy, *loaders(args, train_set, val_set))


if __name__ == "__main__":
    main()
