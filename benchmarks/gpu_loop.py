"""A training loop whose data stall and waits for the device are known; part of gpu_check.py.

    python benchmarks/gpu_loop.py --wait-ms 20 [--item] [--layers N] [--profile STEPS]

Making a batch takes --wait-ms, in the loop itself. With --item the loop reads its loss at each step, so
the device is idle when a batch is asked for. With --profile it traces that many steps under
torch.profiler, prints as JSON the time within the loader's next(), and how much of it the device idled, and
ends.
"""

import argparse
import json
import time
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

DEVICE = "cuda"
WIDTH, BATCH = 4096, 512
WARMUP_STEPS = 20


class Rows(Dataset[torch.Tensor]):
    """Rows that take their time: the first of each batch waits."""

    def __init__(self, wait_s: float) -> None:
        self._wait_s = wait_s
        self._row = torch.ones(WIDTH)

    def __len__(self) -> int:
        return BATCH * 100_000

    def __getitem__(self, index: int) -> torch.Tensor:
        if index % BATCH == 0:
            time.sleep(self._wait_s)
        return self._row


def train(wait_s: float, reads_loss: bool, layers: int, traced_steps: int) -> None:
    """Train for ever, or trace some steps."""
    model = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(layers))).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    profiler: Any = None
    for step, rows in enumerate(DataLoader(Rows(wait_s), batch_size=BATCH)):
        optimizer.zero_grad()
        loss = model(rows.to(DEVICE, non_blocking=True)).square().mean()
        loss.backward()
        optimizer.step()
        if reads_loss:
            loss.item()
        if traced_steps and step == WARMUP_STEPS:
            profiler = torch.profiler.profile()
            profiler.start()
        if traced_steps and step == WARMUP_STEPS + traced_steps:
            profiler.stop()
            fetch_s, idle_s = waited_s(profiler.events())
            print(json.dumps({"stall_s": idle_s / traced_steps, "fetch_s": fetch_s / traced_steps}))
            return


def waited_s(events: Any) -> tuple[float, float]:
    """Return the time within the loader's next(), and how much of it the device ran nothing."""
    loader = "enumerate(DataLoader)"
    spans = {"CUDA": [], "CPU": []}  # type: dict[str, list[tuple[float, float]]]
    marked = {event.name for event in events if event.device_type.name == "CPU"}
    for event in events:
        kind, span = event.device_type.name, (event.time_range.start, event.time_range.end)
        if kind == "CPU" and event.name.startswith(loader):
            spans["CPU"].append(span)
        elif kind == "CUDA" and event.name not in marked:
            spans["CUDA"].append(span)
    waits = _waits(spans["CPU"], spans["CUDA"])
    return sum(fetch for fetch, _ in waits) / 1e6, sum(fetch - busy for fetch, busy in waits) / 1e6


def _waits(fetches: list[tuple[float, float]], work: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the length of each fetch and how much of it the device was busy for."""
    waits = []
    for begin, end in fetches:
        busy, reached = 0.0, begin
        for start, stop in sorted(work):
            busy += max(0.0, min(stop, end) - max(start, reached))
            reached = max(reached, min(stop, end))
        waits.append((end - begin, busy))
    return waits


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--wait-ms", type=float, default=20.0)
    parser.add_argument("--item", action="store_true")
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--profile", type=int, default=0)
    options = parser.parse_args()
    train(options.wait_ms / 1000, options.item, options.layers, options.profile)
