"""Models whose device memory was measured in public, in plain torch.

The small CNN, VGG16-BN, ResNet-50 and ViT-B/16 of the notebook WSShiro/vramexp (torch 2.0.1, CUDA 11.8),
which takes the latter three from torchvision, with 10 classes.
"""

import torch
from torch import nn


class SmallCnn(nn.Module):
    """One convolution and one linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.pool = nn.Conv2d(3, 8, 3), nn.AvgPool2d(2, 2)
        self.head = nn.Linear(8 * 111 * 111, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        return self.head(self.pool(self.convolution(images)).flatten(1))


def vgg16_bn(classes: int = 10) -> nn.Module:
    """Return VGG16 with batch norm."""
    widths = (64, 64, 0, 128, 128, 0, 256, 256, 256, 0, 512, 512, 512, 0, 512, 512, 512, 0)
    layers: list[nn.Module] = []
    channels = 3
    for width in widths:
        if not width:
            layers.append(nn.MaxPool2d(2, 2))
            continue
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
        channels = width
    head = [nn.Linear(25088, 4096), nn.ReLU(inplace=True), nn.Dropout()]
    head += [nn.Linear(4096, 4096), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(4096, classes)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(7), nn.Flatten(), *head)


class Bottleneck(nn.Module):
    """Three convolutions around a shortcut."""

    def __init__(self, channels: int, width: int, stride: int, shortcut: nn.Module | None) -> None:
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        self.conv3, self.norm3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.relu, self.shortcut = nn.ReLU(inplace=True), shortcut

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        out = self.relu(self.norm1(self.conv1(images)))
        out = self.norm3(self.conv3(self.relu(self.norm2(self.conv2(out)))))
        out += images if self.shortcut is None else self.shortcut(images)
        return self.relu(out)


def resnet50(classes: int = 10) -> nn.Module:
    """Return ResNet-50."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)]
    layers += [nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, blocks in enumerate((3, 4, 6, 3)):
        width = 64 * 2**stage
        for block in range(blocks):
            stride = 2 if block == 0 and stage > 0 else 1
            shortcut = None
            if block == 0:
                down = nn.Conv2d(channels, 4 * width, 1, stride, bias=False)
                shortcut = nn.Sequential(down, nn.BatchNorm2d(4 * width))
            layers.append(Bottleneck(channels, width, stride, shortcut))
            channels = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


class EncoderBlock(nn.Module):
    """Attention and MLP, each behind a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=1e-6)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.dropout, self.norm2 = nn.Dropout(0.0), nn.LayerNorm(width, eps=1e-6)
        wide = [nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.0)]
        self.mlp = nn.Sequential(*wide, nn.Linear(4 * width, width), nn.Dropout(0.0))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        mixed = self.norm1(tokens)
        mixed, _ = self.attention(mixed, mixed, mixed, need_weights=False)
        mixed = self.dropout(mixed) + tokens
        return mixed + self.mlp(self.norm2(mixed))


class VitB16(nn.Module):
    """A vision transformer of 12 blocks on patches of 16 x 16."""

    def __init__(self, classes: int = 10) -> None:
        super().__init__()
        width = 768
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.class_token = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(1, 197, width))
        self.blocks = nn.Sequential(*(EncoderBlock(width, 12) for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        tokens = self.patches(images).flatten(2).permute(0, 2, 1)
        tokens = torch.cat([self.class_token.expand(len(images), -1, -1), tokens], 1) + self.places
        return self.head(self.norm(self.blocks(tokens))[:, 0])


class Residual(nn.Module):
    """A block of timm's ResNets: two or three convolutions around a shortcut."""

    def __init__(self, sizes: tuple[int, int, int], stride: int, groups: int, is_basic: bool, is_d: bool):
        super().__init__()
        channels, width, out = sizes
        if is_basic:
            shapes = [(channels, width, 3, stride, 1), (width, out, 3, 1, 1)]
        else:
            shapes = [(channels, width, 1, 1, 1), (width, width, 3, stride, groups), (width, out, 1, 1, 1)]
        layers: list[nn.Module] = []
        for ins, outs, kernel, step, of_groups in shapes:
            convolution = nn.Conv2d(ins, outs, kernel, step, kernel // 2, groups=of_groups, bias=False)
            layers += [convolution, nn.BatchNorm2d(outs), nn.ReLU(inplace=True)]
        self.body, self.relu = nn.Sequential(*layers[:-1]), nn.ReLU(inplace=True)
        self.shortcut: nn.Module | None = None
        if stride != 1 or channels != out:
            pool = (
                [nn.AvgPool2d(2, stride, ceil_mode=True, count_include_pad=False)]
                if is_d and stride > 1
                else []
            )
            down = nn.Conv2d(channels, out, 1, 1 if is_d else stride, bias=False)
            self.shortcut = nn.Sequential(*pool, down, nn.BatchNorm2d(out))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        out = self.body(images)
        out += images if self.shortcut is None else self.shortcut(images)
        return self.relu(out)


def timm_resnet(
    blocks: tuple[int, ...], is_basic: bool = False, groups: int = 1, base_width: int = 64, is_d: bool = False
) -> nn.Module:
    """Return a ResNet as timm builds it, with 1,000 classes."""
    stem = [(3, 32, 3, 2), (32, 32, 3, 1), (32, 64, 3, 1)] if is_d else [(3, 64, 7, 2)]
    layers: list[nn.Module] = []
    for ins, outs, kernel, stride in stem:
        layers += [nn.Conv2d(ins, outs, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(outs)]
        layers.append(nn.ReLU(inplace=True))
    layers.append(nn.MaxPool2d(3, 2, 1))
    channels = 64
    for stage, count in enumerate(blocks):
        planes = 64 * 2**stage
        width = planes if is_basic else planes * base_width // 64 * groups
        out = planes * (1 if is_basic else 4)
        for block in range(count):
            stride = 2 if block == 0 and stage > 0 else 1
            layers.append(Residual((channels, width, out), stride, groups, is_basic, is_d))
            channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 1000))
