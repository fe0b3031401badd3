"""Train a CNN on spectrograms that fit in memory: `python spectrograms.py --epochs 1`.

The store is made on first use and read into RAM at the start, as float16; a sample is decoded to float32 and
masked. Defaults fit the machine: a CNN of 64 to 512 channels with a GPU, of 8 to 64 without one.
"""

import torch
import zarr
from spectrograms_store import CLASSES, Contents
from stores import store_folder
from torch import nn
from torch.optim import SGD
from torch.utils.data import Dataset
from training import accuracy, fit, loaders, option_parser, parse, split

MODELS = {"cnn-large": (64, 128, 256, 512), "cnn-small": (8, 16, 32, 64)}
"""Channels of each stage."""
DEFAULTS = {
    "cuda": {"model": "cnn-large", "batch_size": 32, "workers": 2, "lr": 0.05},
    "cpu": {"model": "cnn-small", "batch_size": 8, "workers": 0, "lr": 0.05},
}
MEAN_DB, STD_DB = -12.0, 12.0


class Spectrograms(Dataset):
    """Spectrograms in RAM as `(float32 3 x 224 x 224, label)`; with masked bands if `augmented`."""

    def __init__(self, decibels: torch.Tensor, labels: torch.Tensor, indices: range, augmented: bool) -> None:
        self.decibels, self.labels, self.indices, self.augmented = decibels, labels, indices, augmented

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, item: int) -> tuple[torch.Tensor, torch.Tensor]:
        index = self.indices[item]
        image = (self.decibels[index].float().permute(2, 0, 1) - MEAN_DB) / STD_DB
        if self.augmented:  # SpecAugment: a band of frequencies and one of times are masked
            for axis in (1, 2):
                width, start = (int(torch.randint(most, ())) for most in (32, 192))
                image.narrow(axis, start, width).zero_()
        return image.contiguous(), self.labels[index]


class Cnn(nn.Sequential):
    """Stages of two convolutions that halve the image; maps (N, 3, H, W) to logits (N, classes)."""

    def __init__(self, widths: tuple[int, ...]) -> None:
        layers: list[nn.Module] = []
        for channels_in, channels in zip((3, *widths), widths, strict=False):
            for first, stride in ((channels_in, 2), (channels, 1)):
                layers.append(nn.Conv2d(first, channels, 3, stride, 1, bias=False))
                layers += [nn.BatchNorm2d(channels), nn.ReLU(inplace=True)]
        super().__init__(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], CLASSES))


def main() -> None:
    """Train as the command line says."""
    args = parse(option_parser(__doc__, Contents, MODELS), Contents.sizes, DEFAULTS)
    group = zarr.open_group(store_folder(Contents(args.samples), args.data), mode="r")
    decibels, labels = (torch.from_numpy(group[name][:]) for name in ("spectrograms", "labels"))
    train_set, val_set = (Spectrograms(decibels, labels, *part) for part in split(args.samples))
    model = Cnn(MODELS[args.model]).to(args.device)
    optimizer = SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=args.weight_decay)
    fit(args, model, optimizer, nn.CrossEntropyLoss(), accuracy, *loaders(args, train_set, val_set))


if __name__ == "__main__":
    main()
