"""A training loop on a GPU whose parts are known by construction; it stamps each batch on the trace's clock.

    python tests/gpu/known_loop.py --stamps FILE [--load-ms 30] [--layers 4] [--width 2048] [--item] ...

Each line of FILE is one batch: when it was asked for, when it was there, when its step was over, in ns of
CLOCK_MONOTONIC. It trains for ever.
"""

import argparse
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ROWS = 256


class Rows(Dataset[torch.Tensor]):
    """Batches that take their time to make, with or without a CPU."""

    def __init__(self, load_s: float, batches: int, width: int) -> None:
        self._load_s, self._batches = load_s, batches
        self._row = torch.ones(width)

    def __len__(self) -> int:
        return self._batches * ROWS

    def __getitems__(self, places: list[int]) -> list[torch.Tensor]:
        time.sleep(self._load_s)
        return [self._row] * len(places)


class Tiny(nn.Module):
    """Many small kernels that a host launches more slowly than a device runs them."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self._count = count
        self.scale = nn.Parameter(torch.ones(64))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Scale the rows' first columns, again and again."""
        few = rows[:64, :64]
        for _ in range(self._count):
            few = few * self.scale
        return rows + few.sum()


class Ahead:
    """Uploads of pinned batches on a stream of their own, one batch ahead."""

    def __init__(self, loader: DataLoader[torch.Tensor]) -> None:
        self._loader = loader
        self._stream = torch.cuda.Stream()

    def __iter__(self) -> "Ahead":
        self._batches = iter(self._loader)
        self._next = self._upload()
        return self

    def __next__(self) -> torch.Tensor:
        if self._next is None:
            raise StopIteration
        torch.cuda.current_stream().wait_stream(self._stream)
        rows = self._next
        rows.record_stream(torch.cuda.current_stream())
        self._next = self._upload()
        return rows

    def _upload(self) -> torch.Tensor | None:
        rows = next(self._batches, None)
        if rows is None:
            return None
        with torch.cuda.stream(self._stream):
            return rows.to("cuda", non_blocking=True)


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stamps", type=Path, required=True)
    parser.add_argument("--load-ms", type=float, default=1.0, help="of one batch, asleep, in one process")
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--pinned", action="store_true")
    parser.add_argument("--ahead", action="store_true", help="upload the next batch beside this one")
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--columns", type=int, default=0, help="of a batch, of which WIDTH are trained on")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tiny", type=int, default=0, help="small kernels beside them")
    parser.add_argument("--item", action="store_true", help="read the loss at each step")
    parser.add_argument("--log-ms", type=float, default=0.0, help="the host's, after each step")
    parser.add_argument("--batches", type=int, default=100_000, help="per epoch")
    parser.add_argument("--between-ms", type=float, default=0.0, help="asleep after each epoch")
    parser.add_argument("--device", default="cuda")
    options = parser.parse_args()
    device = torch.device(options.device)
    loader = DataLoader(
        Rows(options.load_ms / 1000, options.batches, options.columns or options.width),
        batch_size=ROWS,
        num_workers=options.workers,
        pin_memory=options.pinned,
        persistent_workers=options.workers > 0,
    )
    layers = [nn.Linear(options.width, options.width, bias=False) for _ in range(options.layers)]
    model = nn.Sequential(*layers, *([Tiny(options.tiny)] if options.tiny else [])).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    with options.stamps.open("w", buffering=1) as stamps:
        while True:
            batches = iter(Ahead(loader) if options.ahead else loader)
            while True:
                asked = time.monotonic_ns()
                rows = next(batches, None)
                if rows is None:
                    break
                there = time.monotonic_ns()
                rows = rows.to(device, non_blocking=options.pinned)
                loss = model(rows[:, : options.width]).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if options.item:
                    loss.item()
                if options.log_ms:
                    time.sleep(options.log_ms / 1000)
                stamps.write(f"{asked} {there} {time.monotonic_ns()}\n")
            time.sleep(options.between_ms / 1000)


if __name__ == "__main__":
    main()
