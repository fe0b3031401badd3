"""How often `tunekit compare` is wrong: false alarms over A/A pairs of runs, and planted slowdowns found.

    python benchmarks/compare_gate.py [--pairs 200] [--tolerance 0.05] [--slowdown 0.10]

Each pair is two run records, compared as the command compares them. Their processes' rates are

- recorded: of the real processes in `grids/`, each over its config's own mean. A run is a stretch of
  processes that ran one after the other, baseline and tuned config in turns; the other run is another
  stretch, so what drifts between them is as it was. As recorded, or scaled to a noise floor.
- log-normal: independent, at a noise floor, with a drift between runs as large as in the worst of the grids.

Where a slowdown is left inconclusive and rounds are named that would tell, the last column is the share
that is found with those.
"""

import argparse
import math
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from build_comparisons import compared, measured_again, searched  # noqa: E402
from grid import GRIDS_FOLDER, Grid  # noqa: E402

from tunekit.records.comparison import ReferenceComparison  # noqa: E402

_FLOORS = (0.01, 0.03, 0.07, 0.15)
_ROUNDS = (3, 5, 8)
_BLOCK = 10
"""Processes in a row whose mean shows the drift."""
_FALSE_GOAL, _FOUND_GOAL = 0.01, 0.95

Logs = list[float]
Draw = Callable[[random.Random, int], tuple[tuple[Logs, Logs], tuple[Logs, Logs]]]
"""Two runs of so many rounds: log rates of the baseline and of the tuned config, 0 on average."""


class Tally(NamedTuple):
    """What came of the pairs of one noise with one number of rounds."""

    false_alarms: int
    found: int
    inconclusive: int
    rounds_named: list[int]


def main() -> None:
    """Draw, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=200, help="pairs of runs of each row")
    parser.add_argument("--tolerance", type=float, default=0.05)
    parser.add_argument("--slowdown", type=float, default=0.10, help="share of the rate that is lost")
    options = parser.parse_args()
    grids = [residuals(Grid(path.name.partition(".")[0])) for path in sorted(GRIDS_FOLDER.glob("*.gz"))]
    drift = max(map(drift_of, grids))
    draws: dict[str, Draw] = {
        f"log-normal, floor {floor:.0%}": log_normal(spread_of(floor), drift) for floor in _FLOORS
    }
    for floor in _FLOORS[:-1]:
        draws[f"recorded, scaled to {floor:.0%}"] = recorded([scaled(one, floor) for one in grids])
    draws["recorded, 5 grids as they are"] = recorded(grids)
    print(f"{options.pairs} A/A pairs and as many with the second run {options.slowdown:.0%} slower, a row;")
    print(
        f"tolerance {options.tolerance:.0%}; drift between log-normal runs {drift:.2f} of a process spread\n"
    )
    print(
        "| noise | rounds | false alarms | slowdown found | left inconclusive | rounds named | these find |"
    )
    print("|---|---|---|---|---|---|---|")
    alarms = 0
    for name, draw in draws.items():
        for rounds in _ROUNDS:
            tally = tally_of(draw, rounds, options.pairs, options.tolerance, options.slowdown)
            alarms += tally.false_alarms
            again = "" if name.startswith("recorded") else _found_later(draw, tally, options)
            named = f"{median(tally.rounds_named):.0f}" if tally.rounds_named else ""
            shares = (tally.false_alarms, tally.found, tally.inconclusive)
            cells = " | ".join(f"{one / options.pairs:.1%}" for one in shares)
            print(f"| {name} | {rounds} | {cells} | {named} | {again} |", flush=True)
    share = alarms / (options.pairs * len(draws) * len(_ROUNDS))
    print(f"\nfalse alarms in all: {share:.2%} (goal, at most {_FALSE_GOAL:.0%})")
    print(f"goal of a slowdown found: {_FOUND_GOAL:.0%}, or left inconclusive")
    flags = f"--pairs {options.pairs} --tolerance {options.tolerance:g} --slowdown {options.slowdown:g}"
    print(f"\ncommand: python benchmarks/compare_gate.py {flags}")


# --- noise -----------------------------------------------------------------------------------


def residuals(grid: Grid) -> Logs:
    """Return log rates over their config's mean in the order in which the processes ran."""
    seen = []
    for config in grid.configs:
        trials = [one for one in grid.trials_of(config) if one.rate_samples_per_s]
        logs = [math.log(one.rate_samples_per_s or 1.0) for one in trials]
        if len(logs) > 1:
            widened = math.sqrt(len(logs) / (len(logs) - 1))  # a mean of few is nearer to them than the truth
            mean = fmean(logs)
            seen += [
                (one.started_at, one.number, (log - mean) * widened)
                for one, log in zip(trials, logs, strict=True)
            ]
    return [residual for _, _, residual in sorted(seen)]


