"""Train a bottleneck ResNet on images kept as zarr chunks: `python images.py --epochs 3`.

The images are made on first use and kept in a cache folder. Defaults fit the machine: ResNet-50 on 224-pixel
images with a GPU, a small ResNet on 64-pixel images without one.
"""

import argparse
import time
from pathlib import Path

import torch
from images_data import ZarrImages
from images_model import MODELS, build
from images_store import USUAL, image_folder
from torch import nn
from torch.optim import SGD
from torch.utils.data import DataLoader

DEFAULTS = {
    "cuda": {"model": "resnet50", "batch_size": 64, "workers": 2},
    "cpu": {"model": "resnet11", "batch_size": 16, "workers": 0},
}


def parse_args() -> argparse.Namespace:
    """Return the options; the defaults depend on the device."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", choices=MODELS)
    parser.add_argument("--image-size", type=int, help="pixels a side after cropping")
    parser.add_argument("--samples", type=int, help="images in all; a tenth of them validate")
    parser.add_argument("--data", type=Path, help="keep the images here, not in ~/.cache/tunekit/images")
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--workers", type=int, help="loader processes")
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--print-freq", type=int, default=20, help="steps between lines")
    parser.add_argument("--val", action=argparse.BooleanOptionalAction, default=True, help="each epoch")
    parser.add_argument("--output", type=Path, help="write a checkpoint here after each epoch")
    parser.add_argument("--seed", type=int, default=0)
    device = parser.parse_args().device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    kind = "cuda" if device.startswith("cuda") else "cpu"
    image_size, samples = USUAL[kind]
    parser.set_defaults(image_size=image_size, samples=samples, **DEFAULTS[kind])
    args = parser.parse_args()
    args.device = device
    return args


def train(epoch: int, model: nn.Module, loader: DataLoader, optimizer: SGD, print_freq: int) -> None:
    """Train over the loader once, printing the loss and the pace every `print_freq` steps."""
    criterion = nn.CrossEntropyLoss()
    device = next(model.parameters()).device
    model.train()
    start, start_step = time.perf_counter(), 0
    for step, batch in enumerate(loader, 1):
        images, labels = (tensor.to(device, non_blocking=True) for tensor in batch)
        loss = criterion(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % print_freq == 0 or step == len(loader):
            value, now = loss.item(), time.perf_counter()
            pace = (step - start_step) / (now - start)
            print(
                f"epoch {epoch} [{step}/{len(loader)}]  loss {value:.4f}  {pace:.2f} it/s  "
                f"{pace * len(labels):.1f} samples/s",
                flush=True,
            )
            start, start_step = now, step


@torch.no_grad()
def validate(epoch: int, model: nn.Module, loader: DataLoader) -> None:
    """Print the mean loss and the accuracy over the loader."""
    device = next(model.parameters()).device
    model.eval()
    loss, correct, seen = 0.0, 0, 0
    for batch in loader:
        images, labels = (tensor.to(device) for tensor in batch)
        logits = model(images)
        loss += nn.functional.cross_entropy(logits, labels, reduction="sum").item()
        correct += (logits.argmax(1) == labels).sum().item()
        seen += len(labels)
    print(f"epoch {epoch} validation  loss {loss / seen:.4f}  accuracy {correct / seen:.1%}", flush=True)


def main() -> None:
    """Train as the command line says."""
    args = parse_args()
    torch.manual_seed(args.seed)

    folder = image_folder(args.data, args.image_size, args.samples)
    split = args.samples - args.samples // 10
    train_set = ZarrImages(folder, range(split), args.image_size, augmented=True)
    val_set = ZarrImages(folder, range(split, args.samples), args.image_size, augmented=False)
    train_loader = DataLoader(
        train_set, args.batch_size, shuffle=True, drop_last=True, num_workers=args.workers
    )
    val_loader = DataLoader(val_set, batch_size=50, num_workers=args.workers)

    model = build(args.model).to(args.device)
    optimizer = SGD(model.parameters(), args.lr, momentum=0.9, weight_decay=args.weight_decay)
    for epoch in range(args.epochs):
        train(epoch, model, train_loader, optimizer, args.print_freq)
        if args.val:
            validate(epoch, model, val_loader)
        if args.output:
            torch.save({"epoch": epoch, "model": model.state_dict()}, args.output)


if __name__ == "__main__":
    main()
