"""What the data check adds to a trial, and whether the steady rate feels it, on six loops.

    python benchmarks/data_check_cost.py [--rounds 3]

Each round runs a trial without the look at the samples, with it, and without it again. Printed: the seconds
that it adds and their share of the trial, and the steady rates of the second and third run over the first's.
"""

import argparse
import shlex
import sys
import tempfile
from pathlib import Path
from statistics import geometric_mean, median

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from real_trials_of import measured, run_script  # noqa: E402

from tunekit.records.details import Detail  # noqa: E402

LOOPS = {
    "waits for storage": ["classic_loops.py", "latency", "--workers", "4"],
    "decodes": ["classic_loops.py", "decode", "--workers", "1"],
    "stream": ["classic_loops.py", "stream", "--workers", "2"],
    "text of any length": ["classic_loops.py", "padding"],
    "convolution": ["classic_loops.py", "convolution"],
    "in memory": ["classic_loops.py", "tiny", "--batch-size", "128"],
}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print("| loop | seconds added | of the trial | rate, with / without | A/A |\n|---|---|---|---|---|")
    for name, (script, *words) in LOOPS.items():
        added, shares, ratios, same = [], [], [], []
        for _ in range(options.rounds):
            with tempfile.TemporaryDirectory() as folder:
                trials = [
                    run_script(ROOT / "benchmarks" / script, words, Path(folder) / str(place), 2.0, details)
                    for place, details in enumerate(((), (Detail.DATA,), ()))
                ]
            rates = [measured(one).rate_samples_per_s for one in trials]
            added.append(trials[1].duration_s - (trials[0].duration_s + trials[2].duration_s) / 2)
            shares.append(added[-1] / trials[1].duration_s)
            ratios.append(rates[1] / rates[0])
            same.append(rates[2] / rates[0])
        print(
            f"| {name} | {median(added):.1f} | {median(shares):.0%} | {geometric_mean(ratios):.3f} | "
            f"{geometric_mean(same):.3f} |",
            flush=True,
        )
    print(f"\n`{shlex.join(['python', 'benchmarks/data_check_cost.py', *sys.argv[1:]])}`")


if __name__ == "__main__":
    main()
