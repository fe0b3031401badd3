"""Whether intervals over real processes hold: five fresh processes, again and again, against far longer runs.

    python benchmarks/coverage.py [--repeats 20] [--processes 5] [--window 2]

Prints how often the 95% interval from five processes holds the rate of runs ten times as long, which are
spread among them; the intervals' median width; how often the interval of one process's own window holds it;
and how much fresh processes of this very config differ (A/A). Goal: as many of the 95% intervals hold it as
right ones would in 98 of 100 such benchmarks, which is 17 of 20; a miss ends with status 1. Takes about
9 minutes; leave the machine alone meanwhile.
"""

import argparse
import math
import shlex
import sys
import tempfile
from pathlib import Path
from statistics import fmean, median

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from real_trials_of import measured, run_script  # noqa: E402

from tunekit.recommend.noise import mean_interval, noise_floor  # noqa: E402
from tunekit.records.measurement import LoopMeasurement  # noqa: E402

_SCRIPT = Path(__file__).with_name("small_net.py")
_LONGER = 10
_COVERAGE, _CHANCE = 0.95, 0.98


def min_held(repeats: int) -> int:
    """Return how many of some right 95% intervals hold the truth at least, in 98 of 100 such benchmarks."""
    fewer = 0.0
    for held in range(repeats + 1):
        fewer += math.comb(repeats, held) * _COVERAGE**held * (1 - _COVERAGE) ** (repeats - held)
        if fewer > 1 - _CHANCE:
            return held
    return repeats


def one_process(window_s: float) -> LoopMeasurement:
    """Return what one fresh process measured."""
    with tempfile.TemporaryDirectory() as scratch:
        return measured(run_script(_SCRIPT, ["--workers", "1"], Path(scratch), window_s)).loop


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--window", type=float, default=2.0, metavar="S")
    parser.add_argument("--long-runs", type=int, default=5)
    options = parser.parse_args()
    every = max(1, options.repeats // options.long_runs)
    repeats: list[list[LoopMeasurement]] = []
    long_rates: list[float] = []
    for number in range(options.repeats):
        repeats.append([one_process(options.window) for _ in range(options.processes)])
        if number % every == every // 2:
            long_rates.append(one_process(_LONGER * options.window).rate_samples_per_s)
        print(f"{number + 1} of {options.repeats}", end="\r", file=sys.stderr, flush=True)
    truth = math.exp(fmean(math.log(rate) for rate in long_rates))
    rates = [[loop.rate_samples_per_s for loop in loops] for loops in repeats]
    intervals = [mean_interval(one) for one in rates]
    held = sum(one.low <= truth <= one.high for one in intervals)
    widths = [(one.high - one.low) / 2 / one.value for one in intervals]
    alone = [loop for loops in repeats for loop in loops if loop.rate_interval_relative is not None]
    alone_held = sum(
        abs(loop.rate_samples_per_s / truth - 1) <= (loop.rate_interval_relative or 0.0) for loop in alone
    )
    off = [abs(fmean(one) / truth - 1) for one in rates]
    floor = noise_floor([rate for one in rates for rate in one])
    long_spread = (max(long_rates) - min(long_rates)) / truth
    several = f"{options.processes} processes"
    print(f"| intervals of {several} that hold the long runs' rate | {held} of {len(rates)} |")
    print("|---|---|")
    print(f"| their median half width | {median(widths):.1%} |")
    print(f"| means of {several} off by, median and most | {median(off):.1%}, {max(off):.1%} |")
    print(f"| intervals of one process's own window that hold it | {alone_held} of {len(alone)} |")
    print(f"| A/A floor of these processes | {floor.relative:.1%} |" if floor else "| A/A floor | n/a |")
    print(f"| the {len(long_rates)} long runs differ by | {long_spread:.1%} |")
    least = min_held(len(rates))
    verdict = "met" if held >= least else "missed"
    print(f"\ngoal, at least {least} of {len(rates)} intervals hold it: {verdict}")
    print(f"`{shlex.join(['python', 'benchmarks/coverage.py', *sys.argv[1:]])}`")
    sys.exit(held < least)


if __name__ == "__main__":
    main()
