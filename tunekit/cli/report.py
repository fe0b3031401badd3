"""`tunekit report`: redraw a finished or interrupted run, anywhere."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from tunekit.cli.flags import STANDARD_OUTPUT
from tunekit.cli.pipes import say
from tunekit.cli.report_files import (
    Drawn,
    append_summary,
    check_report_files,
    drawn_saved,
    for_others,
    show,
    summary_file,
    write_file,
    write_files,
)
from tunekit.errors import UnreadableError, UsageError
from tunekit.export.trackers import check_tracker, track, tracked_run
from tunekit.plan.from_run import plan_of_run
from tunekit.records.finding import without_findings
from tunekit.records.run import Run
from tunekit.report.experiment_log import log_entry, with_entry
from tunekit.session.folder import folder_of, load_saved
from tunekit.session.recording import holds_recording, load_recording
from tunekit.untrusted import read_text

_LOG_BYTES = 64 << 20
"""The largest log that is read."""


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Draw the record, or write its reports, and return 0.

    Raises:
        UsageError: flags contradict each other.
        RunFolderError: there is nothing to show, or a file can't be written.
    """
    asked = check_report_files(options) + ["--github-summary"] * options.github_summary
    log_flags = ["--log"] * (options.log is not None) + ["--track"] * bool(options.track)
    asked += log_flags
    if asked and options.json:
        raise UsageError(f"--json prints the run's record, so {', '.join(asked)} would be ignored; drop one")
    summary = summary_file(options)
    given: Path = options.run
    saved = load_recording(folder_of(given)) if holds_recording(given) else load_saved(given)
    record = without_findings(saved, options.ignored)
    if options.ignored and isinstance(record, Run):  # what its report works out goes by its own options
        ignored = (*record.options.ignored, *options.ignored)
        record = record.changed(options=record.options.changed(ignored=ignored))
    folder = folder_of(given)
    if log_flags and not isinstance(record, Run):
        raise UsageError(f"{' and '.join(log_flags)} can only log a search, which {given} is not; drop them")
    for name in options.track:
        check_tracker(name)
    report = drawn_saved(record, folder, options.full_paths, options.full)
    done = [f"written to {path}" for path in write_files(options, report, folder)]
    if isinstance(record, Run):
        done += _log(options, record, folder, report)
    if summary is not None:
        append_summary(summary, report.markdown())
        done.append(f"appended to {summary}")
    is_printed = STANDARD_OUTPUT in (options.html, options.markdown)
    if is_printed or not asked:
        show(options, record, report)
    if done:
        say(*done, to_stderr=is_printed)
    return 0


def _log(options: argparse.Namespace, record: Run, folder: Path, report: Drawn) -> Iterator[str]:
    """Add the run to the log and to the trackers, and yield what was written where."""
    run, place = for_others(record, folder, options.full_paths)
    if options.log is not None:
        try:
            before = read_text(options.log, _LOG_BYTES) if options.log.exists() else ""
        except UnreadableError as error:
            raise UsageError(f"--log {options.log} {error}; name a Markdown file") from error
        log, is_new = with_entry(before, run, log_entry(run, plan_of_run(run), place))
        write_file(options.log, log, "name another file: --log FILE")
        yield f"{'appended to' if is_new else 'replaced its entry in'} {options.log}"
    for name in options.track:
        say(f"logging to {name}")
        yield track(name, tracked_run(run, folder, report.markdown()))
