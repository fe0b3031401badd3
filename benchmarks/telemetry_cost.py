"""What telemetry costs tunekit's own process while a trial runs, in percent of one core.

    python benchmarks/telemetry_cost.py [--workers 4] [--duration 30]

A real process tree is sampled as a trial is: a loop over a DataLoader with worker processes, torch loaded in
each. Beside it: the watch without telemetry (events and limits), which is no part of the figure, and what it
costs to write the series of a trial. GPUs that are here are sampled too.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tunekit.machine.detect import detect_host  # noqa: E402
from tunekit.machine.gpu.nvml import Nvml  # noqa: E402
from tunekit.machine.telemetry.sampler import (  # noqa: E402
    GpuSampler,
    LoopSample,
    Sampler,
)
from tunekit.machine.telemetry.series import save_series  # noqa: E402
from tunekit.machine.telemetry.tree import TreeMeter  # noqa: E402
from tunekit.trial.keeper import descendants  # noqa: E402

_POLL_S = 0.15
_LOADS = """
import sys, torch
from torch.utils.data import DataLoader, TensorDataset
data = TensorDataset(torch.zeros(20_000, 3, 32, 32))
print("ready", flush=True)
while True:
    for batch in DataLoader(data, batch_size=64, num_workers=int(sys.argv[1]), persistent_workers=False):
        batch[0].sum()
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--duration", type=float, default=30.0, metavar="S")
    options = parser.parse_args()
    command = [sys.executable, "-c", _LOADS, str(options.workers)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as loader:
        try:
            assert loader.stdout is not None
            loader.stdout.readline()
            with tempfile.TemporaryDirectory() as scratch:
                _measure(loader.pid, options.duration, Path(scratch) / "telemetry.zarr")
        finally:
            for pid in (*descendants(loader.pid), loader.pid):
                subprocess.run(["kill", "-KILL", str(pid)], check=False, stderr=subprocess.DEVNULL)
    print(
        f"command: python benchmarks/telemetry_cost.py --workers {options.workers} "
        f"--duration {options.duration:g}"
    )


def _measure(pid: int, duration_s: float, store: Path) -> None:
    tree = TreeMeter(pid, lambda: [pid, *descendants(pid)])
    gpus = detect_host().nvml_indexes
    started, cpu_before, memory_cpu_s, most = time.monotonic(), time.process_time(), 0.0, 0
    with Sampler(tree, GpuSampler(Nvml(), gpus)) as sampler:
        while time.monotonic() - started < duration_s:
            before = time.process_time()
            tree.is_above(1 << 50)
            memory_cpu_s += time.process_time() - before
            sampler.tick(LoopSample("measuring", 0, 0))
            most = max(most, len(tree.pids))
            time.sleep(_POLL_S)
        elapsed_s, total_cpu_s = time.monotonic() - started, time.process_time() - cpu_before
        series, sampled_cpu_s = sampler.series(), sampler.cost_cpu_s - tree.cost_cpu_s
    save_series(store, 0, series)  # the first write imports zarr
    before = time.process_time()
    save_series(store, 1, series)
    written_s = time.process_time() - before
    rows = {one.name: len(one.rows) for one in series}
    print(f"tree of {most} processes, {len(gpus)} GPUs, {elapsed_s:.0f} s; rows {rows}")
    print(f"telemetry: {sampled_cpu_s / elapsed_s:.2%} of one core (samples of host, loop and GPUs)")
    print(
        f"memory for the limits: {memory_cpu_s / elapsed_s:.2%} of one core "
        f"(PSS read {tree.peaks().samples} times, in between a bound)"
    )
    print(f"both and the waiting loop: {total_cpu_s / elapsed_s:.2%} of one core")
    print(f"writing a trial's series: {written_s * 1000:.0f} ms of CPU, once")


if __name__ == "__main__":
    main()
