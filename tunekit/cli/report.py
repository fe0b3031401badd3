"""`tunekit report`: redraw a finished or interrupted run, anywhere."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from tunekit.cli.parser import IN_THE_FOLDER
from tunekit.cli.report_files import (
    HTML_FILE,
    MARKDOWN_FILE,
    STANDARD_OUTPUT,
    append_summary,
    check_summary,
    html_text,
    markdown_text,
    print_text,
    refuse_records,
    shown_run,
    summary_file,
    write_report,
)
from tunekit.errors import RunFolderError, UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from tunekit.records.base import Record
    from tunekit.records.run import Run

AnyRecord = TypeVar("AnyRecord", bound="Record")
View = TypeVar("View")


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Draw the run, or write its reports, and return 0.

    Raises:
        UsageError: flags contradict each other.
        RunFolderError: there is nothing to show, or a file can't be written.
    """
    asked = _files_asked(options)
    from rich.console import Console  # noqa: PLC0415 - slow to import; --help must be instant

    from tunekit.records.codec import to_json  # noqa: PLC0415
    from tunekit.records.finding import without_findings  # noqa: PLC0415
    from tunekit.report.terminal import draw  # noqa: PLC0415
    from tunekit.report.view import view  # noqa: PLC0415
    from tunekit.search.folder import (  # noqa: PLC0415
        FITS_FILE,
        PROFILE_FILE,
        RUN_FILE,
        holds_fits,
        holds_profile,
        load_run,
    )

    given: Path = options.run
    files = (RUN_FILE, PROFILE_FILE, FITS_FILE)
    if not (given.is_file() or any((given / name).exists() for name in files)):
        raise RunFolderError(
            f"no run and no loop profile in {given}: {RUN_FILE}, {PROFILE_FILE} and {FITS_FILE} are missing; "
            "give the folder that a search, tunekit profile or tunekit fits wrote"
        )
    for holds, what, show in (
        (holds_profile, "a loop profile", _show_profile),
        (holds_fits, "what fits which GPU", _show_fits),
    ):
        if holds(given):
            if asked:
                raise UsageError(
                    f"{', '.join(asked)}: {given} holds {what}, which has no such report; it is shown by "
                    f"tunekit report {given}, and printed with --json"
                )
            return show(options)
    run = without_findings(load_run(given), options.ignore)
    if options.ignore:  # what is worked out of it for the report goes by its own options
        ignored = (*run.options.ignored, *options.ignore)
        run = run.changed(options=run.options.changed(ignored=ignored))
    if options.json:
        sys.stdout.write(to_json(run) + "\n")
        return 0
    folder = given.parent if given.is_file() else given
    if asked:
        _write(run, folder, options)
        return 0
    draw(Console(highlight=False), view(run, str(folder)), folder)
    return 0


def _files_asked(options: argparse.Namespace) -> list[str]:
    """Return the flags that ask for files instead of a report on the terminal.

    Raises:
        UsageError: they contradict each other or `--json`, or there is no summary to append to.
    """
    given = {"--html": options.html is not None, "--markdown": options.markdown is not None}
    asked = [
        flag for flag, is_given in (given | {"--github-summary": options.github_summary}).items() if is_given
    ]
    if asked and options.json:
        raise UsageError(f"--json prints the run's record, so {', '.join(asked)} would be ignored; drop one")
    if options.html == options.markdown == STANDARD_OUTPUT:
        raise UsageError(
            "--html - and --markdown - would mix on standard output; name a file for one of them"
        )
    named = [
        (flag, Path(file))
        for flag, file in (("--html", options.html), ("--markdown", options.markdown))
        if file not in (None, IN_THE_FOLDER, STANDARD_OUTPUT)
    ]
    for flag, file in named:
        refuse_records(file, flag)
    if len(named) == 2 and named[0][1].resolve() == named[1][1].resolve():
        raise UsageError(f"--html and --markdown would both write {named[0][1]}; name two files")
    if options.github_summary:
        check_summary(summary_file())
    return asked


def _write(run: "Run", folder: Path, options: argparse.Namespace) -> None:
    """Write the reports that were asked for, and say which.

    Raises:
        RunFolderError: one can't be written.
    """
    from tunekit.plain_text import printable  # noqa: PLC0415

    public, shown = shown_run(run, folder, options.full_paths)
    written = []
    for asked, flag, name, text_of in (
        (options.html, "--html", HTML_FILE, html_text),
        (options.markdown, "--markdown", MARKDOWN_FILE, markdown_text),
    ):
        if asked == STANDARD_OUTPUT:
            print_text(text_of(public, shown))
        elif asked is not None:
            path = folder / name if asked == IN_THE_FOLDER else Path(asked)
            write_report(path, text_of(public, shown), f"name another file: {flag} FILE")
            written.append(f"written to {path}")
    if options.github_summary:
        append_summary(summary_file(), markdown_text(public, shown))
        written.append(f"appended to {summary_file()}")
    is_free = STANDARD_OUTPUT not in (options.html, options.markdown)
    for line in written:
        print(printable(line), file=sys.stdout if is_free else sys.stderr)


def _show_profile(options: argparse.Namespace) -> int:
    """Draw a loop profile and return 0."""
    from tunekit.report.loop_profile import loop_profile_view  # noqa: PLC0415
    from tunekit.report.terminal import draw_loop_profile  # noqa: PLC0415
    from tunekit.search.folder import load_profile_run  # noqa: PLC0415

    return _show(options, load_profile_run, loop_profile_view, draw_loop_profile)


def _show_fits(options: argparse.Namespace) -> int:
    """Draw what fits which GPU and return 0."""
    from tunekit.report.fits import fits_view  # noqa: PLC0415
    from tunekit.report.terminal import draw_fits  # noqa: PLC0415
    from tunekit.search.folder import load_fits_run  # noqa: PLC0415

    return _show(options, load_fits_run, fits_view, draw_fits)


def _show(
    options: argparse.Namespace,
    load: "Callable[[Path], AnyRecord]",
    view_of: "Callable[[AnyRecord, str, int], View]",
    draw_it: "Callable[[Console, View], None]",
) -> int:
    """Draw a record for the width of the terminal, or print it as JSON, and return 0."""
    from rich.console import Console  # noqa: PLC0415

    from tunekit.records.codec import to_json  # noqa: PLC0415
    from tunekit.records.finding import without_findings  # noqa: PLC0415

    record = without_findings(load(options.run), options.ignore)
    if options.json:
        sys.stdout.write(to_json(record) + "\n")
        return 0
    console = Console(highlight=False)
    folder = options.run.parent if options.run.is_file() else options.run
    draw_it(console, view_of(record, str(folder), console.width))
    return 0
