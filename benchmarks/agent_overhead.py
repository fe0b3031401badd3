"""What the agent costs a training loop: whole loops with and without it, and each hook by itself.

    python benchmarks/agent_overhead.py [--step-ms 10] [--steps 300] [--rounds 7] [--calls 100000]
                                        [--device cuda]

Each process times its own steps; the steps are a busy wait of fixed length, so that what differs is the
agent. The agent observes with a window that never closes. An A/A pair gives the noise floor. Then every
hook is called so many times, in a loop's order, in one process that observes: one call after the other, and
with a step between, after which the caches hold other things: the mean, and its share of a step. It fails
where the agent did not start or broke down.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tunekit.agent import REQUEST_VARIABLE, SITE_FOLDER  # noqa: E402
from tunekit.records.agent_messages import (  # noqa: E402
    AgentErrorEvent,
    AgentRequest,
    LearntEvent,
    StartEvent,
    parse_event,
)

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

_COLD_CALLS = 500

HOOKS = """
import gc, json, sys, time, torch
from torch.utils.data import DataLoader, TensorDataset
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
loader = DataLoader(TensorDataset(torch.randn(400, 8)), batch_size=4)
for (batch,) in loader:
    model(batch).sum().backward()
    optimizer.step()
from _tunekit_agent.observe import Observer
(observer,) = (one for one in gc.get_objects() if isinstance(one, Observer))
assert observer._clock.phase == "measuring", observer._clock.phase
info = loader._tunekit_info
from _tunekit_agent.loader.work import Slots, Tally

class Fetcher:
    dataset = None

def bare(self, possibly_batched_index):
    return None

fetcher, fetch = Fetcher(), observer.work._timed(bare)
fetcher._tunekit_tally = Tally(Slots(1).words, 0, time.process_time_ns)
now = time.perf_counter
hooks = {
    "fetch_started": lambda: observer.fetch_started(info, None),
    "fetched": lambda: observer.fetched(info, [batch], 0.001, 0.001),
    "step_began": lambda: observer.step_began(now()),
    "stepped": lambda: observer.stepped(optimizer, now()),
    "fetch, in the worker": lambda: fetch(fetcher, None),
    "none": lambda: None,
}
spent = dict.fromkeys(hooks, 0.0)
step_s, rounds = float(sys.argv[2]), int(sys.argv[1])
for _ in range(rounds):
    if step_s:  # what the caches held is gone when the next hook is called
        end = now() + step_s
        while now() < end:
            pass
        model(batch).sum().backward()
    for name, call in hooks.items():
        began = now()
        call()
        spent[name] += now() - began
nothing = spent.pop("none")
assert observer._clock.steady.batches >= rounds and not observer.has_failed
told = {name: (seconds - nothing) / rounds * 1e6 for name, seconds in spent.items()}
print(json.dumps(told))
"""


def observed(code: str, arguments: Sequence[str], folder: Path) -> str:
    """Run code in a process that the agent observes and return what it printed.

    Raises:
        SystemExit: the agent did not start, did not learn the loop, or failed.
    """
    request = AgentRequest(
        trial_folder=str(folder),
        working_dir=str(folder),
        scratch_folder=str(folder),
        started_at_s=time.time(),
        loader=None,
        roots=(),
        window_s=1e6,
    )
    path = folder / "request.json"
    path.write_text(request.model_dump_json())
    printed = plain(code, arguments, {"PYTHONPATH": str(SITE_FOLDER), REQUEST_VARIABLE: str(path)})
    lines = [line for file in folder.glob("events-*.jsonl") for line in file.read_text().splitlines()]
    events = [parse_event(line) for line in lines if line]
    if not any(isinstance(event, StartEvent) for event in events):
        raise SystemExit(
            f"the agent did not start: no start event in {folder}, there are {len(events)} events"
        )
    if not any(isinstance(event, LearntEvent) and event.discovery.complete for event in events):
        raise SystemExit("the agent did not learn the loop: it would cost less than it does in a trial")
    failed = [event.message for event in events if isinstance(event, AgentErrorEvent)]
    if failed:
        raise SystemExit(f"the agent failed and observed no more: {failed[0]}")
    return printed


def plain(code: str, arguments: Sequence[str], more: dict[str, str] | None = None) -> str:
    """Run code in a fresh process and return what it printed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **(more or {})}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def interleaved(
    step_ms: float, steps: int, rounds: int, device: str
) -> tuple[list[float], list[float], list[float]]:
    """Return seconds per step without the agent, with it, and without it again: one of each per round."""
    arguments = [str(step_ms / 1000), str(steps), device]
    off, on, again = [], [], []
    for _ in range(rounds):
        off.append(float(plain(LOOP, arguments)))
        with tempfile.TemporaryDirectory() as scratch:
            on.append(float(observed(LOOP, arguments, Path(scratch))))
        again.append(float(plain(LOOP, arguments)))
    return off, on, again


def main() -> None:
    """Measure interleaved, then hook by hook, and print the overhead beside the floor."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--step-ms", type=float, default=10.0)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    options = parser.parse_args()
    if options.rounds < 2:
        parser.error(f"--rounds must be at least 2 for a standard error, got {options.rounds}")
    off, on, again = interleaved(options.step_ms, options.steps, options.rounds, options.device)
    print(f"$ python benchmarks/agent_overhead.py {' '.join(sys.argv[1:])}")
    print(f"agent on / off: {ratio_text(on, off)}")
    print(f"off / off (A/A): {ratio_text(again, off)}")
    print(f"added per step: {(mean(on) - mean(off)) * 1e6:.1f} us of {mean(off) * 1e3:.2f} ms")
    for calls, pause_s in ((options.calls, 0.0), (_COLD_CALLS, options.step_ms / 1000)):
        with tempfile.TemporaryDirectory() as scratch:
            hooks_us = json.loads(observed(HOOKS, [str(calls), str(pause_s)], Path(scratch)))
        between = f"a step of {options.step_ms:g} ms between" if pause_s else "in a row"
        print(f"each hook {calls} times, {between}")
        for name, cost_us in {**hooks_us, "in all": sum(hooks_us.values())}.items():
            print(f"  {name}: {cost_us:.2f} us a call, {cost_us / options.step_ms / 1000:.3%} of a step")


def ratio_text(first: list[float], second: list[float]) -> str:
    """Return by how much the first is longer, with its standard error."""
    logs = [math.log(a / b) for a, b in zip(first, second, strict=True)]
    return f"{math.expm1(mean(logs)):+.2%} (standard error {stdev(logs) / math.sqrt(len(logs)):.2%})"


if __name__ == "__main__":
    main()
