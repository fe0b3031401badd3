"""What becomes of a user's files in a trial that writes in every way that trainings have.

    python benchmarks/ways_to_write.py [--sandbox overlay landlock none] [--only WAY ...]
                                       [--markdown FILE] [--keep]

The catalogue lies in tests/zoo/ways_to_write. Each way is run on planted files: as the script is, without
tunekit, and in a real trial under each sandbox; `none` leaves the agent's file guard alone. A cell says
`changed` when a file that was there is no longer what it was, `left` when a new one stays, and what the
script saw where that isn't what it wrote. --keep writes the table of known escapes that the tests hold.
"""

import argparse
import shlex
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from ways_trials import GUARD_ALONE, Outcome, planted, write_table  # noqa: E402

WITHOUT = "without tunekit"


def cell(outcome: Outcome | None) -> str:
    """Say in a few words what a way did."""
    if outcome is None:
        return ""
    words = ["changed"] * bool(outcome.changed) + ["left"] * bool(outcome.left)
    words += [] if outcome.told in ("worked", "at exit") else [f"({outcome.told})"]
    return " ".join(words) or "nothing"


def totals(outcomes: list[Outcome]) -> str:
    """Count the ways, and the files."""
    changing, leaving = ([o for o in outcomes if getattr(o, what)] for what in ("changed", "left"))
    refused = sum(o.told not in ("worked", "at exit", "unseen") for o in outcomes)
    return (
        f"{len(changing)} ways change old files ({sum(len(o.changed) for o in changing)}), "
        f"{len(leaving)} leave new ones ({sum(len(o.left) for o in leaving)}); {refused} are refused, "
        f"{sum(o.told == 'unseen' for o in outcomes)} don't see what they wrote"
    )


def table(runs: dict[str, list[Outcome]]) -> list[list[str]]:
    """Return a row for each way, a column for each run."""
    by_name = {run: {outcome.name: outcome for outcome in outcomes} for run, outcomes in runs.items()}
    ways = {outcome.name: outcome.group for outcomes in runs.values() for outcome in outcomes}
    rows = [[group, name, *(cell(run.get(name)) for run in by_name.values())] for name, group in ways.items()]
    return [["group", "way", *runs], *rows]


def main() -> None:
    """Run every way and print what became of the files."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--sandbox", nargs="+", default=["overlay", "landlock", "none"])
    parser.add_argument("--only", nargs="+", default=[], metavar="WAY", help="names of ways, by default all")
    parser.add_argument("--markdown", type=Path, help="write the table there, too")
    parser.add_argument("--keep", action="store_true", help="write the table of known escapes of `none`")
    options = parser.parse_args()
    if options.keep and (options.only or "none" not in options.sandbox):
        parser.error("--keep needs all ways, and none among the sandboxes")
    runs: dict[str, list[Outcome]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="ways-") as folder,
        planted(Path(folder), [*options.sandbox, "plain"], options.only) as files,
    ):
        runs[WITHOUT] = files.without_tunekit()
        for kind in options.sandbox:
            runs[kind], _ = files.in_trial(kind, kind)
    rows = table(runs)
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
    summaries = [f"{run}: {totals(outcomes)}" for run, outcomes in runs.items()]
    print(f"\n{len(runs[WITHOUT])} ways", *summaries, f"$ python {shlex.join(sys.argv)}", sep="\n")
    if options.markdown is not None:
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        lines.insert(1, "|---" * len(rows[0]) + "|")
        options.markdown.write_text("\n".join([*lines, "", *(f"- {line}" for line in summaries), ""]))
    if options.keep:
        write_table(GUARD_ALONE, runs["none"])


if __name__ == "__main__":
    main()
