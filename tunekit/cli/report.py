"""`tunekit report`: redraw a finished or interrupted run, anywhere."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tunekit.cli.flags import STANDARD_OUTPUT
from tunekit.cli.pipes import say
from tunekit.cli.report_files import (
    Drawn,
    append_summary,
    check_report_files,
    drawn,
    drawn_run,
    show,
    summary_file,
    write_files,
)
from tunekit.errors import UsageError
from tunekit.records.finding import without_findings
from tunekit.records.run import LoopProfile, Run
from tunekit.records.scaling_run import ScalingRun
from tunekit.report.fits import fits_answer, fits_report
from tunekit.report.loop_profile import profile_report
from tunekit.report.scale import scaling_report
from tunekit.session.folder import (
    FITS_FILE,
    PROFILE_FILE,
    SCALE_FILE,
    SavedRun,
    folder_of,
    load_saved,
)


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Draw the record, or write its reports, and return 0.

    Raises:
        UsageError: flags contradict each other.
        RunFolderError: there is nothing to show, or a file can't be written.
    """
    asked = check_report_files(options) + ["--github-summary"] * options.github_summary
    if asked and options.json:
        raise UsageError(f"--json prints the run's record, so {', '.join(asked)} would be ignored; drop one")
    summary = summary_file(options)
    given: Path = options.run
    record = without_findings(load_saved(given), options.ignored)
    if options.ignored and isinstance(record, Run):  # what its report works out goes by its own options
        ignored = (*record.options.ignored, *options.ignored)
        record = record.changed(options=record.options.changed(ignored=ignored))
    folder = folder_of(given)
    report = _drawn(record, folder, options.full_paths, options.full)
    done = [f"written to {path}" for path in write_files(options, report, folder)]
    if summary is not None:
        append_summary(summary, report.markdown())
        done.append(f"appended to {summary}")
    is_printed = STANDARD_OUTPUT in (options.html, options.markdown)
    if is_printed or not asked:
        show(options, record, report)
    if done:
        say(*done, to_stderr=is_printed)
    return 0


def _drawn(record: SavedRun, folder: Path, full_paths: bool, full: bool) -> Drawn:
    if isinstance(record, Run):
        return drawn_run(record, folder, full_paths, full)
    if isinstance(record, LoopProfile):
        return drawn(record, profile_report, PROFILE_FILE, full_paths, folder)
    if isinstance(record, ScalingRun):
        return drawn(record, scaling_report, SCALE_FILE, full_paths, folder)
    fits = drawn(record, lambda run, _: fits_report(run), FITS_FILE, full_paths, folder)
    return fits if full else fits._replace(blocks=lambda: fits_answer(record, str(folder)))
