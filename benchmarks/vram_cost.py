"""What does an estimate of device memory cost, the start of its process included?

    python benchmarks/vram_cost.py [--rounds 3]

Starts Python, traces ResNet-50 on fake cuda tensors at batch sizes 8 and 24, predicts the peak at 128 and the
largest batch on 24 GiB, and ends. Goal: less than 5 s, and less than 1.5 GiB at the process's peak.
"""

import argparse
import json
import shlex
import statistics
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent

_GOAL_S, _GOAL_GIB = 5.0, 1.5
ESTIMATE = """
import gc, json, resource, sys, time
gc.disable()  # half a second of looking through what torch imports
began = time.monotonic()
sys.path[:0] = [{root!r}, {here!r}]
import torch
from vram_steps import trainings
from tunekit.memory.vram.fake.step import traced_at
from tunekit.memory.vram.predict import MemoryPrediction
imported = time.monotonic()
training = trainings()["ResNet-50"]
first, second = traced_at(training, (8, 24))
are_traced = time.monotonic()
prediction = MemoryPrediction.of(first, second)
peak, largest = prediction.peak(128), prediction.largest_batch(24 * 2**30)
print(json.dumps({{
    "imported_s": imported - began, "traced_s": are_traced - imported,
    "solved_s": time.monotonic() - are_traced,
    "peak_kib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    "reserved_bytes": peak.reserved_bytes, "largest": largest,
}}))
"""


def main() -> None:
    """Run estimates, one after another, and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    print(f"`{shlex.join(['python', 'benchmarks/vram_cost.py', *sys.argv[1:]])}`\n")
    print("| s, process included | imports | two traces | peak and largest batch | peak RSS |")
    print("|---|---|---|---|---|")
    code = ESTIMATE.format(root=str(HERE.parent), here=str(HERE))
    took_s, taken_gib = [], []
    for _ in range(asked.rounds):
        began = time.monotonic()
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        took_s.append(time.monotonic() - began)
        told = json.loads(done.stdout)
        taken_gib.append(told["peak_kib"] / 2**20)
        print(
            f"| {took_s[-1]:.1f} | {told['imported_s']:.1f} | {told['traced_s']:.1f} "
            f"| {told['solved_s']:.2f} | {taken_gib[-1]:.2f} GiB |",
            flush=True,
        )
    print(
        f"\nResNet-50 at batch 128: {told['reserved_bytes'] / 2**20:,.0f} MiB reserved; "
        f"largest batch on 24 GiB: {told['largest']}; both predicted"
    )
    is_met = statistics.median(took_s) < _GOAL_S and max(taken_gib) < _GOAL_GIB
    print(f"goal, less than {_GOAL_S:.0f} s and {_GOAL_GIB} GiB: {'met' if is_met else 'missed'}")


if __name__ == "__main__":
    main()