def spread_of(floor: float) -> float:
    """Return the standard deviation of a process's log rate: the floor is of a ratio of two."""
    return math.log1p(floor) / math.sqrt(2)


def scaled(logs: Logs, floor: float) -> Logs:
    """Return the series with this noise floor."""
    own = math.sqrt(fmean((later - earlier) ** 2 for earlier, later in pairwise(logs)))
    return [math.log1p(floor) * log / own for log in logs]


def drift_of(logs: Logs) -> float:
    """Return how much the mean of a stretch varies beyond what its processes do, over their spread."""
    variance = fmean(log * log for log in logs)
    blocks = [fmean(logs[at : at + _BLOCK]) for at in range(0, len(logs) - _BLOCK + 1, _BLOCK)]
    beyond = fmean(mean * mean for mean in blocks) - variance / _BLOCK
    return math.sqrt(max(0.0, beyond) / variance)


def log_normal(spread: float, drift: float) -> Draw:
    """Return runs of independent processes, each run shifted by a drift."""

    def draw(chance: random.Random, rounds: int) -> tuple[tuple[Logs, Logs], tuple[Logs, Logs]]:
        def run() -> tuple[Logs, Logs]:
            shift = chance.gauss(0.0, drift * spread)
            own, tuned = ([shift + chance.gauss(0.0, spread) for _ in range(rounds)] for _ in range(2))
            return own, tuned

        return run(), run()

    return draw


def recorded(series: Sequence[Logs]) -> Draw:
    """Return runs that are stretches of a recording, which do not overlap."""

    def draw(chance: random.Random, rounds: int) -> tuple[tuple[Logs, Logs], tuple[Logs, Logs]]:
        logs, length = chance.choice(series), 2 * rounds
        first, second = sorted(chance.sample(range(len(logs) - 2 * length + 2), 2))
        starts = [first, second + length - 1]
        chance.shuffle(starts)
        one, other = ((logs[at : at + length : 2], logs[at + 1 : at + length : 2]) for at in starts)
        return one, other

    return draw


# --- pairs -----------------------------------------------------------------------------------


def tally_of(draw: Draw, rounds: int, pairs: int, tolerance: float, slowdown: float, seed: int = 0) -> Tally:
    """Compare so many A/A pairs, and as many of which the second is slower."""
    chance = random.Random(f"{seed} {rounds}")
    same = [_compared(draw(chance, rounds), tolerance, 0.0) for _ in range(pairs)]
    slow = [_compared(draw(chance, rounds), tolerance, slowdown) for _ in range(pairs)]
    verdicts = Counter(one.verdict for one in slow)
    return Tally(
        sum(one.is_regression for one in same),
        sum(one.is_regression for one in slow),
        verdicts["inconclusive"],
        [named for one in slow if (named := rounds_named(one)) is not None],
    )


def rounds_named(one: ReferenceComparison) -> int | None:
    """Return how many rounds the comparison says would tell."""
    remedies = [finding.remedy or "" for finding in one.findings if finding.code == "undecided"]
    found = re.search(r"--confirm (\d+)", " ".join(remedies))
    return int(found[1]) if found else None


_TEMPLATE = searched()


def _compared(
    runs: tuple[tuple[Logs, Logs], tuple[Logs, Logs]], tolerance: float, slowdown: float
) -> ReferenceComparison:
    (own, tuned), (later_own, later_tuned) = runs
    before = measured_again(_TEMPLATE, rates(500.0, own), rates(980.0, tuned))
    after = measured_again(_TEMPLATE, rates(500.0, later_own), rates(980.0 * (1 - slowdown), later_tuned))
    return compared(before, after, tolerance=tolerance).against[0]


def rates(mean: float, logs: Logs) -> Logs:
    """Return samples/s about a mean."""
    return [mean * math.exp(log) for log in logs]


def _found_later(draw: Draw, tally: Tally, options: argparse.Namespace) -> str:
    """Return the share of slowdowns that is found with the rounds that were named."""
    chance = random.Random("later")
    found = sum(
        _compared(draw(chance, rounds), options.tolerance, options.slowdown).is_regression
        for rounds in tally.rounds_named
    )
    return f"{found / len(tally.rounds_named):.0%}" if tally.rounds_named else ""


if __name__ == "__main__":
    main()
