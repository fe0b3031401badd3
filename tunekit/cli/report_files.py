"""Reports as files: HTML, Markdown, and a GitHub step's summary, of every verb that writes some."""

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from tunekit.cli.parser import STANDARD_OUTPUT
from tunekit.errors import RunFolderError, UsageError
from tunekit.export.yaml_config import knobs_yaml
from tunekit.plain_text import printable
from tunekit.plan.from_run import plan_of_run
from tunekit.records.base import Record
from tunekit.records.codec import to_json, write_text
from tunekit.records.run import Run
from tunekit.report.blocks import Report
from tunekit.report.html.page import page
from tunekit.report.markdown import MOST_LINES, markdown
from tunekit.report.run import in_comment, on_page
from tunekit.report.text import shortener, without_places

Shown = TypeVar("Shown", bound=Record)

HTML_FILE = "report.html"
MARKDOWN_FILE = "report.md"
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""Names the file that a step of GitHub Actions shows below itself."""
MOST_LISTED = 4
"""Lines of a list in the Markdown of a run, whose report.html has them all."""


class ReportTexts(NamedTuple):
    """What makes a report's texts, each when it is asked for."""

    html: Callable[[], str]
    markdown: Callable[[], str]


# --- the texts -------------------------------------------------------------------------------


def run_texts(run: Run, folder: Path, full_paths: bool = False) -> ReportTexts:
    """Return the texts of a run, with its plan where there can be one.

    Args:
        run: the saved run.
        folder: where it lies, for the commands that come next.
        full_paths: keep the home folder and the machine's name.
    """
    place = str(folder)
    if not full_paths:
        run, place = without_places(run, Path.home()), shortener(Path.home())(place)
    plan = plan_of_run(run)

    def html() -> str:
        return page(on_page(run, printable(place), plan), f"{to_json(run)}\n".encode())

    def text() -> str:
        """Return it for a pull request, with the tiers' knobs."""
        configs = [(one.tier.value, knobs_yaml(one, run.target)) for one in run.recommendations]
        return markdown(in_comment(run, plan, configs), MOST_LINES, MOST_LISTED)

    return ReportTexts(html, text)


def texts_of(
    record: Shown,
    report_of: Callable[[Shown], Report],
    name: str,
    full_paths: bool = False,
    most_lines: int | None = None,
) -> ReportTexts:
    """Return the texts of a record whose report has the same blocks everywhere.

    Args:
        record: which a page holds too.
        report_of: what is shown of it.
        name: of the record's file.
        full_paths: keep the home folder and the machine's name.
        most_lines: that its Markdown may take.
    """
    public = record if full_paths else without_places(record, Path.home())

    def html() -> str:
        return page(report_of(public), f"{to_json(public)}\n".encode(), name)

    def text() -> str:
        return markdown(report_of(public), most_lines)

    return ReportTexts(html, text)


# --- the files -------------------------------------------------------------------------------


def check_report_files(options: argparse.Namespace) -> list[str]:
    """Return the flags that ask for files or Markdown instead of a report on the terminal.

    Raises:
        UsageError: they contradict each other, or would write over a record or a folder.
    """
    given = {"--html": options.html, "--markdown": options.markdown}
    asked = [flag for flag, file in given.items() if file is not None]
    printed = [flag for flag, file in given.items() if file == STANDARD_OUTPUT]
    if printed and options.json:
        raise UsageError(f"--json and {printed[0]} both print; write one to a file: {printed[0]} FILE")
    if len(printed) == 2:
        raise UsageError(
            "--html - and --markdown - would mix on standard output; name a file for one of them"
        )
    files = {flag: Path(file) for flag, file in given.items() if file not in (None, "", STANDARD_OUTPUT)}
    for flag, file in files.items():
        refuse_records(file, flag)
    if len(files) == 2 and len({file.resolve() for file in files.values()}) == 1:
        raise UsageError(f"--html and --markdown would both write {files['--html']}; name two files")
    return asked


def write_files(options: argparse.Namespace, texts: ReportTexts) -> None:
    """Write the files that `--html` and `--markdown` name.

    Raises:
        RunFolderError: one can't be written.
    """
    for flag, file, text_of in (
        ("--html", options.html, texts.html),
        ("--markdown", options.markdown, texts.markdown),
    ):
        if file not in (None, STANDARD_OUTPUT):
            write_report(Path(file), text_of(), f"name another file: {flag} FILE")


def show(options: argparse.Namespace, texts: ReportTexts, record: Record, draw: Callable[[], None]) -> int:
    """Print the record as JSON, the page or the Markdown, as asked for, else draw the report; return 0."""
    if options.json:
        sys.stdout.write(to_json(record) + "\n")
    elif STANDARD_OUTPUT in (options.html, options.markdown):
        print_text(texts.html() if options.html == STANDARD_OUTPUT else texts.markdown())
    else:
        draw()
    return 0


def write_reports(texts: ReportTexts, folder: Path) -> tuple[Path, ...]:
    """Write `report.html` and `report.md` into the run's folder, atomically, and return their paths.

    Raises:
        RunFolderError: one can't be written; the run is kept.
    """
    remedy = f"the run is kept: free some space, then tunekit report {folder} --html --markdown"
    for name, text_of in ((HTML_FILE, texts.html), (MARKDOWN_FILE, texts.markdown)):
        write_report(folder / name, text_of(), remedy)
    return folder / HTML_FILE, folder / MARKDOWN_FILE


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
