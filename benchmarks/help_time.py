"""How long `tunekit --help` takes, beside an empty Python.

python benchmarks/help_time.py
"""

import subprocess
import sys
import time
from statistics import median

RUNS = 15


def median_s(command: list[str]) -> float:
    """Return the median wall time of a command in seconds, after one warm-up."""
    times = []
    for _ in range(RUNS + 1):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return median(times[1:])


if __name__ == "__main__":
    help_s = median_s([sys.executable, "-m", "tunekit", "--help"])
    empty_s = median_s([sys.executable, "-c", "pass"])
    print("$ python benchmarks/help_time.py")
    print(f"tunekit --help {help_s * 1000:.0f} ms, empty Python {empty_s * 1000:.0f} ms, medians of {RUNS}")
