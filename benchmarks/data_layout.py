"""Makes a store hostile to random access, rewrites it as `tunekit data` recommends, and times a DataLoader.

Each round times both stores in turns: two workers, shuffled, the page cache dropped before. A line per round
and the ratio with its range; the goal is 3x.

    .venv/bin/python benchmarks/data_layout.py [FLOATS]    per sample; 1,000 by default
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import zarr
from torch.utils.data import DataLoader, Dataset

from tunekit.machine.storage.read_probe import evict
from tunekit.recommend.noise import noise_floor, speedup

SAMPLES, CHUNK = 65_536, 4_096
ROUNDS, READ, BATCH = 5, 1_536, 32


class Signals(Dataset):
    """Samples of the store, one read each; opened in each worker."""

    def __init__(self, store: Path) -> None:
        self.store, self.array = store, None

    def __len__(self) -> int:
        """Return the number of samples of a round."""
        return READ

    def __getitem__(self, index: int) -> np.ndarray:
        """Return one sample; the loader's order is spread over the whole store."""
        if self.array is None:
            self.array = zarr.open_array(self.store / "signals", mode="r")
        return self.array[index * (SAMPLES // READ)]


def rate(store: Path) -> float:
    """Return samples/s of a shuffled epoch, without the start of the workers."""
    for path in store.rglob("*"):
        evict(os.fsencode(path))
    batches = iter(DataLoader(Signals(store), BATCH, shuffle=True, num_workers=2))
    for _ in range(4):  # what the workers had prefetched by the first batch
        next(batches)
    start_s = time.perf_counter()
    count = sum(len(batch) for batch in batches)
    return count / (time.perf_counter() - start_s)


def main() -> None:
    """Run it in a temporary folder; TMPDIR chooses its disk."""
    with tempfile.TemporaryDirectory() as folder:
        compare(Path(folder), int(sys.argv[1]) if len(sys.argv) > 1 else 1_000)


def compare(folder: Path, size: int) -> None:
    """Make both stores of samples of that many floats, and print one line a round."""
    old, new = folder / "hostile.zarr", folder / "rewritten.zarr"
    group = zarr.open_group(old, mode="w")
    signals = group.create_array("signals", shape=(SAMPLES, size), chunks=(CHUNK, size), dtype="float32")
    for start in range(0, SAMPLES, CHUNK):
        noise = np.random.default_rng(start).normal(size=(CHUNK, size))
        signals[start : start + CHUNK] = np.cumsum(noise, axis=1)
    verb = [sys.executable, "-m", "tunekit", "data", str(old), "--rewrite", str(new), "--json"]
    report = json.loads(subprocess.run(verb, check=True, stdout=subprocess.PIPE).stdout)
    print("predicted", report["search"]["speedup"], report["search"]["best"]["layout"])
    pairs = []
    for number in range(ROUNDS):
        pairs.append((rate(old), rate(new)))
        print(f"round {number}: {pairs[-1][0]:8.1f} -> {pairs[-1][1]:8.1f} samples/s")
    before, after = zip(*pairs, strict=True)
    gain, floor = speedup(after, before), noise_floor(before)
    bytes_ = [sum(path.stat().st_size for path in one.rglob("*") if path.is_file()) for one in (old, new)]
    print(f"median {statistics.median(before):.1f} -> {statistics.median(after):.1f} samples/s")
    print(f"gain {gain.value:.2f}x ({gain.low:.2f} to {gain.high:.2f}), noise {floor.relative:.0%}")
    print(f"size {bytes_[1] / bytes_[0]:.2f}x; goal 3x: {'met' if gain.low >= 3 else 'not met'}")


if __name__ == "__main__":
    main()
