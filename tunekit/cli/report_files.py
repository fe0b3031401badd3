"""Reports as files: HTML, Markdown, and a GitHub step's summary, of every verb that writes some."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from rich.console import Console

from tunekit.cli.flags import STANDARD_OUTPUT
from tunekit.cli.verbs import IN_THE_FOLDER
from tunekit.errors import RunFolderError, UsageError
from tunekit.export.yaml_config import knobs_yaml
from tunekit.machine.telemetry.series import load_series
from tunekit.plan.from_run import plan_of_run
from tunekit.records.base import Record
from tunekit.records.codec import to_json, write_text
from tunekit.records.recording import Recording
from tunekit.records.run import LoopProfile, Run, TargetRecord
from tunekit.records.scaling_run import ScalingRun
from tunekit.report.blocks import Block, Report
from tunekit.report.fits import fits_answer, fits_report
from tunekit.report.html.page import page
from tunekit.report.loop_profile import profile_report
from tunekit.report.markdown import MAX_LINES, markdown
from tunekit.report.recording import recording_report
from tunekit.report.run import in_comment, on_one_screen, on_page
from tunekit.report.scale import scaling_report
from tunekit.report.terminal import draw
from tunekit.report.text import about_text, shortener, without_places
from tunekit.session.folder import FITS_FILE, PROFILE_FILE, SCALE_FILE, TELEMETRY_STORE, SavedRun
from tunekit.trial.recording import RECORDING_FILE

Shown = TypeVar("Shown", bound=Record)

HTML_FILE = "report.html"
MARKDOWN_FILE = "report.md"
SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
"""The variable that names the summary file of a GitHub Actions step."""
MAX_LISTED = 4
"""Lines of a list in a run's Markdown; report.html has them all."""


class Drawn(NamedTuple):
    """A record's report in every form, each drawn when it is asked for."""

    blocks: Callable[[], Sequence[Block]]
    """For a terminal."""
    html: Callable[[], str]
    markdown: Callable[[], str]


# --- the texts -------------------------------------------------------------------------------


def for_others(record: Shown, folder: Path, full_paths: bool) -> tuple[Shown, str]:
    """Return a record and its folder as other people read them; with full paths, as they are."""
    if full_paths:
        return record, str(folder)
    shorten = shortener(Path.home(), Path.cwd())
    return without_places(record, shorten), shorten(str(folder))


def drawn_run(run: Run, folder: Path, full_paths: bool = False, full: bool = False) -> Drawn:
    """Return the report of a search, in its files with its plan where there can be one.

    Args:
        run: the saved run.
        folder: its folder, for the next commands.
        full_paths: keep the home folder and the machine's name in the files.
        full: show the whole report on the terminal, not one screen.
    """
    public, place = for_others(run, folder, full_paths)
    plan = cache(lambda: plan_of_run(public))

    def html() -> str:
        configs = [
            (one.tier.value, knobs_yaml(one, public.target, is_short=False)) for one in public.recommendations
        ]
        report = on_page(public, place, plan(), configs, partial(load_series, folder / TELEMETRY_STORE))
        return page(report, f"{to_json(public)}\n".encode())

    def text() -> str:
        """Return the report for a pull request, with the tiers' knobs."""
        configs = [(one.tier.value, knobs_yaml(one, public.target)) for one in public.recommendations]
        return markdown(in_comment(public, plan(), configs, place), MAX_LINES, MAX_LISTED)

    def blocks() -> Sequence[Block]:
        return on_page(run, str(folder), plan_of_run(run)).blocks if full else on_one_screen(run, folder)

    return Drawn(blocks, html, text)


def drawn(
    record: Shown,
    report_of: Callable[[Shown, str], Report],
    name: str,
    full_paths: bool = False,
    folder: Path = Path(),
    max_lines: int | None = None,
) -> Drawn:
    """Return the report of a record that has the same blocks in every medium.

    Args:
        record: the record, which the page contains too.
        report_of: returns its report, given its folder.
        name: name of its file in the page.
        full_paths: keep the home folder and the machine's name.
        folder: its folder, if it is saved.
        max_lines: largest number of lines of the Markdown.
    """

    def html() -> str:
        public, place = for_others(record, folder, full_paths)
        about = about_text(public) if isinstance(public, TargetRecord) else ""
        return page(replace(report_of(public, place), about=about), f"{to_json(public)}\n".encode(), name)

    def text() -> str:
        return markdown(report_of(*for_others(record, folder, full_paths)), max_lines)

    return Drawn(lambda: report_of(record, str(folder)).blocks, html, text)


