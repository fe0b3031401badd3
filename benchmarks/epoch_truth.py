"""Whether the stated epoch time is that of whole epochs run for real, and ranks configs as they do.

    python benchmarks/epoch_truth.py [--rounds 3] [--epochs 5] [--samples 2000]

A small data set, where epoch boundaries weigh most: for each config a trial states the epoch time, and the
same script, alone, times whole epochs (its first, which starts everything, left out). Interleaved; the spread
of the real runs stands beside it, and what steady steps alone would have said.
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


def real_epoch_s(words: list[str], epochs: int) -> float:
    """Return the median seconds of whole epochs that the script timed by itself, the first left out."""
    command = [sys.executable, str(_SCRIPT), *words, "--epochs", str(epochs + 1)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return median([float(line) for line in done.stdout.split()][1:])


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
    print("| config | whole epochs | stated | off by | steady steps alone | A/A of the real runs |")
    print("|---|---|---|---|---|---|")
    for name in _CONFIGS:
        true, told, plain = fmean(real[name]), fmean(stated[name]), fmean(steady[name])
        floor = noise_floor([1 / seconds for seconds in real[name]])
        print(
            f"| {name} | {true:.3f} s | {told:.3f} s | {told / true - 1:+.1%} | {plain / true - 1:+.1%} "
            f"| {floor.relative if floor else 0:.1%} |"
        )
    by_truth = sorted(_CONFIGS, key=lambda name: fmean(real[name]))
    by_told = sorted(_CONFIGS, key=lambda name: fmean(stated[name]))
    print(f"\nranking by whole epochs: {'; '.join(by_truth)}")
    print(f"as stated: {'the same' if by_truth == by_told else '; '.join(by_told)}")
    print(f"`{shlex.join(['python', 'benchmarks/epoch_truth.py', *sys.argv[1:]])}`")


if __name__ == "__main__":
    main()
