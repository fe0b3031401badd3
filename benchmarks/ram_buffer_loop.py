"""Trains on batches of a given shape: what `ram_buffer.py` measures."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

SHAPES = ("images", "tokens", "uint8", "padded", "nested")


class Samples:
    """Samples of one shape, made when they are asked for.

    Args:
        shape: one of SHAPES.
        side: pixels along an image, tokens in a text.
    """

    def __init__(self, shape: str, side: int) -> None:
        self.shape, self.side = shape, side

    def __len__(self) -> int:
        return 1 << 20

    def __getitem__(self, index: int) -> object:
        if self.shape == "images":
            return torch.full((3, self.side, self.side), 0.5), index % 2
        if self.shape == "tokens":
            ids = torch.full((self.side,), index)
            return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}
        if self.shape == "uint8":
            pixels = torch.full((3, self.side, self.side), index % 256, dtype=torch.uint8)
            return pixels / 255, pixels, index % 2
        lengths = (index * 7919) % self.side + 1
        return torch.full((lengths if self.shape == "padded" else self.side, 16), 0.5)


def padded(samples: list[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return sequences padded to the longest, and their lengths."""
    lengths = torch.tensor([len(sample) for sample in samples])
    return nn.utils.rnn.pad_sequence(samples, batch_first=True), lengths


def nested(samples: list[torch.Tensor]) -> list[list[torch.Tensor]]:
    """Return each sample as a tensor of its own, in pairs."""
    return [samples[place : place + 2] for place in range(0, len(samples), 2)]


def first_tensor(batch: object) -> torch.Tensor:
    """Return the first tensor of a batch."""
    while not isinstance(batch, torch.Tensor):
        batch = next(iter(batch.values() if isinstance(batch, dict) else batch))  # type: ignore[call-overload]
    return batch


def main() -> None:
    """Train until somebody ends it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--shape", choices=SHAPES, required=True)
    parser.add_argument("--side", type=int, default=224)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prefetch", type=int, default=2)
    args = parser.parse_args()
    loader = DataLoader(
        Samples(args.shape, args.side),  # type: ignore[arg-type]
        batch_size=args.batch_size,
        num_workers=args.workers,
        prefetch_factor=args.prefetch if args.workers else None,
        collate_fn={"padded": padded, "nested": nested}.get(args.shape),
    )
    model = nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for batch in loader:
        model(first_tensor(batch).flatten()[:8].float().unsqueeze(1)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    main()
