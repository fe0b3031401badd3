"""`tunekit report`: redraw a finished or interrupted run, anywhere."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tunekit.cli.report_files import (
    HTML_FILE,
    MARKDOWN_FILE,
    STANDARD_OUTPUT,
    ReportTexts,
    add_full_paths,
    append_summary,
    check_report_files,
    check_summary,
    html_text,
    markdown_text,
    print_text,
    shown_run,
    summary_file,
    texts_of,
    write_report,
)
from tunekit.errors import RunFolderError, UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tunekit.records.run import Run, TargetRecord
    from tunekit.report.blocks import Block, Report

_IN_THE_FOLDER = ""
"""What stands for a file that the user did not name."""


def add_verb(verbs: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "report",
        help="show a run again, or write its report as HTML or Markdown, without a GPU or torch",
        usage="tunekit report RUN [options]",
        description=(
            "Show a run, a loop profile or what fits which GPU again from its folder, as it was shown at its "
            "end; or write its report as one HTML file, and as Markdown for a pull request."
        ),
        epilog="example: tunekit report reports/train-2026-01-02 --markdown - | gh pr comment --body-file -",
    )
    parser.add_argument(
        "run",
        metavar="RUN",
        type=Path,
        help="the folder that a search, tunekit profile or tunekit fits wrote, or its run.json",
    )
    _add_file(parser, "--html", HTML_FILE, "one HTML file that needs no network")
    _add_file(parser, "--markdown", MARKDOWN_FILE, "Markdown for a pull request, of a run under 60 lines")
    parser.add_argument(
        "--github-summary",
        action="store_true",
        help="append the Markdown to the summary of the GitHub Actions step that this runs in",
    )
    add_full_paths(parser)
    parser.add_argument(
        "--json", action="store_true", help="print run.json (profile.json, fits.json) instead"
    )
    parser.set_defaults(verb=run_verb)


def _add_file(parser: argparse.ArgumentParser, flag: str, name: str, what: str) -> None:
    parser.add_argument(
        flag,
        nargs="?",
        const=_IN_THE_FOLDER,
        metavar="FILE",
        help=f"write the report as {what} (default: RUN/{name}; - is standard output)",
    )


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Draw the record, or write its reports, and return 0.

    Raises:
        UsageError: there is a training command, which this verb has no use for, or flags contradict.
        RunFolderError: there is nothing to show, or a file can't be written.
    """
    if command:
        raise UsageError(f"report takes no training command, got {' '.join(command)!r}")
    asked = check_report_files(options) + ["--github-summary"] * options.github_summary
    if asked and options.json:
        raise UsageError(f"--json prints the run's record, so {', '.join(asked)} would be ignored; drop one")
    if options.github_summary:
        check_summary(summary_file())
    from rich.console import Console  # noqa: PLC0415 - slow to import; --help must be instant

    from tunekit.records.codec import to_json  # noqa: PLC0415
    from tunekit.report.terminal import draw  # noqa: PLC0415

    given: Path = options.run
    shown = _kind_in(given)
    record = shown.load(given)
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
    from tunekit.plain_text import printable  # noqa: PLC0415

    written = []
    for asked, flag, name, text_of in (
        (options.html, "--html", HTML_FILE, texts.html),
        (options.markdown, "--markdown", MARKDOWN_FILE, texts.markdown),
    ):
        if asked == STANDARD_OUTPUT:
            print_text(text_of())
        elif asked is not None:
            path = folder / name if asked == _IN_THE_FOLDER else Path(asked)
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

    load: "Callable[[Path], Any]"
    blocks: "Callable[[Any, Path, int], Sequence[Block]]"
    """For a terminal of a width."""
    texts: Callable[[Any, Path, bool], ReportTexts]
    """Of its files, with full paths or without."""


def _kind_in(given: Path) -> _Kind:
    """Return what kind of record a folder holds, or a file is.

    Raises:
        RunFolderError: it holds none.
    """
    from tunekit.report.fits import fits_report  # noqa: PLC0415
    from tunekit.report.loop_profile import profile_report  # noqa: PLC0415
    from tunekit.report.run import on_terminal, view  # noqa: PLC0415
    from tunekit.search import folder as run_folder  # noqa: PLC0415

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
        lambda run, folder, _: on_terminal(view(run, str(folder)), folder),
        _run_texts,
    )


def _run_texts(run: "Run", folder: Path, full_paths: bool) -> ReportTexts:
    public, shown = shown_run(run, folder, full_paths)
    return ReportTexts(lambda: html_text(public, shown), lambda: markdown_text(public, shown))


def _same_everywhere(
    load: "Callable[[Path], Any]", name: str, report_of: "Callable[[Any, str, int], Report]"
) -> _Kind:
    """Return a kind of record whose report has the same blocks everywhere.

    Args:
        load: reads it from a folder.
        name: of its file.
        report_of: what is shown of it, by the folder and the width of the terminal.
    """

    def texts(record: "TargetRecord", folder: Path, full_paths: bool) -> ReportTexts:
        from tunekit.report.blocks import WIDE  # noqa: PLC0415
        from tunekit.report.text import shortener  # noqa: PLC0415

        place = str(folder) if full_paths else shortener(Path.home())(str(folder))
        return texts_of(record, lambda public: report_of(public, place, WIDE), name, full_paths)

    return _Kind(load, lambda record, folder, width: report_of(record, str(folder), width).blocks, texts)
