"""Does a search find what a plain stopwatch says is best, in loops that everybody knows?

    python benchmarks/classics.py [--kinds latency decode] [--budgets 150s 8m] [--repeats 3] [--rivals]

For each kind of `classic_loops.py`: the settings that its cause calls for are run plainly, and the fastest is
the best there is. `tunekit search` has the budget; what it answers is run by `tunekit run`, beside the best
and the script as it is, in turns, by the script's own stopwatch. With --rivals Optuna's TPE and a coordinate
search (double the batch while it helps, then workers, bf16 and compile) have the same time. Printed:
the share of the best's rate that each gets, in the median over the repeats.
"""

import argparse
import itertools
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

import optuna
from classic_loops import KINDS

ROOT = Path(__file__).resolve().parents[1]
LOOP = [sys.executable, str(ROOT / "benchmarks" / "classic_loops.py")]
SECONDS = 8.0
BATCHES, WORKERS = (8, 16, 32, 64, 128, 256, 512), (0, 1, 2, 4, 8, 16, 32)
MANY = [{"workers": count, "batch_size": batch} for count in (8, 16, 32) for batch in (32, 128)]
LARGE = [{"batch_size": batch, "bf16": bf16} for batch in (32, 128, 512) for bf16 in (False, True)]
FEW = [{"workers": count} for count in (1, 2, 4)]
CURES = {
    "latency": MANY,
    "stream": MANY,
    "bandwidth": [{"workers": count} for count in (4, 8, 16)],
    "decode": FEW,
    "lock": FEW,
    "collate": [*({"batch_size": 512, "workers": count} for count in (0, 1, 2)), *MANY],
    "opened_late": [{"workers": count, "persistent": True} for count in (1, 4, 16)],
    "cache": [{}],
    "worker_memory": [{"workers": count, "persistent": True} for count in (2, 4, 8)],
    "tiny": [{"batch_size": batch, "workers": count} for batch in (128, 512) for count in (0, 1)],
    "convolution": LARGE,
    "transformer": LARGE,
    "padding": LARGE,
    "wide": [{}, {"bf16": True}],
    "tuned": [{}, {"workers": 1}],
}
"""By kind, the settings among which the best one is."""

Settings = dict[str, int | bool]


def rate_of(kind: str, settings: Settings, before: tuple[str, ...] = ()) -> float:
    """Return samples/s by the script's own stopwatch; 0 where it fails.

    Args:
        kind: of the loop.
        settings: by the names of its options.
        before: words of a command that starts it.
    """
    words = [
        word
        for name, value in settings.items()
        for word in (
            [f"--{name.replace('_', '-')}"] if value is True else [f"--{name.replace('_', '-')}", str(value)]
        )
        if value is not False
    ]
    command = [*before, *LOOP, kind, "--seconds", str(SECONDS), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    found = re.search(r"([\d.]+) samples/s", done.stdout)
    return float(found[1]) if found else 0.0


def best_settings(kind: str) -> Settings:
    """Return the fastest settings for a kind by the stopwatch, and print all."""
    rates = [(rate_of(kind, one), one) for one in CURES[kind]]
    for rate, one in rates:
        print(f"  {rate:.0f} samples/s: {one or 'as it is'}", flush=True)
    return max(rates, key=lambda pair: pair[0])[1]


def answered(kind: str, budget: str, folder: Path) -> tuple[str, ...]:
    """Return the command with which the search's answer is trained; the empty one for the script as it is."""
    tunekit = (sys.executable, "-m", "tunekit")
    search = [*tunekit, "search", "--gpu", "cpu", "--budget", budget, "--out", str(folder), "--", *LOOP, kind]
    began = time.monotonic()
    done = subprocess.run(search, capture_output=True, text=True, check=False, cwd=folder.parent)
    answer = done.stdout.partition("\n\n")[2].strip().partition("\n\n")[0]
    print(
        f"  {budget}: {time.monotonic() - began:.0f} s\n    {answer.replace(chr(10), chr(10) + '    ')}",
        flush=True,
    )
    tier = re.search(r"tunekit run \S*/(\w+)\.yaml", done.stdout)
    if tier is None:
        return ()
    return (*tunekit, "run", str(folder / f"{tier[1]}.yaml"), "--keep-lr", "--force", "--")


def by_tpe(kind: str, until: float, seed: int) -> Settings:
    """Return the best of what Optuna's TPE tries in the time."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    while time.monotonic() < until:
        trial = study.ask()
        settings: Settings = {
            "batch_size": BATCHES[trial.suggest_int("batch_size", 0, len(BATCHES) - 1)],
            "workers": WORKERS[trial.suggest_int("workers", 0, len(WORKERS) - 1)],
            "bf16": trial.suggest_categorical("bf16", [False, True]),
            "compile": trial.suggest_categorical("compile", [False, True]),
        }
        trial.set_user_attr("settings", settings)
        study.tell(trial, rate_of(kind, settings))
    return study.best_trial.user_attrs["settings"]


def by_coordinate(kind: str, until: float) -> Settings:
    """Return where a coordinate search stands when its time is up."""
    now: Settings = {"batch_size": 32, "workers": 0} | KINDS[kind]
    best = rate_of(kind, now)
    for name, values in _coordinates(now):
        for value in values:
            if time.monotonic() > until:
                return now
            rate = rate_of(kind, now | {name: value})
            if rate <= 1.01 * best:
                break
            best, now = rate, now | {name: value}
    return now


def _coordinates(now: Settings) -> Iterator[tuple[str, tuple[int | bool, ...]]]:
    yield "batch_size", tuple(batch for batch in BATCHES if batch > now["batch_size"])
    yield "workers", tuple(count for count in WORKERS if count > now["workers"])
    yield "bf16", (True,)
    yield "compile", (True,)


def main() -> None:
    """Race and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=KINDS)
    parser.add_argument("--budgets", nargs="+", default=["150s", "8m"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--rivals", action="store_true")
    options = parser.parse_args()
    rows = []
    for kind in options.kinds:
        print(kind, flush=True)
        best = best_settings(kind)
        for budget in options.budgets:
            shares: dict[str, list[float]] = {}
            for repeat in range(options.repeats):
                with tempfile.TemporaryDirectory() as scratch:
                    chosen: dict[str, tuple[Settings, tuple[str, ...]]] = {
                        "best": (best, ()),
                        "as it is": ({}, ()),
                    }
                    began = time.monotonic()
                    chosen["tunekit"] = ({}, answered(kind, budget, Path(scratch) / "run"))
                    if options.rivals:
                        took_s = time.monotonic() - began
                        chosen["TPE"] = (by_tpe(kind, time.monotonic() + took_s, repeat), ())
                        chosen["coordinate"] = (by_coordinate(kind, time.monotonic() + took_s), ())
                    rates: dict[str, list[float]] = {name: [] for name in chosen}
                    for _, (name, (settings, before)) in itertools.product(
                        range(options.rounds), chosen.items()
                    ):
                        rates[name].append(rate_of(kind, settings, before))
                    for name, seen in rates.items():
                        shares.setdefault(name, []).append(median(seen) / max(median(rates["best"]), 1e-9))
            figures = ", ".join(f"{name} {median(seen):.0%}" for name, seen in shares.items())
            rows.append(f"| {kind} | {budget} | {best or 'as it is'} | {figures} |")
            print(rows[-1], flush=True)
    print("\n| loop | budget | best | share of the best's rate |\n|---|---|---|---|", *rows, sep="\n")
    print(f"`{shlex.join(['python', 'benchmarks/classics.py', *sys.argv[1:]])}`")


if __name__ == "__main__":
    main()
