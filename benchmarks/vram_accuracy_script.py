"""Trains one of the models whose device memory is known in public, as it was trained there.

    python benchmarks/vram_accuracy_script.py ResNet-50 --batch 8

What vram_accuracy.py has traced. As the notebook WSShiro/vramexp: float32, SGD, class shares for targets.
As timm's benchmark: float16 under autocast, channels_last, SGD with momentum one parameter at a time. There
is nothing of tunekit in here.
"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from vram_models import SmallCnn, TimmVit, VitB16, resnet50, timm_resnet, timm_vgg, vgg16_bn

NOTEBOOK = {"small CNN": SmallCnn, "VGG16-BN": vgg16_bn, "ResNet-50": resnet50, "ViT-B/16": VitB16}
TIMM = {
    "resnet18": lambda: timm_resnet((2, 2, 2, 2), is_basic=True),
    "resnet34": lambda: timm_resnet((3, 4, 6, 3), is_basic=True),
    "resnet26": lambda: timm_resnet((2, 2, 2, 2)),
    "resnet50": lambda: timm_resnet((3, 4, 6, 3)),
    "resnet50d": lambda: timm_resnet((3, 4, 6, 3), is_d=True),
    "resnet101": lambda: timm_resnet((3, 4, 23, 3)),
    "resnet152": lambda: timm_resnet((3, 8, 36, 3)),
    "wide_resnet50_2": lambda: timm_resnet((3, 4, 6, 3), base_width=128),
    "resnext50_32x4d": lambda: timm_resnet((3, 4, 6, 3), groups=32, base_width=4),
    "vgg16": lambda: timm_vgg(16, has_norm=False),
    "vgg16_bn": lambda: timm_vgg(16, has_norm=True),
    "vgg19": lambda: timm_vgg(19, has_norm=False),
    "vit_tiny_patch16_224": lambda: TimmVit(192, 3),
    "vit_small_patch16_224": lambda: TimmVit(384, 6),
    "vit_base_patch16_224": lambda: TimmVit(768, 12),
}
SAMPLES = 64


def main():
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=[*NOTEBOOK, *TIMM])
    parser.add_argument("--batch", type=int, default=4)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    is_timm = options.model in TIMM
    model = (TIMM if is_timm else NOTEBOOK)[options.model]().to(device)
    images = torch.zeros(1, 3, 224, 224).expand(SAMPLES, -1, -1, -1)
    targets = torch.zeros(SAMPLES, dtype=torch.long) if is_timm else torch.zeros(SAMPLES, 10)
    layout = torch.channels_last if is_timm else torch.contiguous_format
    model = model.to(memory_format=layout)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    if is_timm:
        optimizer = torch.optim.SGD(
            model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4, foreach=False
        )
    loader = DataLoader(TensorDataset(images, targets), options.batch, drop_last=True)
    for _ in range(10_000):
        for batch in loader:
            inputs, wanted = batch[0].to(device, memory_format=layout), batch[1].to(device)
            optimizer.zero_grad()
            with torch.autocast(device.type, torch.float16, enabled=is_timm):
                loss = nn.functional.cross_entropy(model(inputs), wanted)
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
