"""Training loops whose best settings are known: each says what slows it down, and by how much.

    python benchmarks/classic_loops.py latency --seconds 10 [--batch-size 32 --workers 0 --bf16 --compile]

Trains until the time is up and prints samples/s by a plain stopwatch over whole epochs, the first two seconds
left out; without --seconds it trains for hours. The samples of `stream` are sharded over its workers.
"""

import argparse
import multiprocessing
import time
import zlib
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info

WIDTH = 256
CLASSES = 7
_PACKED = zlib.compress(bytes(range(256)) * 4096, 1)


class Samples(Dataset):
    """Rows that cost what their kind says."""

    def __init__(self, kind: str) -> None:
        self.kind, self.lock = kind, multiprocessing.Lock()
        self.free_at = multiprocessing.Value("d", 0.0)  # when the shared storage is through with its queue
        self.cache: dict[int, torch.Tensor] = {}
        self.held: Any = None

    def __len__(self) -> int:
        return {"padding": 2048, "cache": 1500, "opened_late": 4096}.get(self.kind, 8192)

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        row = torch.full((WIDTH,), float(at % CLASSES))
        match self.kind:
            case "latency" | "worker_memory":
                time.sleep(0.004)
            case "bandwidth":
                with self.free_at.get_lock():
                    self.free_at.value = max(self.free_at.value, time.time()) + 0.001
                    until = self.free_at.value
                time.sleep(max(0.004, until - time.time()))
            case "decode":
                for _ in range(2):
                    zlib.decompress(_PACKED)
            case "lock":
                with self.lock:
                    time.sleep(0.002)
            case "cache":
                if at not in self.cache:
                    time.sleep(0.003)
                    self.cache[at] = row
            case "opened_late":
                if self.held is None:
                    time.sleep(1.5)
                    self.held = True
                time.sleep(0.001)
            case "convolution":
                row = row[:192].view(3, 8, 8).repeat(1, 4, 4)
            case "transformer":
                row = row[:64].long()
            case "padding":
                row = row[:1].repeat(8 + at * 37 % 120).long()
        if self.kind == "worker_memory" and get_worker_info() is not None and self.held is None:
            self.held = torch.ones(1 << 28)  # 1 GiB in each worker
        return row, at % CLASSES


class Stream(IterableDataset):
    """The rows of storage that answers late, each worker its share."""

    def __init__(self) -> None:
        self.rows = Samples("latency")

    def __iter__(self) -> Any:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        yield from (self.rows[at] for at in range(first, 4096, step))


def collate(parts: list) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a batch, every row as long as the longest."""
    rows = nn.utils.rnn.pad_sequence([row for row, _ in parts], batch_first=True)
    return rows, torch.tensor([label for _, label in parts])


def collate_slowly(parts: list) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a batch whose making waits for something once a batch."""
    time.sleep(0.02)
    return collate(parts)


class Text(nn.Module):
    """A transformer over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(CLASSES + 1, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(128, CLASSES)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Return one row of scores per text."""
        return self.head(self.layers(self.tokens(rows)).mean(1))


def model_of(kind: str) -> nn.Module:
    """Return the model that the kind trains."""
    if kind == "convolution":
        blocks = [nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()] * 3
        return nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1),
            *blocks,
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, CLASSES),
        )
    if kind in ("transformer", "padding"):
        return Text()
    wide = 2048 if kind == "wide" else 64
    return nn.Sequential(nn.Linear(WIDTH, wide), nn.ReLU(), nn.Linear(wide, wide), nn.Linear(wide, CLASSES))


KINDS = {
    "latency": {},
    "stream": {"workers": 1},
    "bandwidth": {},
    "decode": {},
    "lock": {},
    "collate": {},
    "opened_late": {"workers": 1},
    "cache": {},
    "worker_memory": {"workers": 1},
    "tiny": {"batch_size": 8},
    "convolution": {},
    "transformer": {"batch_size": 8},
    "padding": {},
    "wide": {"batch_size": 512},
    "tuned": {"batch_size": 512, "workers": 0},
}
"""Each kind with the settings that differ from a batch of 32 without workers."""


def train(options: argparse.Namespace) -> None:
    """Train and tell the rate."""
    torch.manual_seed(0)
    kind = options.kind
    loader: DataLoader = DataLoader(
        Stream() if kind == "stream" else Samples(kind),
        batch_size=options.batch_size,
        shuffle=kind != "stream",
        num_workers=options.workers,
        collate_fn=collate_slowly if kind == "collate" else collate,
        persistent_workers=options.persistent,
    )
    model = model_of(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = torch.compile(model) if options.compile else model
    began, since, samples = None, None, 0
    for _ in range(100_000):
        for rows, labels in loader:
            with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
                loss = nn.functional.cross_entropy(step(rows), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            samples += len(labels)
            now = time.time()
            began = began or now  # once the workers have started
            if since is None and now - began > 2.0:
                samples, since = 0, now
            elif since and options.seconds and now - began > options.seconds:
                print(f"{samples / (now - since):.1f} samples/s", flush=True)
                return


def main() -> None:
    """Read the command line and train."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--seconds", type=float)
    for switch in ("--bf16", "--compile", "--persistent"):
        parser.add_argument(switch, action="store_true")
    options = parser.parse_args()
    own = {"batch_size": 32, "workers": 0} | KINDS[options.kind]
    for name, value in own.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    train(options)


if __name__ == "__main__":
    main()
