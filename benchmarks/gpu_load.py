"""Keeps a device busy in one known way for some seconds, and says what it reached.

    python benchmarks/gpu_load.py matmul|copy|upload|idle SECONDS

The first line is `ready`, once the load runs; the last is JSON.
"""

import json
import sys
import time
from collections.abc import Callable

import torch

DEVICE = "cuda"


def matmul() -> tuple[Callable[[], object], float, str]:
    """Multiply square matrices of random numbers: bf16 on tensor cores."""
    size = 8192
    left, right = (torch.randn(size, size, device=DEVICE, dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(left)
    return lambda: torch.mm(left, right, out=out), 2 * size**3 / 1e12, "tflop_per_s"


def copy() -> tuple[Callable[[], object], float, str]:
    """Copy within device memory; a byte that is read and written counts twice."""
    count_bytes = 2 << 30
    source = torch.ones(count_bytes, dtype=torch.uint8, device=DEVICE)
    target = torch.empty_like(source)
    return lambda: target.copy_(source), 2 * count_bytes / 1e9, "gb_per_s"


def upload() -> tuple[Callable[[], object], float, str]:
    """Copy from pinned memory of the host to the device."""
    count_bytes = 256 << 20
    source = torch.ones(count_bytes, dtype=torch.uint8, pin_memory=True)
    target = torch.empty(count_bytes, dtype=torch.uint8, device=DEVICE)
    return lambda: target.copy_(source, non_blocking=True), count_bytes / 1e9, "gb_per_s"


def idle() -> tuple[Callable[[], object], float, str]:
    """Hold the device and do nothing with it."""
    held = torch.ones(1 << 20, device=DEVICE)
    return lambda: (held, time.sleep(0.1)), 0.0, "nothing"


LOADS = {load.__name__: load for load in (matmul, copy, upload, idle)}


def best_and_mean_s(work: Callable[[], object], seconds: float) -> tuple[float, float]:
    """Repeat work for some seconds; return the time of one piece, in the best batch and on average."""
    begin = time.perf_counter()
    work()
    torch.cuda.synchronize()
    # Batches of about 50 ms: launches overlap, and a synchronisation costs next to nothing.
    pieces = max(1, round(0.05 / max(time.perf_counter() - begin, 1e-6)))
    batches: list[float] = []
    end = time.perf_counter() + seconds
    while not batches or time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(pieces):
            work()
        torch.cuda.synchronize()
        batches.append((time.perf_counter() - begin) / pieces)
    return min(batches), sum(batches) / len(batches)


def device_facts() -> dict[str, object]:
    """Return what torch says of the device."""
    properties = torch.cuda.get_device_properties(0)
    return {
        "device": properties.name,
        "total_bytes": properties.total_memory,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "multiprocessors": properties.multi_processor_count,
        "reserved_bytes": torch.cuda.memory_reserved(),
    }


def main() -> None:
    """Run one load and print what it reached."""
    name, seconds = sys.argv[1], float(sys.argv[2])
    work, amount, unit = LOADS[name]()
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    print("ready", flush=True)
    best_s, mean_s = best_and_mean_s(work, seconds)
    rates = {"best": amount / best_s, "mean": amount / mean_s, "unit": unit}
    print(json.dumps({"load": name, **rates, **device_facts()}), flush=True)


if __name__ == "__main__":
    main()
