"""How right a trial's figures are: simulated loops whose truth is known, thousands of processes.

    python benchmarks/estimators.py [--processes 1000] [--window 5]

Each loop (worker processes, queue, epoch boundaries, compilation, spikes, phases) runs on a clock of its own
under the agent's own estimators. Beside them stands what people do by hand: the time of 20 steps after 3.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from statistics import fmean

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tunekit" / "agent" / "site")]

from simulated_loops import EPOCH_LOOPS, STEADY_LOOPS, Loop, Simulation, epoch_s, step_s  # noqa: E402

_BY_HAND = 20


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--processes", type=int, default=1000, help="simulated processes of each loop")
    parser.add_argument("--window", type=float, default=5.0, metavar="S", help="steady seconds per trial")
    options = parser.parse_args()
    print("| steady loop | bias | off by, p95 | 95% interval covers | its half width | batches | closed by |")
    print("|---|---|---|---|---|---|---|")
    for name, loop in STEADY_LOOPS.items():
        print(f"| {name} | {_steady(loop, options.processes, options.window)} |")
    print()
    print("| epochs | bias | off by, p95 | steady rate alone | 20 steps by hand |")
    print("|---|---|---|---|---|")
    for name, loop in EPOCH_LOOPS.items():
        print(f"| {name} | {_epochs(loop, options.processes, options.window)} |")
    flags = f"--processes {options.processes} --window {options.window:g}"
    print(f"\ncommand: python benchmarks/estimators.py {flags}")


def _steady(loop: Loop, processes: int, window_s: float) -> str:
    truth_s = Simulation(loop, 10**6).step_time_s(400_000)
    clocks = [Simulation(loop, seed).measure(window_s) for seed in range(processes)]
    errors = [step_s(clock) / truth_s - 1 for clock in clocks]
    covered = fmean(abs(step_s(one) - truth_s) <= (one.interval or 0.0) * step_s(one) for one in clocks)
    reasons = Counter(str(clock.stop_reason) for clock in clocks).most_common(1)[0][0]
    return (
        f"{fmean(errors):+.2%} | {_p95(errors):.1%} | {covered:.1%} | "
        f"{fmean(clock.interval or 0.0 for clock in clocks):.1%} | "
        f"{fmean(clock.steady.batches for clock in clocks):.0f} | {reasons}"
    )


def _epochs(loop: Loop, processes: int, window_s: float) -> str:
    truth_s = Simulation(loop, 10**6).epoch_time_s(max(50, 400_000 // loop.epoch_batches))
    clocks = [Simulation(loop, seed).measure(window_s) for seed in range(processes)]
    errors = [epoch_s(clock, loop) / truth_s - 1 for clock in clocks]
    steady = fmean(loop.epoch_batches * step_s(clock) / truth_s - 1 for clock in clocks)
    by_hand = fmean(_by_hand_s(loop, seed) * loop.epoch_batches / truth_s - 1 for seed in range(processes))
    return f"{fmean(errors):+.2%} | {_p95(errors):.1%} | {steady:+.1%} | {by_hand:+.1%}"


def _by_hand_s(loop: Loop, seed: int) -> float:
    """Return the time of a batch as 20 steps after 3 show it."""
    return Simulation(loop, seed).first_steps_s(skipped=3, counted=_BY_HAND)


def _p95(errors: list[float]) -> float:
    return sorted(abs(error) for error in errors)[int(0.95 * len(errors))]


if __name__ == "__main__":
    main()
