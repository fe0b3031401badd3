"""How right the numerics guard is: false alarms and divergences found, on simulated losses.

    python benchmarks/numerics_guard.py [--pairs 2000] [--steps 64]

A pair is the losses of a baseline (its first process alone, as before confirmation, or with its confirming
processes) and of one run that changed precision or compile. With one seed, two runs differ by the rounding of
bf16 (1% of each loss); without, by the noise of the batches (10% of each loss) and by what the seed decides.
"""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from simulated_losses import CURVES, HARMS, Harm, curve, rounded  # noqa: E402

from tunekit.recommend.numerics import judge_losses  # noqa: E402
from tunekit.records.recommendation import LossOutcome  # noqa: E402

_BATCH_NOISE = 0.10
_SEED_OFFSET = 0.02
_PROCESSES = (1, 3, 6)
"""Baseline processes: the first alone, then with 2 and 5 confirming rounds."""


def main() -> None:
    """Simulate and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=2000, help="simulated pairs of each kind")
    parser.add_argument("--steps", type=int, default=64, help="losses of each run")
    options = parser.parse_args()
    print("| losses | baseline processes | false alarms | " + " | ".join(HARMS) + " |")
    print("|---|---|---|" + "---|" * len(HARMS))
    totals: dict[int, int] = dict.fromkeys(_PROCESSES, 0)
    for is_seeded in (True, False):
        for name in CURVES:
            for processes in _PROCESSES:
                alarms = _alarms(name, is_seeded, processes, None, options)
                totals[processes] += alarms
                found = [_alarms(name, is_seeded, processes, harm, options) for harm in HARMS.values()]
                shares = " | ".join(f"{count / options.pairs:.1%}" for count in (alarms, *found))
                print(f"| {name}, {'one seed' if is_seeded else 'no seed'} | {processes} | {shares} |")
    kinds = 2 * len(CURVES) * options.pairs
    rates = ", ".join(f"{count / kinds:.2%} with {processes}" for processes, count in totals.items())
    print(f"\nfalse alarms of all pairs, by baseline processes: {rates}")
    print(f"command: python benchmarks/numerics_guard.py --pairs {options.pairs} --steps {options.steps}")


def _alarms(
    name: str, is_seeded: bool, processes: int, harm: Harm | None, options: argparse.Namespace
) -> int:
    """Return how many pairs are called divergent."""
    verdicts = (
        judge_losses(*_pair(name, is_seeded, processes, harm, options.steps, number))
        for number in range(options.pairs)
    )
    return sum(verdict.outcome is LossOutcome.DIVERGENT for verdict in verdicts)


def _pair(
    name: str, is_seeded: bool, processes: int, harm: Harm | None, steps: int, number: int
) -> tuple[list[list[float]], list[float]]:
    shape = CURVES[name]
    more = {"noise": _BATCH_NOISE, "offset": _SEED_OFFSET}
    seeds = [number if is_seeded else f"{number} {process}" for process in range(processes)]
    baseline = [curve(shape, steps, seed, **more) for seed in seeds]
    own = number if is_seeded else f"{number} candidate"
    return baseline, rounded(curve(shape, steps, own, harm=harm, **more), number)


if __name__ == "__main__":
    main()
