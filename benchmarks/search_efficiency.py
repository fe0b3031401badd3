"""How many trial-seconds until a search has a config as good as the best of an exhaustive grid?

    python benchmarks/search_efficiency.py [--seeds 50] [--worlds 40] [--racers TPE model]

Replays every racer on the grids that `record_grid.py` wrote, and on random worlds whose physics is not the
model's own. A search is there once the fastest trial that it has seen is truly (by the mean of that config's
trials) within max(3%, noise floor) of the best. Printed: median and 90th percentile of the trial-seconds, the
baseline's included, and the ratio to plain TPE's and to coordinate search's on the same worlds and seeds.
"""

import argparse
import random
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from grid import GRIDS_FOLDER, Grid  # noqa: E402
from racers import RACERS, MakeRacer  # noqa: E402
from random_world import RandomWorld  # noqa: E402

from tunekit.records.config import TrainConfig  # noqa: E402
from tunekit.records.host import Host  # noqa: E402
from tunekit.records.run import KnobSpace  # noqa: E402
from tunekit.records.trial import TrialRecord  # noqa: E402

_TOLERANCE = 0.03
_MAX_TRIALS = 300


class World(Protocol):
    """Something to search in, whose truth is known."""

    name: str
    baseline: TrialRecord
    truth: dict[TrainConfig, float]
    floor: float

    @property
    def host(self) -> Host:
        """The machine."""
        ...

    @property
    def space(self) -> tuple[KnobSpace, ...]:
        """The knobs."""
        ...

    def draw(self, config: TrainConfig, chance: random.Random, number: int) -> TrialRecord:
        """Return one trial of a config."""
        ...


def race(make: MakeRacer, world: World, seed: int) -> tuple[float, int, bool]:
    """Return trial-seconds and trials until the best is reached, and whether it was."""
    chance = random.Random(f"{world.name} {seed}")
    good = max(world.truth.values()) / (1 + max(_TOLERANCE, world.floor))
    records = [world.baseline]
    spent_s = world.baseline.duration_s
    assert world.baseline.config is not None
    racer = make(world.space, world.host, world.baseline.config, seed)
    while len(records) < _MAX_TRIALS:
        best = max(records, key=lambda record: record.rate_samples_per_s or 0.0)
        if best.config is not None and world.truth.get(best.config, 0.0) >= good:
            return spent_s, len(records), True
        config = racer.propose(records)
        if config is None:
            return spent_s, len(records), False
        records.append(world.draw(config, chance, len(records)))
        spent_s += records[-1].duration_s
    return spent_s, len(records), False


def raced(world_sets: dict[str, Sequence[World]], names: Sequence[str], seeds: int) -> None:
    """Race and print one table per set of worlds."""
    for title, worlds in world_sets.items():
        rows: dict[str, list[tuple[float, int, bool]]] = {name: [] for name in names}
        for world in worlds:
            for seed in range(seeds if len(worlds) == 1 else max(1, seeds // len(worlds))):
                for name in names:
                    rows[name].append(race(RACERS[name], world, seed))
        print(f"\n{title}")
        print(
            "| search | trial-s, median | 90th percentile | trials, median | within | / TPE | / coordinate |"
        )
        print("|---|---|---|---|---|---|---|")
        spent = {name: _seconds(rows[name]) for name in names}
        for name in names:
            ratios = []
            for other in ("TPE", "coordinate"):
                if other not in spent:
                    ratios.append("n/a")
                    continue
                pair = [
                    np.percentile(spent[name], place) / np.percentile(spent[other], place)
                    for place in (50, 90)
                ]
                ratios.append(f"{pair[0]:.2f}, {pair[1]:.2f}")
            found = np.mean([row[2] for row in rows[name]])
            print(
                f"| {name} | {np.median(spent[name]):.0f} | {np.percentile(spent[name], 90):.0f} "
                f"| {np.median([row[1] for row in rows[name]]):.0f} | {found:.0%} | {' | '.join(ratios)} |",
                flush=True,
            )


def _seconds(rows: Sequence[tuple[float, int, bool]]) -> list[float]:
    """Return the trial-seconds; a search that ended without is taken to have needed twice the longest."""
    longest = max(row[0] for row in rows)
    return [seconds if found else 2 * longest for seconds, _, found in rows]


def main() -> None:
    """Race and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=50)
    parser.add_argument("--worlds", type=int, default=40, help="random worlds")
    parser.add_argument("--racers", nargs="+", default=list(RACERS), choices=list(RACERS))
    parser.add_argument("--grids", nargs="*", default=None, help="names of recorded grids; all by default")
    options = parser.parse_args()
    recorded = sorted(path.name.split(".")[0] for path in GRIDS_FOLDER.glob("*.jsonl.gz"))
    names = recorded if options.grids is None else options.grids
    sets: dict[str, Sequence[World]] = {}
    for name in names:
        grid = Grid(name)
        sets[f"{name} (A/A {grid.floor:.1%})"] = [grid]
    if options.worlds:
        sets[f"{options.worlds} random worlds"] = [RandomWorld(seed) for seed in range(options.worlds)]
    print(f"`{shlex.join(['python', 'benchmarks/search_efficiency.py', *sys.argv[1:]])}`")
    raced(sets, options.racers, options.seeds)


if __name__ == "__main__":
    main()
