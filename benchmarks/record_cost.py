"""What a recording costs a 10 ms step, and what it names in trainings with and without planted faults.

    python benchmarks/record_cost.py cost [--turns 6]
    python benchmarks/record_cost.py faults [--clean 10] [--at-once 5] [--seconds 70]

`cost` runs in turns, in fresh processes: twice the bare loop (A, A) and the recorded one (B). Printed: the
median difference of a step's median time, B to A, as a share of the step, and the noise floor, A to A.
`faults` runs a leak, a slowing disk, checkpoint stalls and clean trainings, some at once, and prints what
each names.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from statistics import median
from timeit import repeat

from tunekit.cli.machine import host_here
from tunekit.cli.monitor import watch_training
from tunekit.session.recording import load_recording
from tunekit.trial.recording import start_recorded

STEP_S, BATCH, LOOP_S, KIB = 0.010, 16, 6.0, 1 << 10


def loop(fault: str, seconds: float) -> None:
    """Train in steps of 10 ms, asleep unless the cost is asked for; print the second half's median step."""
    import torch  # noqa: PLC0415 - only the child's loop needs it

    class Data(torch.utils.data.Dataset):
        def __len__(self) -> int:
            return 40_000 * BATCH

        def __getitem__(self, at: int) -> "torch.Tensor":
            if fault == "disk" and time.perf_counter() - began > seconds / 2:
                time.sleep(0.0003)
            return torch.full((64,), float(at))

    torch.set_num_threads(1)
    model, kept, times, began = torch.nn.Linear(64, 1), [], [], time.perf_counter()
    optimizer = torch.optim.SGD(model.parameters(), 1e-9)
    for number, batch in enumerate(torch.utils.data.DataLoader(Data(), BATCH)):
        ends = time.perf_counter() + STEP_S
        while time.perf_counter() < ends:
            time.sleep(STEP_S if fault else 0.0)
        model(batch).sum().backward()
        optimizer.step()
        kept += [os.urandom(64 * KIB)] if fault == "leak" else []
        if number % (200 if fault == "checkpoint" else 2000) == 199:
            torch.save(model.state_dict(), "model.pt")
            time.sleep(0.5 if fault == "checkpoint" else 0.0)
        times.append(time.perf_counter())
        if times[-1] - began > seconds:
            break
    print(median(later - earlier for earlier, later in pairwise(times[len(times) // 2 :])))


def recorded(fault: str, seconds: float) -> tuple[float, list[str]]:
    """Return the median step of a recorded loop, and the codes of its findings."""
    folder = Path(tempfile.mkdtemp()) / "recording"
    command = [sys.executable, __file__, "loop", "--fault", fault, "--seconds", str(seconds)]
    host = host_here()
    process = start_recorded(command, folder)
    watch_training(folder, host, command, process.pid)
    assert process.wait() == 0
    step_s = float((folder / "output.log").read_text().split()[-1])
    return step_s, [one.code for one in load_recording(folder).findings]


def in_process_s() -> float:
    """Return what the recorder's own calls take per step, in seconds."""
    agent = import_module("tunekit.agent.site._tunekit_agent.recording")
    recorder = agent.Recorder(tempfile.mkdtemp(), agent.Ranks(agent.Owner(), lambda: None), None)
    info, batch = agent.LoaderInfo((), 0), [import_module("torch").zeros(BATCH, 64)] * 2
    info.loader, info.facts = lambda: None, {"batch_size": BATCH}
    call = "recorder.fetched(info, batch, 0.0, 0.0); recorder.stepped(agent.Owner)"
    return min(repeat(call, globals=locals(), number=20_000)) / 20_000


def cost(turns: int) -> None:
    """Print the overhead and the noise floor."""
    bare = [sys.executable, __file__, "loop", "--seconds", str(LOOP_S)]
    print(f"the recorder's calls: {in_process_s() * 1e6:.1f} us a step")
    floors, costs = [], []
    for _ in range(turns):
        first, second = (float(subprocess.check_output(bare)) for _ in range(2))
        floors.append(abs(second / first - 1))
        costs.append(recorded("", LOOP_S)[0] * 2 / (first + second) - 1)
    print(f"overhead {median(costs):+.2%} (turns {min(costs):+.2%} to {max(costs):+.2%})")
    print(f"noise floor, A to A: {median(floors):.2%}, at most {max(floors):.2%}; {turns} turns")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=("cost", "faults", "loop"))
    parser.add_argument("--fault", default="")
    for flag, default in (("--turns", 6), ("--clean", 10), ("--at-once", 5), ("--seconds", 70.0)):
        parser.add_argument(flag, type=type(default), default=default)
    options = parser.parse_args()
    os.chdir(tempfile.mkdtemp())
    if options.what == "loop":
        loop(options.fault, options.seconds)
    elif options.what == "cost":
        cost(options.turns)
    else:
        faults = ["leak", "disk", "checkpoint", *["clean"] * options.clean]
        with ThreadPoolExecutor(options.at_once) as pool:
            found = pool.map(lambda one: recorded(one, options.seconds)[1], faults)
            for fault, codes in zip(faults, found, strict=True):
                print(f"{fault:11} {', '.join(codes) or 'nothing'}", flush=True)
