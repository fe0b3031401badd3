"""What does a search gain on each built-in workload at a middle size?

    python benchmarks/workloads.py [--only NAME ...] [--budget 8m] [--runs FOLDER]

Each is searched once, one after the other; a run that the folder has already is only read. Prints the table
of docs/workloads.md.
"""

import argparse
import platform
import shlex
import subprocess
import sys
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tunekit.report.bottleneck import bottleneck_text  # noqa: E402
from tunekit.report.text import config_text  # noqa: E402
from tunekit.session.folder import load_run  # noqa: E402

SAMPLES = {"images": 8_000, "ppg": 500_000, "spectrograms": 1_000, "text": 60_000, "records": 60_000}
COLUMNS = ("name", "samples", "own config", "answer", "speedup (95% range)", "bottleneck", "data check")


def row(name: str, folder: Path, budget: str) -> tuple[str, ...]:
    """Search a workload unless the folder has its run, and return its row of the table."""
    if not folder.exists():
        command = ["search", "--workload", name, "--budget", budget, "--out", str(folder)]
        words = [sys.executable, "-m", "tunekit", *command, "--", "--samples", str(SAMPLES[name])]
        subprocess.run(words, check=True, cwd=ROOT)
    run = load_run(folder)
    best = next((tier for tier in run.recommendations if tier.tier is run.outcome.tier), None)
    gain = best.speedup if best and not best.is_baseline else None
    return (
        f"`{name}`",
        f"{SAMPLES[name]:,}",
        config_text(run.baseline_config) if run.baseline_config else "n/a",
        f"{run.outcome.word}: {config_text(best.config) if best and gain else 'own config'}",
        f"{gain.value:.2f}x ({gain.low:.2f}-{gain.high:.2f})" if gain else "n/a",
        bottleneck_text(run).removeprefix("Bottleneck: ") or "n/a",
        best.data_check.verdict if best and best.data_check else "n/a",
    )


def main() -> None:
    """Search and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", default=list(SAMPLES), choices=SAMPLES, metavar="NAME")
    parser.add_argument("--budget", default="8m")
    parser.add_argument("--runs", type=Path, default=ROOT / "reports/workloads")
    options = parser.parse_args()
    rows = [row(name, options.runs / name, options.budget) for name in options.only]
    for cells in (COLUMNS, ("---",) * len(COLUMNS), *rows):
        print(f"| {' | '.join(cells)} |")
    print(f"\n{platform.machine()}, {psutil.cpu_count()} CPUs, {platform.python_version()}")
    print(f"`{shlex.join(['python', 'benchmarks/workloads.py', *sys.argv[1:]])}`")


if __name__ == "__main__":
    main()
