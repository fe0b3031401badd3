"""Train a 1-D ResNet on one-second windows of a pulse sensor: `python ppg.py --epochs 1`.

It classifies rhythms as regular or irregular, or with `--task heart-rate` estimates the heart rate. Each
sample is one small read from a zarr store, which is made on first use. Defaults fit the machine: ResNet-34 on
two million windows with a GPU, a small ResNet without one.
"""

from pathlib import Path

import numpy as np
import torch
import zarr
from ppg_store import Contents
from stores import store_folder
from torch import nn
from torch.nn import functional
from torch.optim import AdamW
from torch.utils.data import Dataset
from training import accuracy, fit, loaders, option_parser, parse, split

# name: (blocks in each stage, channels of the first stage)
MODELS = {"resnet34": ((3, 4, 6, 3), 64), "resnet10": ((1, 1, 1, 1), 16)}
DEFAULTS = {
    "cuda": {"model": "resnet34", "batch_size": 256, "workers": 2, "lr": 1e-3},
    "cpu": {"model": "resnet10", "batch_size": 32, "workers": 0, "lr": 1e-3},
}
TASKS = {"rhythm": "irregular", "heart-rate": "heart_rate"}


class Windows(Dataset):
    """Windows of the store as `(float32 1 x 100, float32 target)`; augmented if `augmented`."""

    def __init__(self, folder: Path, target: str, indices: range, augmented: bool) -> None:
        self.folder, self.target, self.indices, self.augmented = folder, target, indices, augmented
        self.group = None

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, item: int) -> tuple[torch.Tensor, np.float32]:
        if self.group is None:  # opened in each worker, not before the fork
            self.group = zarr.open_group(self.folder, mode="r")
            self.windows = self.group["windows"]
            self.targets = self.group[self.target][:].astype(np.float32)
        index = self.indices[item]
        window = torch.from_numpy(self.windows[index]).float()
        if self.augmented:  # random gain, and noise as from a loose sensor
            window = window * torch.empty(1).uniform_(0.8, 1.25) + 200 * torch.randn(len(window))
        window = (window - window.mean()) / (window.std() + 1e-6)
        return window[None], self.targets[index]


class Block(nn.Module):
    """A residual block of two convolutions over time."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        first = nn.Conv1d(channels_in, channels, 3, stride, 1, bias=False), nn.BatchNorm1d(channels)
        second = nn.Conv1d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm1d(channels)
        self.layers = nn.Sequential(*first, nn.ReLU(), *second)
        self.shortcut = nn.Identity()
        if stride != 1 or channels_in != channels:
            projection = nn.Conv1d(channels_in, channels, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm1d(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map (N, channels_in, T) to (N, channels, T / stride)."""
        return functional.relu(self.layers(x) + self.shortcut(x))


class ResNet1d(nn.Module):
    """A ResNet of basic blocks (He et al. 2015) over time, with one output."""

    def __init__(self, blocks: tuple[int, ...], width: int) -> None:
        super().__init__()
        stages: list[nn.Module] = [nn.Conv1d(1, width, 7, 2, 3, bias=False), nn.BatchNorm1d(width), nn.ReLU()]
        channels_in = width
        for stage, depth in enumerate(blocks):
            for block in range(depth):
                stages.append(Block(channels_in, width << stage, 2 if stage and not block else 1))
                channels_in = width << stage
        self.stages, self.head = nn.Sequential(*stages), nn.Linear(channels_in, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Map windows (N, 1, T) to (N,): a logit, or a rate."""
        return self.head(self.stages(x).mean(2))[:, 0]


def bpm_error(rates: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the absolute errors of heart rates in beats per minute."""
    return (rates - targets).abs()


def main() -> None:
    """Train as the command line says."""
    parser = option_parser(__doc__, Contents, MODELS)
    parser.add_argument("--task", choices=TASKS, default="rhythm")
    args = parse(parser, Contents.sizes, DEFAULTS)
    folder = store_folder(Contents(args.samples), args.data)
    train_set, val_set = (Windows(folder, TASKS[args.task], *part) for part in split(args.samples))
    model = ResNet1d(*MODELS[args.model]).to(args.device)
    optimizer = AdamW(model.parameters(), args.lr, weight_decay=args.weight_decay)
    losses = {"rhythm": (nn.BCEWithLogitsLoss(), accuracy), "heart-rate": (nn.L1Loss(), bpm_error)}
    fit(args, model, optimizer, *losses[args.task], *loaders(args, train_set, val_set))


if __name__ == "__main__":
    main()
