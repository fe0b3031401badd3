"""Does `tunekit search` help public training scripts, as they are, and does a plain stopwatch agree?

    python benchmarks/public_scripts.py --mirrors DIR --python PYTHON [--only NAME ...] [--budget 8m]
    python benchmarks/public_scripts.py --try 45 --mirrors DIR --python PYTHON    # whether each script starts
    python benchmarks/public_scripts.py --table

Each script of `public_scripts/scripts.csv` is checked out at its commit, gets synthetic data and is searched.
Every file's checksum is compared before and after. A confirmed answer is then timed without tunekit's own
measurements: the command as it is and by `tunekit run`, in turns, by the progress that the script prints.
Only time within epochs counts. One line of JSON a script goes into the results, and a script that is there
already is skipped.
"""

import argparse
import csv
import hashlib
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import geometric_mean
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tunekit.report.text import config_text  # noqa: E402
from tunekit.session.folder import load_run  # noqa: E402

FOLDER = Path(__file__).with_suffix("")
TUNEKIT = (sys.executable, "-m", "tunekit")
ANSWER_S = 15 * 60.0
WORTH = 1.2
START_S = 300.0
"""The longest that a script may take beside the seconds that are watched."""
MARKS = 4
"""The least signs of progress that are watched."""

Row = dict[str, str]


def words_of(command: str, python: str) -> list[str]:
    """Return the words of a command of the table."""
    return shlex.split(command.format(python=python))


def check_out(row: Row, into: Path, mirrors: Path | None, python: str) -> None:
    """Fill a folder with the script's repository at its commit and with its data."""
    mirror = mirrors / row["repository"].replace("/", "+") / "repo" if mirrors else None
    source = str(mirror) if mirror else f"https://github.com/{row['repository']}"
    subprocess.run(["git", "clone", "--quiet", "--no-checkout", source, str(into)], check=True)
    subprocess.run(["git", "checkout", "--quiet", row["commit"]], check=True, cwd=into)
    for one in row["data"].split():
        folder, kind = one.split("=")
        make = [python, str(FOLDER / "synthetic_data.py"), kind, str(into / folder)]
        subprocess.run(make, check=True)
    if row["prepare"]:
        subprocess.run(words_of(row["prepare"], python), check=True, cwd=into / row["folder"])


def checksums(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder, by its path."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file() and not path.is_symlink()
    }


def stopwatch(row: Row, command: list[str], folder: Path, seconds: float) -> tuple[float, str]:
    """Return what a command does per second, in the unit of its row, and the end of what it prints.

    Args:
        row: says how the script prints its progress.
        command: to run.
        folder: where.
        seconds: to watch from the first sign of progress on; the first quarter counts for slow scripts only.
    """
    child = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    last_end = threading.Timer(START_S + seconds, os.killpg, (child.pid, signal.SIGKILL))
    last_end.start()
    marks: list[tuple[float, int]] = []
    tail, rest = b"", b""
    assert child.stdout is not None
    while chunk := os.read(child.stdout.fileno(), 1 << 16):
        now = time.monotonic()
        tail = (tail + chunk)[-2000:]
        *lines, rest = re.split(rb"[\r\n]", rest + chunk)
        for line in lines:
            if found := re.search(row["progress"], line.decode(errors="replace")):
                marks.append((now, int(found[1]) if found.re.groups else len(marks)))
        if len(marks) >= MARKS and now >= marks[0][0] + seconds:
            os.killpg(child.pid, signal.SIGKILL)
            break
    child.wait()
    last_end.cancel()
    child.stdout.close()
    counted = [mark for mark in marks if mark[0] >= marks[0][0] + seconds / 4]
    counted = counted if len(counted) > 2 else marks
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in itertools.pairwise(counted) if b[1] >= a[1]]
    took_s = sum(step[0] for step in steps)
    return (sum(step[1] for step in steps) / took_s if took_s else 0.0), tail.decode(errors="replace")


