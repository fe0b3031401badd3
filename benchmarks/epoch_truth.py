"""Whether the stated epoch time is that of whole epochs run for real, and ranks configs as they do.

    python benchmarks/epoch_truth.py [--rounds 3] [--epochs 5] [--samples 2000]

A small data set, where epoch boundaries weigh most: for each config a trial states the epoch time, and the
same script, alone, times whole epochs (its first, which starts everything, left out). Interleaved; the spread
of the real runs (A/A) stands beside it, and what steady steps alone would have said. Goal: every config
within that floor or 3%, whichever is more, and the configs ranked as the whole epochs rank them, but for
those that are closer than the floor; a miss ends with status 1.
"""

import argparse
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean, median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from real_trials_of import measured, run_script  # noqa: E402

from tunekit.recommend.noise import noise_floor  # noqa: E402

_SCRIPT = Path(__file__).with_name("small_net.py")
_CONFIGS = {
    "no workers": [],
    "1 worker": ["--workers", "1"],
    "1 worker, persistent": ["--workers", "1", "--persistent"],
    "2 workers": ["--workers", "2"],
    "2 workers, persistent": ["--workers", "2", "--persistent"],
    "2 workers, batch 128": ["--workers", "2", "--batch-size", "128"],
}
_TOLERANCE = 0.03


def real_epoch_s(words: list[str], epochs: int) -> float:
    """Return the median seconds of whole epochs that the script timed by itself, the first left out."""
    command = [sys.executable, str(_SCRIPT), *words, "--epochs", str(epochs + 1)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return median([float(line) for line in done.stdout.split()][1:])


def is_within(true_s: float, told_s: float, floor: float) -> bool:
    """Return whether a stated epoch time is as near as the goal asks.

    Args:
        true_s: of whole epochs.
        told_s: as stated.
        floor: relative difference between runs of the same config.
    """
    return abs(told_s / true_s - 1) <= max(floor, _TOLERANCE)


def ranked_otherwise(
    true_s: dict[str, float], told_s: dict[str, float], floors: dict[str, float]
) -> list[tuple[str, str]]:
    """Return pairs of configs, the truly faster one first, that are stated the other way round.

    Those whose true times are no further apart than the larger of their floors have no order to be stated.
    """
    return [
        (one, other)
        for one in true_s
        for other in true_s
        if true_s[other] / true_s[one] - 1 > max(floors[one], floors[other]) and told_s[one] >= told_s[other]
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=5, help="whole epochs of each real run")
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--window", type=float, default=3.0, metavar="S")
    options = parser.parse_args()
    real: dict[str, list[float]] = {name: [] for name in _CONFIGS}
    stated: dict[str, list[float]] = {name: [] for name in _CONFIGS}
    steady: dict[str, list[float]] = {name: [] for name in _CONFIGS}
    for number in range(options.rounds):
        for name, flags in list(_CONFIGS.items())[:: 1 if number % 2 == 0 else -1]:
            words = [*flags, "--samples", str(options.samples)]
            real[name].append(real_epoch_s(words, options.epochs))
            with tempfile.TemporaryDirectory() as scratch:
                loop = measured(run_script(_SCRIPT, words, Path(scratch), options.window)).loop
            stated[name].append(loop.epoch_time_s or 0.0)
            steady[name].append((loop.epoch_samples or 0) * loop.steady_time_s / loop.steady_samples)
    is_met = tell(real, stated, steady)
    print(f"`{shlex.join(['python', 'benchmarks/epoch_truth.py', *sys.argv[1:]])}`")
    sys.exit(not is_met)


def tell(
    real: dict[str, list[float]], stated: dict[str, list[float]], steady: dict[str, list[float]]
) -> bool:
    """Print each config's row, the rankings and the goal; returns whether it was met."""
    print("| config | whole epochs | stated | off by | steady steps alone | A/A of the real runs | goal |")
    print("|---|---|---|---|---|---|---|")
    true_s = {name: fmean(times) for name, times in real.items()}
    told_s = {name: fmean(times) for name, times in stated.items()}
    floors, near = {}, {}
    for name, true in true_s.items():
        floor = noise_floor([1 / seconds for seconds in real[name]])
        floors[name] = floor.relative if floor else 0.0
        near[name] = is_within(true, told_s[name], floors[name])
        print(
            f"| {name} | {true:.3f} s | {told_s[name]:.3f} s | {told_s[name] / true - 1:+.1%} "
            f"| {fmean(steady[name]) / true - 1:+.1%} | {f'{floor.relative:.1%}' if floor else 'n/a'} "
            f"| {'yes' if near[name] else 'no'} |"
        )
    wrong = ranked_otherwise(true_s, told_s, floors)
    print(f"\nranking by whole epochs: {'; '.join(sorted(true_s, key=lambda name: true_s[name]))}")
    print(f"as stated: {'; '.join(sorted(told_s, key=lambda name: told_s[name]))}")
    for one, other in wrong:
        print(f"stated the other way round: {one} before {other}")
    is_met = all(near.values()) and not wrong
    print(f"goal, within the floor or {_TOLERANCE:.0%} and ranked alike: {'met' if is_met else 'missed'}")
    return is_met


if __name__ == "__main__":
    main()
