"""What `tunekit run` leaves in a training: the cost of its step counter, in microseconds per step.

    python benchmarks/step_counter.py [--steps 100000] [--rounds 5]

Two processes' worth of steps run interleaved in one process: an optimizer over one small parameter with
the counter registered and without it, A B B A, so that drift hits both. Without-against-without beside it
is the noise floor.
"""

import argparse
import statistics
import sys
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1] / "tunekit" / "agent" / "site"))
from _tunekit_agent.apply import StepCounter
from torch.optim.optimizer import register_optimizer_step_post_hook


def step_time_s(steps: int, *, counted: bool) -> float:
    """Return the mean seconds of one optimizer step."""
    parameter = torch.nn.Parameter(torch.zeros(8))
    parameter.grad = torch.ones(8)
    optimizer = torch.optim.SGD([parameter], lr=1e-9)
    counter = StepCounter((0.0, 1e9), 1, lambda last: True, lambda message: None)
    handle = register_optimizer_step_post_hook(counter) if counted else None
    started = time.perf_counter()
    for _ in range(steps):
        optimizer.step()
    elapsed_s = time.perf_counter() - started
    if handle is not None:
        handle.remove()
        assert counter.steps == steps
    return elapsed_s / steps


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    step_time_s(options.steps // 10, counted=True)
    costs_s, floors_s, bare_s = [], [], []
    for _ in range(options.rounds):
        first = step_time_s(options.steps, counted=False)
        with_counter = [step_time_s(options.steps, counted=True) for _ in range(2)]
        last = step_time_s(options.steps, counted=False)
        costs_s.append(statistics.mean(with_counter) - (first + last) / 2)
        floors_s.append(abs(last - first))
        bare_s += [first, last]
    cost, floor = statistics.median(costs_s) * 1e6, statistics.median(floors_s) * 1e6
    print(f"step counter: {cost:.2f} us a step over {options.steps} steps; A/A {floor:.2f} us")
    print(f"(the bare optimizer step: {statistics.median(bare_s) * 1e6:.2f} us)")
    print(f"command: python benchmarks/step_counter.py --steps {options.steps} --rounds {options.rounds}")


if __name__ == "__main__":
    main()
