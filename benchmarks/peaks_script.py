"""A plain training script of a model that everybody knows, on a GPU where there is one.

    python benchmarks/peaks_script.py resnet50 --batch 128 --precision bf16 --optimizer sgd [--steps 8]

What gpu_check.py predicts from a small batch and runs at larger ones: with --steps it ends with torch's own
peaks as JSON, with --stay only once its standard input does, so that the driver can be asked meanwhile.
Models are plain torch; there is nothing of tunekit in here.
"""

import argparse
import functools
import json
import sys

import torch
from fits_script import MODELS, Bert, Gpt2, LstmModel, UNet, Vit
from torch import nn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, Dataset
from vram_models import timm_resnet

HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
SMALL = {
    "resnet50": lambda: timm_resnet((1, 1, 1, 1), is_basic=True),
    "vit_s": lambda: Vit(192, 2, 3),
    "bert_base": lambda: Bert(128, 2, 4),
    "gpt2": lambda: Gpt2(128, 2, 4),
    "lstm": lambda: LstmModel(128),
    "unet": lambda: UNet(16),
}


class Alike(Dataset):
    """One sample over and over: what it holds is no matter."""

    def __init__(self, data):
        self.sample = data[0]

    def __len__(self):
        return 100_000

    def __getitem__(self, number):
        return self.sample


def optimizer_of(name, parameters):
    """Return SGD with momentum, or AdamW."""
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4)
    return torch.optim.AdamW(parameters, lr=3e-4)


def main():
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--precision", choices=("fp32", "tf32", "bf16", "fp16"), default="fp32")
    parser.add_argument("--optimizer", choices=("sgd", "adamw"), default="sgd")
    parser.add_argument("--small", action="store_true", help="a few layers of it")
    parser.add_argument("--steps", type=int, help="end after so many and tell the peaks (default: train on)")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--checkpoint", action="store_true", help="a transformer's layers keep their inputs")
    parser.add_argument("--stay", action="store_true")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    make_model, make_data = MODELS[options.model]
    model = (SMALL[options.model] if options.small else make_model)().to(device)
    torch.set_float32_matmul_precision("high" if options.precision == "tf32" else "highest")
    # cuDNN takes TF32 for convolutions unless it is told otherwise.
    torch.backends.cudnn.allow_tf32 = options.precision == "tf32"
    if options.checkpoint:
        for layer in next(one for one in model.modules() if isinstance(one, nn.ModuleList)):
            layer.forward = functools.partial(checkpoint, layer.forward, use_reentrant=False)
    if options.compile:
        model = torch.compile(model)
    optimizer = optimizer_of(options.optimizer, model.parameters())
    scaler = torch.amp.GradScaler(device.type, enabled=options.precision == "fp16")
    half = HALVES.get(options.precision)
    loader = DataLoader(Alike(make_data()), options.batch, shuffle=True, drop_last=True)
    for number, batch in enumerate(loader):
        inputs, targets = (one.to(device) for one in batch)
        optimizer.zero_grad()
        with torch.autocast(device.type, half, enabled=half is not None):
            loss = nn.functional.cross_entropy(model(inputs), targets)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        if number + 1 == options.steps:
            break
    if options.steps:
        print("\n" + json.dumps(peaks()), flush=True)
    if options.stay:
        sys.stdin.read()


def peaks():
    """Return torch's peaks on a GPU, in bytes."""
    torch.cuda.synchronize()
    return {
        "allocated_bytes": torch.cuda.max_memory_allocated(),
        "reserved_bytes": torch.cuda.max_memory_reserved(),
        "now_reserved_bytes": torch.cuda.memory_reserved(),
    }


if __name__ == "__main__":
    main()