def drawn_saved(
    record: SavedRun | Recording, folder: Path, full_paths: bool = False, full: bool = False
) -> Drawn:
    """Return the report of any saved record."""
    if isinstance(record, Recording):
        return drawn(record, recording_report, RECORDING_FILE, full_paths, folder)
    if isinstance(record, Run):
        return drawn_run(record, folder, full_paths, full)
    if isinstance(record, LoopProfile):
        return drawn(record, profile_report, PROFILE_FILE, full_paths, folder)
    if isinstance(record, ScalingRun):
        return drawn(record, scaling_report, SCALE_FILE, full_paths, folder)
    fits = drawn(record, lambda run, _: fits_report(run), FITS_FILE, full_paths, folder)
    return fits if full else fits._replace(blocks=lambda: fits_answer(record, str(folder)))


# --- the files -------------------------------------------------------------------------------


def check_report_files(options: argparse.Namespace) -> list[str]:
    """Return the flags that ask for files or Markdown instead of a report on the terminal.

    Raises:
        UsageError: they contradict each other, or would write over a record or a folder.
    """
    given = {"--html": options.html, "--markdown": options.markdown}
    asked = [flag for flag, file in given.items() if file is not None]
    printed = [flag for flag, file in given.items() if file == STANDARD_OUTPUT]
    printed += ["--json"] * options.json
    if len(printed) > 1:
        raise UsageError(f"{' and '.join(printed)} would mix on standard output; name a file for one of them")
    for flag, file in given.items():
        if file and file.endswith(".json"):
            raise UsageError(
                f"{flag} {file} would write over a record; put {flag} last, or name another file"
            )
    return asked


def write_files(options: argparse.Namespace, report: Drawn, folder: Path | None = None) -> list[Path]:
    """Write the files that `--html` and `--markdown` ask for, and return their paths.

    Args:
        options: the flags.
        report: what the files show.
        folder: for files without a given name.

    Raises:
        RunFolderError: one can't be written.
    """
    written = []
    for flag, file, usual, text_of in (
        ("--html", options.html, HTML_FILE, report.html),
        ("--markdown", options.markdown, MARKDOWN_FILE, report.markdown),
    ):
        if file not in (None, STANDARD_OUTPUT):
            path = folder / usual if folder and file == IN_THE_FOLDER else Path(file)
            write_file(path, text_of(), f"name another file: {flag} FILE")
            written.append(path)
    return written


def present(
    options: argparse.Namespace, record: Record, report: Drawn, answer: Sequence[Block] | None = None
) -> None:
    """Write the files that are asked for; show the answer, or without one or with --full the report."""
    if answer is not None and not options.full:
        report = report._replace(blocks=lambda: answer)
    write_files(options, report)
    show(options, record, report)


def show(options: argparse.Namespace, record: Record, report: Drawn) -> None:
    """Print the record as JSON, the page or the Markdown, as asked for, else draw the report."""
    if options.json:
        sys.stdout.write(to_json(record) + "\n")
    elif STANDARD_OUTPUT in (options.html, options.markdown):
        text = report.html() if options.html == STANDARD_OUTPUT else report.markdown()
        sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
        sys.stdout.write(text)
    else:
        draw(Console(highlight=False), report.blocks())


def write_reports(report: Drawn, folder: Path) -> tuple[Path, ...]:
    """Write `report.html` and `report.md` into the run's folder, atomically, and return their paths.

    Raises:
        RunFolderError: one can't be written; the run is kept.
    """
    remedy = f"the run is kept: correct that, then tunekit report {folder} --html --markdown"
    for name, text_of in ((HTML_FILE, report.html), (MARKDOWN_FILE, report.markdown)):
        write_file(folder / name, text_of(), remedy)
    return folder / HTML_FILE, folder / MARKDOWN_FILE


def write_file(path: Path, text: str, remedy: str) -> None:
    """Write a report atomically, unless the path is a pipe, a link or another special file."""
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            with path.open("w", encoding="utf-8") as stream:
                stream.write(text)
        else:
            write_text(path, text)
    except OSError as error:
        raise RunFolderError(f"{path} can't be written ({error.strerror}); {remedy}") from error


def summary_file(options: argparse.Namespace) -> Path | None:
    """Return the file of the GitHub step that this runs in, which can be appended to; None if not asked for.

    Raises:
        UsageError: it runs in no step.
        RunFolderError: the file can't be written.
    """
    if not options.github_summary:
        return None
    named = os.environ.get(SUMMARY_VARIABLE)
    if not named:
        raise UsageError(
            f"--github-summary needs {SUMMARY_VARIABLE}, which GitHub Actions sets; elsewhere write a file: "
            "tunekit report RUN --markdown FILE"
        )
    append_summary(Path(named), "")
    return Path(named)


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
