"""`tunekit report`: redraw a finished or interrupted run, anywhere."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console

from tunekit.cli.parser import IN_THE_FOLDER, STANDARD_OUTPUT
from tunekit.cli.report_files import (
    HTML_FILE,
    MARKDOWN_FILE,
    ReportTexts,
    append_summary,
    check_report_files,
    check_summary,
    print_text,
    run_texts,
    summary_file,
    texts_of,
    write_report,
)
from tunekit.errors import RunFolderError, UsageError
from tunekit.plain_text import printable
from tunekit.records.codec import to_json
from tunekit.records.finding import without_findings
from tunekit.records.run import Run, TargetRecord
from tunekit.report.blocks import WIDE, Block, Report
from tunekit.report.fits import fits_report
from tunekit.report.loop_profile import profile_report
from tunekit.report.run import on_terminal
from tunekit.report.terminal import draw
from tunekit.report.text import shortener
from tunekit.session import folder as run_folder


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Draw the record, or write its reports, and return 0.

    Raises:
        UsageError: flags contradict each other.
        RunFolderError: there is nothing to show, or a file can't be written.
    """
    asked = check_report_files(options) + ["--github-summary"] * options.github_summary
    if asked and options.json:
        raise UsageError(f"--json prints the run's record, so {', '.join(asked)} would be ignored; drop one")
    if options.github_summary:
        check_summary(summary_file())
    given: Path = options.run
    shown = _kind_in(given)
    record = without_findings(shown.load(given), options.ignore)
    if options.ignore and isinstance(record, Run):  # what its report works out goes by its own options
        ignored = (*record.options.ignored, *options.ignore)
        record = record.changed(options=record.options.changed(ignored=ignored))
    folder = given.parent if given.is_file() else given
    if options.json:
        sys.stdout.write(to_json(record) + "\n")
    elif asked:
        _write(shown.texts(record, folder, options.full_paths), folder, options)
    else:
        console = Console(highlight=False)
        draw(console, shown.blocks(record, folder, console.width))
    return 0


def _write(texts: ReportTexts, folder: Path, options: argparse.Namespace) -> None:
    """Write the reports that were asked for, and say which.

    Raises:
        RunFolderError: one can't be written.
    """
    written = []
    for asked, flag, name, text_of in (
        (options.html, "--html", HTML_FILE, texts.html),
        (options.markdown, "--markdown", MARKDOWN_FILE, texts.markdown),
    ):
        if asked == STANDARD_OUTPUT:
            print_text(text_of())
        elif asked is not None:
            path = folder / name if asked == IN_THE_FOLDER else Path(asked)
            write_report(path, text_of(), f"name another file: {flag} FILE")
            written.append(f"written to {path}")
    if options.github_summary:
        append_summary(summary_file(), texts.markdown())
        written.append(f"appended to {summary_file()}")
    is_printed = STANDARD_OUTPUT in (options.html, options.markdown)
    for line in written:
        print(printable(line), file=sys.stderr if is_printed else sys.stdout)


class _Kind(NamedTuple):
    """One kind of record that a folder can hold."""

    load: Callable[[Path], Any]
    blocks: Callable[[Any, Path, int], Sequence[Block]]
    """For a terminal of a width."""
    texts: Callable[[Any, Path, bool], ReportTexts]
    """Of its files, with full paths or without."""


def _kind_in(given: Path) -> _Kind:
    """Return what kind of record a folder holds, or a file is.

    Raises:
        RunFolderError: it holds none.
    """
    names = (run_folder.RUN_FILE, run_folder.PROFILE_FILE, run_folder.FITS_FILE)
    if not (given.is_file() or any((given / name).exists() for name in names)):
        raise RunFolderError(
            f"no run and no loop profile in {given}: {names[0]}, {names[1]} and {names[2]} are missing; "
            "give the folder that a search, tunekit profile or tunekit fits wrote"
        )
    if run_folder.holds_profile(given):
        return _same_everywhere(run_folder.load_profile_run, run_folder.PROFILE_FILE, profile_report)
    if run_folder.holds_fits(given):
        return _same_everywhere(
            run_folder.load_fits_run, run_folder.FITS_FILE, lambda run, _, width: fits_report(run, width)
        )
    return _Kind(
        run_folder.load_run,
        lambda run, folder, _: on_terminal(run, folder),
        run_texts,
    )


def _same_everywhere(
    load: Callable[[Path], Any], name: str, report_of: Callable[[Any, str, int], Report]
) -> _Kind:
    """Return a kind of record whose report has the same blocks everywhere.

    Args:
        load: reads it from a folder.
        name: of its file.
        report_of: what is shown of it, by the folder and the width of the terminal.
    """

    def texts(record: TargetRecord, folder: Path, full_paths: bool) -> ReportTexts:
        place = str(folder) if full_paths else shortener(Path.home())(str(folder))
        return texts_of(record, lambda public: report_of(public, place, WIDE), name, full_paths)

    return _Kind(load, lambda record, folder, width: report_of(record, str(folder), width).blocks, texts)
