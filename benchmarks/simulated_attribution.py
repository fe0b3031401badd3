"""What tunekit states of a step's time on a simulated GPU, against the device's own time line.

    python benchmarks/simulated_attribution.py [--torch 2.8.0] [--only NAME] [--window 3]

Each loop (tests/gpu/judged_loops.py) is known: what holds it back, and from the simulation's trace what the
device did in the very batches that a figure is stated of. Goal: every part within 3% of the step. Simulated:
no figure of a card.
"""

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "tests" / "gpu")]

from judged_loops import LOOPS, Judged, judge  # noqa: E402

from simgpu.environment import KNOWN_TORCH, USUAL_TORCH, find_environment  # noqa: E402
from simgpu.machine import SimulatedGpu  # noqa: E402
from simgpu.simulation import state_folder  # noqa: E402

GOAL = 0.03


def rows(version: str, judged: Judged) -> list[str]:
    """Return a loop's lines of the table."""
    is_right = judged.bound is judged.loop.bound
    held = judged.bound.value if is_right else f"**{judged.bound.value}**, is {judged.loop.bound.value}"
    first = f"| {version} | {judged.loop.name} | {held} |"
    return [
        f"{first if number == 0 else '| | | |'} {one.name} | {one.stated:.2f} | {one.true:.2f} | "
        f"{one.difference:+.1%} |"
        for number, one in enumerate(judged.compared)
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--torch", action="append", choices=list(KNOWN_TORCH))
    parser.add_argument("--only", action="append", choices=[loop.name for loop in LOOPS])
    parser.add_argument("--window", type=float, default=3.0, metavar="S", help="steady seconds per trial")
    options = parser.parse_args()
    print("| torch | loop, simulated A10G | bound by | ms per batch | stated | true | of the step |")
    print("|---|---|---|---|---|---|---|")
    worst, wrong = 0.0, 0
    for version in options.torch or [USUAL_TORCH]:
        for loop in LOOPS:
            if options.only and loop.name not in options.only:
                continue
            with tempfile.TemporaryDirectory() as scratch, state_folder() as state:
                own = Path(scratch)
                judged = judge(SimulatedGpu(find_environment(version), state, own, own), loop, options.window)
            print("\n".join(rows(version, judged)), flush=True)
            worst = max(worst, *(abs(one.difference) for one in judged.compared))
            wrong += judged.bound is not loop.bound
    met = worst <= GOAL and not wrong
    verdict = "met" if met else "missed"
    print(f"\ngoal, every part within {GOAL:.0%} of the step: {verdict}, {worst:.1%} at worst")
    print(f"`{shlex.join(['python', 'benchmarks/simulated_attribution.py', *sys.argv[1:]])}`")
    sys.exit(not met)


if __name__ == "__main__":
    main()
