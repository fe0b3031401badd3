"""`tunekit compare`: runs side by side, and whether a later one is a regression."""

import argparse
import shlex
import string
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tunekit import __version__
from tunekit.cli.numbers import share
from tunekit.cli.pipes import discard_output, until_the_reader_leaves
from tunekit.cli.report_files import (
    SUMMARY_VARIABLE,
    add_report_files,
    append_summary,
    check_report_files,
    show,
    summary_file,
    texts_of,
    write_files,
)
from tunekit.errors import RunFolderError, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tunekit.recommend.across_runs.side import Side
    from tunekit.records.comparison import RunComparison
    from tunekit.records.recommendation import Recommendation
    from tunekit.records.run import Run

REGRESSION = 1
"""Exit code where a later run is a regression."""

_BASELINE = "baseline"
_TIERS = ("conservative", "balanced", "aggressive", _BASELINE)
_MOST_RUNS = 10
"""As many as a comment of Markdown has lines for."""


def add_verb(verbs: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "compare",
        help="set runs side by side: which is faster, and is a later one a regression",
        usage="tunekit compare RUN RUN [RUN ...] [options]",
        description=(
            "Compare the runs that searches wrote. The first is the reference. Shows what is faster, by how "
            "much and how sure that is, where the time went, and what makes the comparison unfair. Ends with "
            "1 where a run is significantly slower than the first, and by more than the tolerance; else "
            "with 0."
        ),
        epilog="example: tunekit compare reports/main reports/branch --tolerance 5% --github-summary",
    )
    parser.add_argument(
        "run", metavar="RUN", type=Path, nargs="+", help="folders that searches wrote, the reference first"
    )
    parser.add_argument(
        "--tolerance",
        type=share,
        default=0.05,
        metavar="SHARE",
        help="how much slower a run may be, as 5%% or 0.05 (default: 5%%)",
    )
    parser.add_argument(
        "--tier",
        choices=_TIERS,
        help="whose config to compare; baseline is the user's own (default: that of each run's answer)",
    )
    parser.add_argument("--json", action="store_true", help="print the comparison as JSON instead")
    parser.add_argument(
        "--github-summary",
        action="store_true",
        help=f"append the Markdown to the file that {SUMMARY_VARIABLE} names, as GitHub Actions sets it",
    )
    add_report_files(parser)
    parser.set_defaults(verb=run_verb)


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Compare the runs; return 1 where one is a regression, else 0.

    Raises:
        UsageError: the folders or the flags do not fit each other.
        RunFolderError: a folder holds no run, or nothing to compare, or a file can't be written.
        RecordError: a run is damaged or newer than this tunekit.
    """
    if command:
        raise UsageError(f"compare takes no training command, got {' '.join(command)!r}")
    summary = summary_file("--markdown FILE") if options.github_summary else None
    _check(options)
    from tunekit.recommend.across_runs.compare import compare_runs  # noqa: PLC0415 - --help must be instant
    from tunekit.report.blocks import WIDE  # noqa: PLC0415
    from tunekit.report.comparison import comparison_report  # noqa: PLC0415
    from tunekit.report.markdown import MOST_LINES  # noqa: PLC0415

    sides = [
        _side(name, path, options.tier)
        for name, path in zip(string.ascii_uppercase, options.run, strict=False)
    ]
    comparison = compare_runs(sides, options.tolerance, __version__)
    texts = texts_of(
        comparison,
        lambda shown: comparison_report(shown, WIDE),
        "comparison.json",
        options.full_paths,
        MOST_LINES,
    )
    write_files(options, texts)
    if summary is not None:
        append_summary(summary, texts.markdown())
    try:
        until_the_reader_leaves(lambda: show(options, texts, comparison, lambda: _draw(comparison)))
    except OSError as error:
        discard_output()
        raise RunFolderError(f"the comparison can't be printed ({error.strerror})") from error
    return REGRESSION if comparison.has_regression else 0


def _check(options: argparse.Namespace) -> None:
    """Refuse runs and flags that do not fit each other.

    Raises:
        UsageError: they do not.
    """
    runs: list[Path] = options.run
    if options.markdown is not None and Path(options.markdown).is_dir():
        raise UsageError(
            f"--markdown takes a file, got the folder {options.markdown}; put --markdown after the runs"
        )
    check_report_files(options)
    if len(runs) < 2:
        raise UsageError(f"compare takes two runs or more, got one: {runs[0]}; give the reference first")
    if len(runs) > _MOST_RUNS:
        raise UsageError(f"compare takes at most {_MOST_RUNS} runs, got {len(runs)}; leave some out")
    seen: dict[Path, Path] = {}
    for given in runs:
        folder = _folder(given).resolve()
        if folder in seen:
            raise UsageError(f"{given} and {seen[folder]} are the same run; give two different ones")
        seen[folder] = given


def _side(name: str, path: Path, tier: str | None) -> "Side":
    """Return a run with the config of it to compare.

    Raises:
        RunFolderError: there is no run, or no such config in it.
    """
    from tunekit.recommend.across_runs.side import Side  # noqa: PLC0415
    from tunekit.search.folder import load_run  # noqa: PLC0415

    run = load_run(path)
    chosen = None if tier == _BASELINE else _recommendation(run, path, tier)
    side = Side(name, str(_folder(path)), run, chosen)
    if not side.measured or side.config is None:
        raise RunFolderError(
            f"the baseline of {path} could not be measured, so there is nothing to compare; choose a --tier"
        )
    return side


def _folder(given: Path) -> Path:
    """Return the folder of a run, which may be given as its run.json."""
    return given.parent if given.is_file() else given


def _recommendation(run: "Run", path: Path, tier: str | None) -> "Recommendation":
    """Return the recommendation of a tier, or the one that the run's answer speaks of.

    Raises:
        RunFolderError: there is none.
    """
    from tunekit.recommend.recommendation import answer_of  # noqa: PLC0415

    if not run.recommendations:
        raise RunFolderError(
            f"{path} recommends nothing yet (status: {run.status}); go on with "
            f"tunekit search --resume {shlex.quote(str(_folder(path)))}, or compare the user's own "
            f"configs with --tier {_BASELINE}"
        )
    if tier is None:
        best = answer_of(run.recommendations)
        assert best is not None
        return best
    found = next((one for one in run.recommendations if one.tier == tier), None)
    if found is None:
        why = next((f": {one.reason}" for one in run.missing_tiers if one.tier == tier), "")
        has = ", ".join(one.tier.value for one in run.recommendations)
        raise RunFolderError(f"{path} has no {tier} tier{why.rstrip('.')}; it has {has}")
    return found


def _draw(comparison: "RunComparison") -> None:
    from rich.console import Console  # noqa: PLC0415 - slow to import

    from tunekit.report.comparison import comparison_report  # noqa: PLC0415
    from tunekit.report.terminal import draw  # noqa: PLC0415

    console = Console(highlight=False)
    draw(console, comparison_report(comparison, console.width).blocks)
