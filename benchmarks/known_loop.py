"""A training loop whose costs are known by construction: everything that takes time is a sleep.

python benchmarks/known_loop.py --workers 2 --load-ms 40 --compute-ms 20 --step-ms 3 --other-ms 1

Sleeps leave the CPUs free, so that any number of workers can be told apart on any number of cores. It trains
for ever; a trial measures and ends it.
"""

import argparse
import time

import torch
from torch.utils.data import DataLoader, Dataset

BATCH = 8


class Slow(Dataset):
    """Rows that take a known time per batch."""

    def __init__(self, load_s: float, batches: int) -> None:
        self.load_s = load_s
        self.rows = torch.randn(batches * BATCH, 16)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitems__(self, places: list[int]) -> list[torch.Tensor]:
        time.sleep(self.load_s)
        return [self.rows[place] for place in places]


class SlowSgd(torch.optim.SGD):
    """SGD whose steps take a known time."""

    step_s = 0.0

    def step(self, closure: object = None) -> None:
        """Sleep, then step."""
        time.sleep(self.step_s)
        super().step()


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--load-ms", type=float, default=20.0, help="of one batch, in one process")
    parser.add_argument("--compute-ms", type=float, default=20.0)
    parser.add_argument("--step-ms", type=float, default=3.0)
    parser.add_argument("--other-ms", type=float, default=1.0)
    parser.add_argument("--batches", type=int, default=400, help="per epoch")
    options = parser.parse_args()
    torch.set_num_threads(1)
    loader = DataLoader(
        Slow(options.load_ms / 1000, options.batches),
        batch_size=BATCH,
        num_workers=options.workers,
        persistent_workers=options.workers > 0,
    )
    model = torch.nn.Linear(16, 2)
    optimizer = SlowSgd(model.parameters(), lr=0.001)
    optimizer.step_s = options.step_ms / 1000
    while True:
        for rows in loader:
            loss = model(rows).square().mean()
            optimizer.zero_grad()
            loss.backward()
            time.sleep(options.compute_ms / 1000)
            optimizer.step()
            time.sleep(options.other_ms / 1000)


if __name__ == "__main__":
    main()
