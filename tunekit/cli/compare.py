"""`tunekit compare`: runs side by side, and whether a later one is a regression."""

import argparse
import string
import sys
from collections.abc import Sequence
from pathlib import Path

from tunekit import __version__
from tunekit.cli.pipes import say
from tunekit.cli.report_files import (
    append_summary,
    check_report_files,
    drawn,
    present,
    summary_file,
)
from tunekit.cli.verbs import BASELINE
from tunekit.diagnose.compare import compare_runs
from tunekit.diagnose.run_pair import Side
from tunekit.errors import RunFolderError, UsageError
from tunekit.recommend.recommendation import answer_of
from tunekit.records.finding import without_findings
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.report.comparison import comparison_answer, comparison_report
from tunekit.report.markdown import MAX_LINES
from tunekit.report.text import resume_command
from tunekit.session.folder import folder_of, load_run

REGRESSION = 1
"""Exit code where a later run is a regression."""

_MAX_RUNS = 10
"""What fits a Markdown comment."""


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Compare the runs; return 1 where one is a regression, else 0.

    Raises:
        UsageError: the folders or flags do not match, or a run can't be compared.
        RunFolderError: a folder holds no run, or nothing to compare, or a file can't be written.
        RecordError: a run is damaged or newer than this tunekit.
    """
    summary = summary_file(options)
    _check(options)
    sides = [
        _side(name, path, options.tier)
        for name, path in zip(string.ascii_uppercase, options.run, strict=False)
    ]
    kept = [side.name for side in sides if side.is_baseline]
    if options.tier is None and 0 < len(kept) < len(sides):
        own = f"{' and '.join(kept)} recommend{'s' * (len(kept) == 1)} no other config than the baseline's"
        say(f"{own}, so the baselines are compared; --tier TIER compares a tier")
        sides = [_side(side.name, Path(side.folder), BASELINE) for side in sides]
    comparison = without_findings(compare_runs(sides, options.tolerance, __version__), options.ignored)
    report = drawn(
        comparison,
        lambda shown, _: comparison_report(shown),
        "comparison.json",
        options.full_paths,
        max_lines=MAX_LINES,
    )
    if summary is not None:
        append_summary(summary, report.markdown())
    try:
        present(options, comparison, report, comparison_answer(comparison))
        sys.stdout.flush()
    except OSError as error:
        raise RunFolderError(f"the comparison can't be printed ({error.strerror})") from error
    if comparison.has_regression:
        return REGRESSION
    if not comparison.is_comparable:
        why = "; ".join(f"{one.name}: {one.why_not}" for one in comparison.against if one.why_not)
        raise UsageError(f"not all runs can be compared with the reference ({why}); leave those out")
    return 0


def _check(options: argparse.Namespace) -> None:
    """Refuse runs and flags that do not match."""
    runs: list[Path] = options.run
    check_report_files(options)
    if len(runs) < 2:
        raise UsageError(f"compare takes two runs or more, got one: {runs[0]}; name two, before any flag")
    if len(runs) > _MAX_RUNS:
        raise UsageError(f"compare takes at most {_MAX_RUNS} runs, got {len(runs)}; leave some out")
    seen: dict[Path, Path] = {}
    for given in runs:
        folder = folder_of(given).resolve()
        if folder in seen:
            raise UsageError(f"{given} and {seen[folder]} are the same run; give two different ones")
        seen[folder] = given


def _side(name: str, path: Path, tier: str | None) -> Side:
    """Return a run and the config of it to compare."""
    run = load_run(path)
    chosen = None if tier == BASELINE else _recommendation(run, path, tier)
    side = Side(name, str(folder_of(path)), run, chosen)
    if not side.measured or side.config is None:
        raise RunFolderError(
            f"the baseline of {path} could not be measured, so there is nothing to compare; choose a --tier"
        )
    return side


def _recommendation(run: Run, path: Path, tier: str | None) -> Recommendation:
    """Return the recommendation of a tier, or the one that the run's answer speaks of."""
    if not run.recommendations:
        raise RunFolderError(
            f"{path} recommends nothing yet (status: {run.status}); continue it with "
            f"`{resume_command(run, str(folder_of(path)))}`, or compare the "
            f"baselines with --tier {BASELINE}"
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
