"""Trains one of the models whose device memory is known in public, as it was trained there.

    python benchmarks/vram_accuracy_script.py ResNet-50 --batch 8

What vram_accuracy.py has traced. As the notebook WSShiro/vramexp: float32, SGD, class shares for targets.
Any other name is one of timm's models, trained as in timm's benchmark: float16 under autocast, channels_last,
SGD with momentum one parameter at a time, and attention by matrix products, as timm had it in 2022. There is
nothing of tunekit in here.
"""

import argparse
import contextlib
import importlib

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from vram_models import SmallCnn, VitB16, resnet50, vgg16_bn

NOTEBOOK = {"small CNN": SmallCnn, "VGG16-BN": vgg16_bn, "ResNet-50": resnet50, "ViT-B/16": VitB16}
SAMPLES = 64


def timm_model(name, image_size):
    """Return a model of timm for an image size, with 1,000 classes."""
    timm = importlib.import_module("timm")  # needed for its models only
    timm.layers.set_fused_attn(False)
    with contextlib.suppress(TypeError):  # convolutions take any size
        return timm.create_model(name, img_size=image_size)
    return timm.create_model(name)


def main():
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--image-size", type=int, default=224)
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    is_timm, size = options.model not in NOTEBOOK, options.image_size
    model = (timm_model(options.model, size) if is_timm else NOTEBOOK[options.model]()).to(device)
    images = torch.zeros(1, 3, size, size).expand(SAMPLES, -1, -1, -1)
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
