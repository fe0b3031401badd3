"""`tunekit report`: redraw a finished or interrupted run, anywhere."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from tunekit.cli.flags import STANDARD_OUTPUT
from tunekit.cli.pipes import say
from tunekit.cli.report_files import (
    append_summary,
    check_report_files,
    drawn_saved,
    show,
    summary_file,
    write_files,
)
from tunekit.errors import UsageError
from tunekit.records.finding import without_findings
from tunekit.records.run import Run
from tunekit.session.folder import (
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
    report = drawn_saved(record, folder, options.full_paths, options.full)
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
