"""Do many hosts that share a search lose or repeat a trial when some are killed, and does it get slower?

    python benchmarks/shared_search.py PLACE [--workers 64] [--trials 10000] [--kills 40] [--trial-s 6]

PLACE is what `--share` takes: an empty folder, or the address of an empty PostgreSQL database. Each worker
(tests/shared_workers.py) is a process that joins the search and then, as a host does, looks at what is
finished and what runs, claims the first config of a long list that nobody has, is busy for a while in place
of a training, and leaves a record. One that is killed (kill -9, at any moment) is replaced by a new one.

Printed: trials that a worker was told were kept and that are not there, and configs that nobody has tried
(lost); configs with two records (doubled); and the seconds a trial that workers spent in the storage's
calls, in the first, the middle and the last thousand trials: by the clock, which grows with what waits for a
lock and for a CPU, and of the CPU. What one that joins has to read of the trials before it stands apart.
"""

import argparse
import shlex
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from shared_workers import Note, Work, notes_in, search_with_kills  # noqa: E402

from tunekit.tune.shared.leases import USUAL_PACE  # noqa: E402

_WINDOW = 1000
"""Trials of one figure."""


def main() -> None:
    """Search and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("place", help="an empty folder, or postgresql://USER@HOST/DATABASE")
    parser.add_argument("--workers", type=int, default=64)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--kills", type=int, default=40)
    parser.add_argument("--trial-s", type=float, default=6.0, help="seconds of a trial, on average")
    options = parser.parse_args()
    print(f"`{shlex.join(['python', 'benchmarks/shared_search.py', *sys.argv[1:]])}`\n", flush=True)
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        work = Work(options.place, options.trials, options.trial_s, USUAL_PACE, Path(folder))
        found = search_with_kills(work, options.workers, options.kills)
        notes = list(notes_in(work.notes))
    took_min = (time.monotonic() - began) / 60
    print(
        f"{options.workers} workers, {found.killed} killed, {took_min:.0f} minutes; {found.kept:,} records: "
        f"{found.lost} lost, {found.doubled} doubled.\n"
        f"Records that were refused, as their lease was lost: {found.refused}; claims a trial that another "
        f"was faster with: {found.collisions / found.kept:.2f}.\n"
    )
    print("| | s in the storage, median | 90th percentile | CPU s, median | 90th percentile |")
    print("|---|---|---|---|---|")
    trials = sorted((note for note in notes if note.kind == "kept"), key=lambda one: one.number)
    middle = max(0, (len(trials) - _WINDOW) // 2)
    for name, first in (("first", 0), ("middle", middle), ("last", max(0, len(trials) - _WINDOW))):
        _row(f"a trial of the {name} {_WINDOW:,}", trials[first : first + _WINDOW])
    joins = sorted((note for note in notes if note.kind == "join"), key=lambda one: one.number)
    tenth = max(1, len(joins) // 10)
    _row("joining at the start", joins[:tenth])
    _row(f"joining after {joins[-tenth].number:,} trials and more", joins[-tenth:])


def _row(name: str, notes: Sequence[Note]) -> None:
    figures = [
        f"{np.percentile([getattr(one, what) for one in notes], place):.3f}"
        for what in ("wall_s", "cpu_s")
        for place in (50, 90)
    ]
    print(f"| {name} | {' | '.join(figures)} |", flush=True)


if __name__ == "__main__":
    main()
