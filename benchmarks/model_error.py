"""How far off is the throughput model, on configs that it was not shown?

    python benchmarks/model_error.py [--grids remote_storage] [--worlds 40] [--first-world 0] [--seeds 10]

Fits the model on the baseline and K trials of a recorded grid (`record_grid.py`) drawn by chance, and
predicts every config that was not among them; the same for random worlds whose physics is not the model's
own. Printed: mean and largest absolute error of the rate, averaged over the draws, and how many truths lie
inside the range that the model states at 95%. A grid's truth is the mean of few processes, which differ by
the A/A beside its name. The goal is for loops whose baseline one half binds; the rest is stated.
"""

import argparse
import math
import random
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from grid import GRIDS_FOLDER, Grid  # noqa: E402
from random_world import RandomWorld  # noqa: E402
from search_efficiency import World  # noqa: E402

from tunekit.predict.throughput.model import ThroughputModel  # noqa: E402
from tunekit.predict.throughput.observation import observations  # noqa: E402
from tunekit.records.trial import TrialRecord  # noqa: E402

_TRIALS = (3, 6, 12)
_GOAL = 0.05
_FAR_APART = 1.5
"""A half of the loop that takes so much longer than the other binds it."""
_RANGE_95 = 1.96


@dataclass(frozen=True)
class Errors:
    """What one fit got wrong on the configs that it was not shown."""

    mean: float
    most: float
    """Largest."""
    inside: float
    """Share of the truths inside the stated 95% range."""


def errors(world: World, trials: int, seed: int) -> Errors | None:
    """Return the errors after the baseline and some trials by chance; None where none is left to predict."""
    chance = random.Random(f"{world.name} {trials} {seed}")
    baseline = world.baseline.config
    others = [config for config in world.truth if config != baseline]
    shown = chance.sample(others, min(trials, len(others)))
    records = [world.baseline]
    records += [world.draw(config, chance, number) for number, config in enumerate(shown, 1)]
    left = [config for config in others if config not in set(shown)]
    if not left:
        return None
    assert world.baseline.measurement is not None
    loop = world.baseline.measurement.loop
    model = ThroughputModel(
        observations(records), world.host.cpus, loop.device.type == "cpu", loop.epoch_samples
    )
    predicted = model.predict(left)
    # A grid's truth is of all ranks, a prediction of one.
    off = predicted.log_rate - np.log([world.truth[config] / loop.world_size for config in left])
    wrong = np.abs(np.expm1(off))
    inside = np.abs(off) <= _RANGE_95 * predicted.deviation
    return Errors(float(wrong.mean()), float(wrong.max()), float(inside.mean()))


def bound_by(baseline: TrialRecord) -> str:
    """Return which half of the baseline takes longer alone: "loader", "training", "both" or "n/a"."""
    details = baseline.measurement.details if baseline.measurement else None
    isolated = details.floors if details else None
    if isolated is None or isolated.loader_step_s is None or isolated.compute_step_s is None:
        return "n/a"
    ahead = math.log(isolated.loader_step_s / isolated.compute_step_s)
    if abs(ahead) < math.log(_FAR_APART):
        return "both"
    return "loader" if ahead > 0 else "training"


def table(title: str, worlds: Sequence[World], seeds: int, has_goal: bool) -> None:
    """Print one table."""
    print(f"\n{title}")
    print("| trials | mean error | largest error | inside the 95% range | goal: 5% after 12 |")
    print("|---|---|---|---|---|")
    for trials in _TRIALS:
        found = [errors(world, trials, seed) for world in worlds for seed in range(seeds)]
        seen = [one for one in found if one is not None]
        if not seen:
            print(f"| {trials} | n/a | n/a | n/a | n/a |")
            continue
        mean = float(np.mean([one.mean for one in seen]))
        goal = ""
        if has_goal and trials == max(_TRIALS):
            goal = "met" if mean <= _GOAL else "missed"
        print(
            f"| {trials} | {mean:.1%} | {np.mean([one.most for one in seen]):.1%} "
            f"| {np.mean([one.inside for one in seen]):.1%} | {goal} |",
            flush=True,
        )


def main() -> None:
    """Fit, predict and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--grids", nargs="*", default=None, help="names of recorded grids; all by default")
    parser.add_argument("--worlds", type=int, default=40, help="random worlds")
    parser.add_argument("--first-world", type=int, default=0, metavar="SEED")
    parser.add_argument("--seeds", type=int, default=10, help="draws of each grid; of a random world one")
    options = parser.parse_args()
    recorded = sorted(path.name.split(".")[0] for path in GRIDS_FOLDER.glob("*.jsonl.gz"))
    print(f"`{shlex.join(['python', 'benchmarks/model_error.py', *sys.argv[1:]])}`")
    for name in recorded if options.grids is None else options.grids:
        grid = Grid(name)
        bound = bound_by(grid.baseline)
        title = f"{name}: {len(grid.truth)} configs, A/A {grid.floor:.1%}, bound by: {bound}"
        table(title, [grid], options.seeds, has_goal=bound in ("loader", "training"))
    if options.worlds:
        seeds = range(options.first_world, options.first_world + options.worlds)
        worlds = [RandomWorld(seed) for seed in seeds]
        table(f"{options.worlds} random worlds, from seed {seeds[0]}", worlds, 1, has_goal=False)


if __name__ == "__main__":
    main()
