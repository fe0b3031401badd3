"""What the agent costs a training loop: the same loop with and without it, interleaved.

    python benchmarks/agent_overhead.py [--step-ms 10] [--steps 300] [--rounds 7] [--device cuda]

Each process times its own steps; the steps are a busy wait of fixed length, so that what differs is
the agent. The agent observes with a window that never closes. An A/A pair gives the noise floor.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tunekit.agent import REQUEST_VARIABLE, SITE_FOLDER  # noqa: E402

LOOP = """
import sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
step_s, steps, device = float(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
rows = torch.randn(steps * 4 + 400, 8)
model = torch.nn.Linear(8, 2).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
times = []
for (batch,) in DataLoader(TensorDataset(rows), batch_size=4):
    model(batch.to(device)).sum().backward()
    optimizer.step()
    end = time.perf_counter() + step_s
    while time.perf_counter() < end:
        pass
    times.append(time.perf_counter())
    if len(times) > steps + 50:
        break
if device == "cuda":
    torch.cuda.synchronize()
print((times[-1] - times[50]) / (len(times) - 51))
"""


def step_s(arguments: list[str], with_agent: bool, folder: Path) -> float:
    """Return the seconds per step that one fresh process timed by itself."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    if with_agent:
        request = folder / "request.json"
        asked = {
            "trial_folder": str(folder),
            "scratch_folder": str(folder),
            "knobs": {},
            "loader": None,
            "roots": [],
        }
        request.write_text(json.dumps({**asked, "window_s": 1e6, "interval_goal": 0.0}))
        environment["PYTHONPATH"] = str(SITE_FOLDER)
        environment[REQUEST_VARIABLE] = str(request)
    command = [sys.executable, "-c", LOOP, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def interleaved(
    step_ms: float, steps: int, rounds: int, device: str
) -> tuple[list[float], list[float], list[float]]:
    """Return seconds per step without the agent, with it, and without it again: one of each per round."""
    arguments = [str(step_ms / 1000), str(steps), device]
    off, on, again = [], [], []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as scratch:
            off.append(step_s(arguments, False, Path(scratch)))
            on.append(step_s(arguments, True, Path(scratch)))
            again.append(step_s(arguments, False, Path(scratch)))
    return off, on, again


def main() -> None:
    """Measure interleaved and print the overhead beside the floor."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--step-ms", type=float, default=10.0)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options = parser.parse_args()
    off, on, again = interleaved(options.step_ms, options.steps, options.rounds, options.device)
    print(f"$ python benchmarks/agent_overhead.py {' '.join(sys.argv[1:])}")
    print(f"agent on / off: {ratio_text(on, off)}")
    print(f"off / off (A/A): {ratio_text(again, off)}")
    print(f"added per step: {(mean(on) - mean(off)) * 1e6:.1f} us of {mean(off) * 1e3:.2f} ms")


def ratio_text(first: list[float], second: list[float]) -> str:
    """Return by how much the first is longer, with its standard error."""
    logs = [math.log(a / b) for a, b in zip(first, second, strict=True)]
    return f"{math.expm1(mean(logs)):+.2%} (standard error {stdev(logs) / math.sqrt(len(logs)):.2%})"


if __name__ == "__main__":
    main()
