"""The reports of a run as files: `report.html`, `report.md`, and a GitHub step's summary."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tunekit.errors import RunFolderError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tunekit.records.run import Run
    from tunekit.report.view import RunView

HTML_FILE = "report.html"
MARKDOWN_FILE = "report.md"
STANDARD_OUTPUT = "-"
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""Names the file that a step of GitHub Actions shows below itself."""


def shown_run(run: "Run", folder: Path, full_paths: bool = False) -> "tuple[Run, RunView]":
    """Return the run as its reports hold it and all that they show, its plan where there can be one.

    Args:
        run: the saved run.
        folder: where it lies, for the commands that come next.
        full_paths: keep the home folder and the machine's name.
    """
    from tunekit.plain_text import printable  # noqa: PLC0415
    from tunekit.plan.from_run import plan_of_run  # noqa: PLC0415 - slow to import; --help must be instant
    from tunekit.report.places import shortener, without_places  # noqa: PLC0415
    from tunekit.report.view import view  # noqa: PLC0415

    place = str(folder)
    if not full_paths:
        run, place = without_places(run, Path.home()), shortener(Path.home())(place)
    return run, view(run, printable(place), plan_of_run(run))


def html_text(run: "Run", shown: "RunView") -> str:
    """Return the report as a page."""
    from tunekit.records.codec import to_json  # noqa: PLC0415
    from tunekit.report.html.page import page  # noqa: PLC0415

    return page(shown, f"{to_json(run)}\n".encode())


def markdown_text(run: "Run", shown: "RunView") -> str:
    """Return the report for a pull request, with the tiers' knobs."""
    from tunekit.export.yaml_config import knobs_yaml  # noqa: PLC0415
    from tunekit.report.markdown import markdown  # noqa: PLC0415

    return markdown(shown, [(one.tier.value, knobs_yaml(one, run.target)) for one in run.recommendations])


def write_reports(run: "Run", shown: "RunView", folder: Path) -> tuple[Path, ...]:
    """Write `report.html` and `report.md` into the run's folder, atomically, and return their paths.

    Raises:
        RunFolderError: one can't be written; the run is kept.
    """
    draw: tuple[tuple[str, Callable[[Run, RunView], str]], ...] = (
        (HTML_FILE, html_text),
        (MARKDOWN_FILE, markdown_text),
    )
    remedy = f"the run is kept: free some space, then tunekit report {folder} --html --markdown"
    for name, text_of in draw:
        write_report(folder / name, text_of(run, shown), remedy)
    return tuple(folder / name for name, _ in draw)


def refuse_records(path: Path, flag: str) -> None:
    """Refuse to write a report over what a run is kept in.

    Raises:
        UsageError: the file is such a record.
    """
    if path.suffix == ".json":
        raise UsageError(
            f"{flag} {path} would write a report over a record; put {flag} last, or name another file"
        )


def write_report(path: Path, text: str, remedy: str) -> None:
    """Write a report: whole or not at all, unless the path is no plain file, such as a pipe or a link.

    Raises:
        RunFolderError: it can't be written.
    """
    from tunekit.records.codec import write_text  # noqa: PLC0415

    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            with path.open("w", encoding="utf-8") as stream:
                stream.write(text)
        else:
            write_text(path, text)
    except OSError as error:
        raise RunFolderError(f"{path} can't be written ({error.strerror}); {remedy}") from error


def summary_file(instead: str = "tunekit report RUN --markdown FILE") -> Path:
    """Return the file of the GitHub step that this runs in.

    Args:
        instead: what writes a file elsewhere.

    Raises:
        UsageError: it runs in none.
    """
    named = os.environ.get(SUMMARY_VARIABLE)
    if not named:
        raise UsageError(
            f"--github-summary needs {SUMMARY_VARIABLE}, which GitHub Actions sets in every step; "
            f"elsewhere write a file: {instead}"
        )
    return Path(named)


def check_summary(path: Path) -> None:
    """Check that a step's summary can be appended to.

    Raises:
        RunFolderError: it can't be.
    """
    append_summary(path, "")


def append_summary(path: Path, text: str) -> None:
    """Append a report to the summary of a GitHub step.

    Raises:
        RunFolderError: the file can't be written.
    """
    try:
        with path.open("a", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        raise RunFolderError(
            f"the step's summary {path} can't be written ({error.strerror}); "
            f"set {SUMMARY_VARIABLE} to a file that can be"
        ) from error


def print_text(text: str) -> None:
    """Print a report on standard output, as UTF-8 whatever the terminal is set to."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()
