"""Bottleneck residual networks (He et al. 2015, stride in the 3x3 convolution) in plain torch."""

import torch
from torch import nn

# name: (blocks in each stage, channels of the first stage)
MODELS = {
    "resnet11": ((1, 1, 1), 48),
    "resnet26": ((2, 2, 2, 2), 64),
    "resnet50": ((3, 4, 6, 3), 64),
    "resnet101": ((3, 4, 23, 3), 64),
}


class Bottleneck(nn.Module):
    """A residual block: 1x1 down, 3x3, 1x1 up to four times the channels."""

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


def build(name: str, classes: int = 1000) -> ResNet:
    """Return the named model of MODELS."""
    blocks, width = MODELS[name]
    return ResNet(blocks, width, classes)
