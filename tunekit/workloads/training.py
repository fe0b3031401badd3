"""What the training scripts share: options, loaders, an epoch of training, validation."""

import argparse
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, Dataset

Options = argparse.Namespace
Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def option_parser(description: str, contents: Any, models: Mapping[str, object]) -> argparse.ArgumentParser:
    """Return a parser with the options that every script has.

    Args:
        description: of the script.
        contents: the class of its data.
        models: its models by name.
    """
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    parser.add_argument("--model", choices=models)
    for name, meaning in contents.options.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, help=meaning)
    parser.add_argument(
        "--data", type=Path, help=f"keep the data here, not in ~/.cache/tunekit/{contents.workload}"
    )
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--workers", type=int, help="loader processes")
    parser.add_argument("--lr", type=float)
    parser.add_argument("--weight-decay", type=float, default=1e-4)
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N")
    parser.add_argument("--print-freq", type=int, default=20, help="steps between lines of progress")
    parser.add_argument("--val", action=argparse.BooleanOptionalAction, default=True, help="validate")
    parser.add_argument("--output", type=Path, help="write a checkpoint here after each epoch")
    parser.add_argument("--seed", type=int, default=0)
    return parser


def parse(parser: argparse.ArgumentParser, *defaults: Mapping[str, Mapping[str, Any]]) -> Options:
    """Return the options, with the defaults for the device's type; seed torch."""
    device = parser.parse_args().device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    for values in defaults:
        parser.set_defaults(**values["cuda" if device.startswith("cuda") else "cpu"])
    args = parser.parse_args()
    args.device = device
    torch.manual_seed(args.seed)
    return args


def split(samples: int) -> tuple[tuple[range, bool], tuple[range, bool]]:
    """Return the indices of the training and of the validation set, each with whether it is augmented."""
    first = samples - samples // 10
    return (range(first), True), (range(first, samples), False)


def loaders(
    args: Options, train_set: Dataset, val_set: Dataset, **options: Any
) -> tuple[DataLoader, DataLoader]:
    """Return the shuffled loader to train on and the one to validate on."""
    options["num_workers"] = args.workers
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True, **options)
    return train_loader, DataLoader(val_set, batch_size=50, **options)


def fit(
    args: Options, model: nn.Module, optimizer: Optimizer, loss: Function, score: Function, *data: DataLoader
) -> None:
    """Train on the first loader; after each epoch, print the loss and the mean score on the second."""
    train_loader, val_loader = data
    for epoch in range(args.epochs):
        train(f"epoch {epoch}", model, train_loader, optimizer, loss, args.print_freq)
        if args.val:
            validate(f"epoch {epoch}", model, val_loader, loss, score)
        if args.output:
            torch.save({"epoch": epoch, "model": model.state_dict()}, args.output)


def train(
    name: str, model: nn.Module, loader: DataLoader, optimizer: Optimizer, loss: Function, print_freq: int
) -> None:
    """Train for one epoch, printing the loss and the rate every `print_freq` steps."""
    device = next(model.parameters()).device
    model.train()
    start, start_step = time.perf_counter(), 0
    for step, batch in enumerate(loader, 1):
        *inputs, targets = to_device(batch, device)
        value = loss(model(*inputs), targets)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        if step % print_freq == 0 or step == len(loader):
            shown, now = value.item(), time.perf_counter()
            it_per_s = (step - start_step) / (now - start)
            rates = f"{it_per_s:.2f} it/s  {it_per_s * len(targets):.1f} samples/s"
            print(f"{name} [{step}/{len(loader)}]  loss {shown:.4f}  {rates}", flush=True)
            start, start_step = now, step


@torch.no_grad()
def validate(name: str, model: nn.Module, loader: DataLoader, loss: Function, score: Function) -> None:
    """Print the mean loss and the mean score over the loader."""
    device = next(model.parameters()).device
    model.eval()
    totals = torch.zeros(3)
    for batch in loader:
        *inputs, targets = to_device(batch, device)
        outputs, count = model(*inputs), len(targets)
        totals += torch.tensor([loss(outputs, targets) * count, score(outputs, targets).sum(), count])
    mean_loss, mean_score, _ = (totals / totals[2]).tolist()
    print(f"{name} validation  loss {mean_loss:.4f}  {score.__name__} {mean_score:.3f}", flush=True)


def accuracy(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return which predictions are right, by the largest of several logits or the sign of one."""
    return outputs.argmax(1) == targets if outputs.ndim > 1 else (outputs > 0) == (targets > 0)


def to_device(batch: list, device: torch.device) -> list:
    """Return a batch with its tensors on the device."""
    return [one.to(device, non_blocking=True) if isinstance(one, torch.Tensor) else one for one in batch]
