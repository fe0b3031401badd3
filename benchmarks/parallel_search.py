"""What do more hosts gain: how long until the best is found, and what it costs in trial-seconds?

    python benchmarks/parallel_search.py [--seeds 20] [--worlds 40] [--hosts 4 16] [--without-belief]

The worlds of `search_efficiency.py`, on a simulated clock: one host measures the script as it is, then each
free host takes the model's proposal beside what the others are measuring, and hands in its record when the
trial's seconds are over. The search is there once the fastest trial that has ended is truly within max(3%,
noise floor) of the best. Printed: seconds by the clock and trial-seconds of all hosts until then, and the
speed-up over one host beside the ideal: the trials of one host shared out evenly, but neither the baseline
nor the trial that found the best is cut. With `--without-belief` pending configs are left out, but nothing is
believed of them.
"""

import argparse
import heapq
import random
import shlex
import sys
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from grid import GRIDS_FOLDER, Grid
from random_world import RandomWorld
from search_efficiency import World

from tunekit.records.config import TrainConfig
from tunekit.records.trial import TrialRecord
from tunekit.tune import acquisition
from tunekit.tune.acquisition import Acquisition

_TOLERANCE = 0.03
_MAX_TRIALS = 300
_NEVER = 2.0
"""Chance that no trial has."""


class Raced(NamedTuple):
    """One search, until the best was found."""

    wall_s: float
    trial_s: float
    trials: int
    baseline_s: float
    last_s: float
    """Of the trial that ended it."""
    is_found: bool


class Ending(NamedTuple):
    """A trial that runs; the first to end comes first."""

    at_s: float
    number: int
    began_s: float
    record: TrialRecord


def search(guided: Acquisition, world: World, hosts: int, seed: int) -> Raced:
    """Search with some hosts at once."""
    chance = random.Random(f"{world.name} {seed}")
    good = max(world.truth.values()) / (1 + max(_TOLERANCE, world.floor))
    now_s = baseline_s = world.baseline.duration_s
    records, running = [world.baseline], list[Ending]()
    begun, is_over = 1, False
    while not is_over:
        while len(running) < hosts and begun < _MAX_TRIALS:
            pending = [config for one in running if (config := one.record.config)]
            proposal = guided.propose(records, pending=pending)
            if proposal is None:
                break
            record = world.draw(proposal.config, chance, begun)
            heapq.heappush(running, Ending(now_s + record.duration_s, begun, now_s, record))
            begun += 1
        if not running:
            break
        ended = heapq.heappop(running)
        now_s = ended.at_s
        records.append(ended.record)
        best = max(records, key=lambda one: one.rate_samples_per_s or 0.0)
        is_over = is_good(best.config, world, good)
    spent_s = sum(one.duration_s for one in records) + sum(now_s - one.began_s for one in running)
    return Raced(now_s, spent_s, len(records), baseline_s, records[-1].duration_s, is_over)


def ideal_s(alone: Raced, hosts: int) -> float:
    """Return how soon so many hosts could have ended the search of one."""
    if alone.trials == 1:
        return alone.wall_s
    return alone.baseline_s + max(alone.last_s, (alone.wall_s - alone.baseline_s) / hosts)


def is_good(config: TrainConfig | None, world: World, good: float) -> bool:
    """Return whether a config truly gives as much as is good."""
    return config is not None and world.truth.get(config, 0.0) >= good


def raced(title: str, worlds: Sequence[World], host_counts: Sequence[int], seeds: int) -> None:
    """Race and print one table."""
    rows: dict[int, list[Raced]] = {hosts: [] for hosts in host_counts}
    for world in worlds:
        guided = Acquisition(world.space, world.host)
        for seed in range(seeds if len(worlds) == 1 else max(1, seeds // len(worlds))):
            for hosts in host_counts:
                rows[hosts].append(search(guided, world, hosts, seed))
    alone = rows[1]
    print(f"\n{title}\n")
    print("| hosts | s to the best | 90th percentile | speed-up | ideal | trial-s | trials | found |")
    print("|---|---|---|---|---|---|---|---|")
    for hosts, ran in rows.items():
        wall_s = np.array([one.wall_s for one in ran])
        alone_s = np.mean([one.wall_s for one in alone])
        ideal = alone_s / np.mean([ideal_s(one, hosts) for one in alone])
        print(
            f"| {hosts} | {wall_s.mean():.0f} | {np.percentile(wall_s, 90):.0f} "
            f"| {alone_s / wall_s.mean():.2f} | {ideal:.2f} "
            f"| {np.mean([one.trial_s for one in ran]):.0f} | {np.mean([one.trials for one in ran]):.1f} "
            f"| {np.mean([one.is_found for one in ran]):.0%} |",
            flush=True,
        )


def main() -> None:
    """Race and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--worlds", type=int, default=40, help="random worlds")
    parser.add_argument("--hosts", nargs="+", type=int, default=[4, 16], help="beside one")
    parser.add_argument("--grids", nargs="*", default=None, help="names of recorded grids; all by default")
    parser.add_argument("--without-belief", action="store_true", help="leave pending configs out, no more")
    options = parser.parse_args()
    if options.without_belief:
        acquisition._LIKELY = _NEVER
    recorded = sorted(path.name.split(".")[0] for path in GRIDS_FOLDER.glob("*.jsonl.gz"))
    print(f"`{shlex.join(['python', 'benchmarks/parallel_search.py', *sys.argv[1:]])}`")
    host_counts = (1, *options.hosts)
    for name in recorded if options.grids is None else options.grids:
        raced(name, [Grid(name)], host_counts, options.seeds)
    if options.worlds:
        worlds = [RandomWorld(seed) for seed in range(options.worlds)]
        raced(f"{options.worlds} random worlds", worlds, host_counts, options.seeds)


if __name__ == "__main__":
    main()
