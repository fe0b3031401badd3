"""Experiments on simulated time, in one process with a CUDA torch: run by test_timeline.py.

Prints as JSON the times by the host's clock (CLOCK_MONOTONIC, like the trace) and by CUDA events. Device 1
has a queue of `QUEUE_DEPTH` launches; the clock of device 2 changes while it works.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise

import torch

STEPS = 8
QUEUE_DEPTH = 32
QUEUED = 3 * QUEUE_DEPTH
COPY_FLOATS = 4 << 20

Spans = list[tuple[int, int]]
"""Begin and end by the host's clock, in ns."""


def main() -> None:
    """Run all, one after another; each begins with an idle device."""
    told = {}
    for experiment in (steps, queue, copies, events, held_clock):
        torch.cuda.synchronize()
        began = time.monotonic_ns()
        facts = experiment()
        torch.cuda.synchronize()
        torch.cuda.set_device(0)
        told[experiment.__name__] = {"span": (began, time.monotonic_ns()), **facts}
    sys.stdout.write(json.dumps(told) + "\n")


def square(side: int) -> Callable[[], object]:
    """A product of two square matrices, which launches one kernel and allocates nothing."""
    one, other, product = (torch.empty(side, side, device="cuda") for _ in range(3))
    torch.mm(one, other, out=product)
    torch.cuda.synchronize()
    return lambda: torch.mm(one, other, out=product)


def steps() -> dict[str, object]:
    """Steps of known kernels and copies, each waited for."""
    large = square(4096)
    wide = [torch.empty(2048, 768, device="cuda"), torch.empty(768, 3072, device="cuda")]
    out = torch.empty(2048, 3072, device="cuda")
    host, device = torch.empty(COPY_FLOATS, pin_memory=True), torch.empty(COPY_FLOATS, device="cuda")
    torch.cuda.synchronize()
    spans: Spans = []
    for _ in range(STEPS):
        began = time.monotonic_ns()
        device.copy_(host, non_blocking=True)
        large()
        torch.mm(*wide, out=out)
        host.copy_(device, non_blocking=True)
        torch.cuda.synchronize()
        spans.append((began, time.monotonic_ns()))
    return {"steps": spans}


def queue() -> dict[str, object]:
    """More launches than the queue holds; when the host came back from each."""
    torch.cuda.set_device(1)
    launch = square(2048)
    began = time.monotonic_ns()
    returned = []
    for _ in range(QUEUED):
        launch()
        returned.append(time.monotonic_ns())
    torch.cuda.synchronize()
    return {"began": began, "returned": returned}


def copies() -> dict[str, object]:
    """Copies of pageable and pinned memory behind a long kernel; when the host came back from each."""
    large = square(4096)
    device = torch.empty(COPY_FLOATS, device="cuda")
    hosts = {"pageable": torch.empty(COPY_FLOATS), "pinned": torch.empty(COPY_FLOATS, pin_memory=True)}
    torch.cuda.synchronize()
    told: dict[str, object] = {"began": time.monotonic_ns()}
    for name, host in hosts.items():
        large()
        device.copy_(host, non_blocking=True)
        told[name] = time.monotonic_ns()
        torch.cuda.synchronize()
    return told


def events() -> dict[str, object]:
    """Times between events that stand before, between and after queued kernels."""
    large, small = square(4096), square(2048)
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
    began = time.monotonic_ns()
    large()  # the host is ahead from here on, so that an event stands where the kernel before it ends
    marks[0].record()
    small()
    marks[1].record()
    small()
    large()
    marks[2].record()
    torch.cuda.synchronize()
    elapsed = [first.elapsed_time(second) for first, second in pairwise(marks)]
    return {"began": began, "elapsed_ms": elapsed}


def held_clock() -> dict[str, object]:
    """The clock is halved from outside while the process works, and let go again."""
    torch.cuda.set_device(2)
    launch = square(4096)
    began = time.monotonic_ns()
    for share in ("1", "0.5", "1"):
        subprocess.run([sys.executable, "-m", "simgpu", "set", "2", "clock_share", share], check=True)
        launch()
        launch()
    return {"began": began}


if __name__ == "__main__":
    main()