def searched(row: Row, checkout: Path, run_folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Return what `tunekit search` answers for a script that is checked out, and what it changed on disk."""
    command, folder = words_of(row["command"], options.python), checkout / row["folder"]
    before = checksums(checkout)
    search = [*TUNEKIT, "search", "--gpu", options.gpu, "--budget", options.budget, "--out", str(run_folder)]
    began = time.monotonic()
    done = subprocess.run(
        [*search, "--", *command], cwd=folder, capture_output=True, text=True, errors="replace", check=False
    )
    found: dict[str, Any] = {
        "name": row["name"],
        "search_s": round(time.monotonic() - began),
        "status": done.returncode,
        "changed": sorted({path for path, _ in before.items() ^ checksums(checkout).items()}),
        "traceback": "Traceback" in done.stderr,
    }
    if not (run_folder / "run.json").exists():
        return found | {"word": "none", "error": done.stderr[-1500:]}
    run = load_run(run_folder)
    best = next((tier for tier in run.recommendations if tier.tier is run.outcome.tier), None)
    failed = sum(trial.failure is not None for trial in run.trials)
    found |= {"word": run.outcome.word or "none", "trials": len(run.trials), "failed": failed}
    if best is None or best.speedup is None or best.is_baseline:
        return found | {"error": done.stdout[-1500:]}
    stated = best.speedup
    found |= {
        "config": config_text(best.config),
        "stated": [stated.low, stated.value, stated.high],
        "data_check": best.data_check.verdict if best.data_check else None,
    }
    if found["word"] == "Confirmed":
        tuned_yaml = str(run_folder / f"{best.tier}.yaml")
        tuned = [*TUNEKIT, "run", tuned_yaml, "--keep-lr", "--force", "--", *command]
        own_batch = run.baseline_config.batch_size if run.baseline_config else None
        grown = best.config.batch_size / own_batch if own_batch and row["unit"] == "steps" else 1.0
        rates = [
            [stopwatch(row, words, folder, options.seconds)[0] for words in (command, tuned)]
            for _ in range(options.rounds)
        ]
        found["stopwatch"] = [grown * fast / slow if slow else 0.0 for slow, fast in rates]
    return found


def table(results: list[dict[str, Any]], rows: list[Row]) -> str:
    """Return the results as Markdown, with links to the scripts and the totals."""
    link = "https://github.com/{repository}/tree/{commit:.12}/{folder}"
    links = {row["name"]: link.format(**row) for row in rows}
    columns = ("script", "minutes", "answer", "stated", "stopwatch", "data check")
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    totals = dict.fromkeys(("answers", "worth", "timed", "repeated", "same", "changed"), 0)
    for one in results:
        low, value, high = one.get("stated", (0.0, 0.0, 0.0))
        plain = geometric_mean(one["stopwatch"]) if all(one.get("stopwatch", [0.0])) else 0.0
        totals["answers"] += one["word"] != "none" and one["search_s"] <= ANSWER_S
        totals["worth"] += one["word"] == "Confirmed" and value >= WORTH
        totals["timed"] += plain > 0
        totals["repeated"] += low <= plain <= high and plain > 0
        totals["same"] += one.get("data_check") == "same"
        totals["changed"] += len(one["changed"])
        cells = (
            f"[{one['name']}]({links[one['name']].rstrip('/')})",
            f"{one['search_s'] / 60:.1f}",
            f"{one['word']}: {one['config']}" if value else one["word"],
            f"{value:.2f}x ({low:.2f}-{high:.2f})" if value else "n/a",
            f"{plain:.2f}x" if plain else "n/a",
            one.get("data_check") or "n/a",
        )
        lines.append(f"| {' | '.join(cells)} |")
    summary = (
        "{answers} answers within 15 minutes, {worth} Confirmed at 1.2x or more, {repeated} of {timed} "
        "repeated within the range by a stopwatch, {same} data checks passed, {changed} files changed"
    )
    return "\n".join((*lines, "", f"{len(results)} scripts: {summary.format(**totals)}"))


def main() -> None:
    """Try, search or print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the scripts")
    parser.add_argument("--mirrors", type=Path, help="folder of OWNER+NAME/repo (default: GitHub)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="scripts (default: all)")
    parser.add_argument("--gpu", default="auto")
    parser.add_argument("--budget", default="8m")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the stopwatch")
    parser.add_argument("--rounds", type=int, default=2, help="of the stopwatch")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks/results/public_scripts.jsonl")
    parser.add_argument("--try", dest="try_s", type=float, metavar="S", help="only start each script")
    parser.add_argument("--table", action="store_true", help="only print the results")
    options = parser.parse_args()
    lines = options.results.read_text().splitlines() if options.results.exists() else []
    results = [json.loads(line) for line in lines]
    rows = list(csv.DictReader((FOLDER / "scripts.csv").open()))
    is_done = set() if options.try_s else {one["name"] for one in results}
    for row in rows if not options.table else ():
        if row["name"] in is_done or row["name"] not in (options.only or [row["name"]]):
            continue
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
            checkout = Path(scratch) / row["repository"].split("/")[1]
            os.environ |= {"PYTHONPATH": str(checkout), "PYTHONUNBUFFERED": "1", "WANDB_MODE": "offline"}
            check_out(row, checkout, options.mirrors, options.python)
            if options.try_s:
                words = words_of(row["command"], options.python)
                rate, tail = stopwatch(row, words, checkout / row["folder"], options.try_s)
                print(f"{row['name']}: {rate:.4g} {row['unit']}/s", *([] if rate else [tail]), flush=True)
                continue
            results.append(searched(row, checkout, Path(scratch) / "run", options))
        options.results.parent.mkdir(parents=True, exist_ok=True)
        with options.results.open("a") as file:
            file.write(json.dumps(results[-1]) + "\n")
        print(json.dumps(results[-1]), flush=True)
    if not options.try_s:
        print(table(results, rows))
        print(f"`{shlex.join(['python', 'benchmarks/public_scripts.py', *sys.argv[1:]])}`")


if __name__ == "__main__":
    main()
