"""`tunekit search`: tune a training command end to end."""

import argparse
import math
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from tunekit.cli.machine import host_here, variables_here, warnings_of
from tunekit.cli.numbers import digits
from tunekit.cli.report_files import (
    append_summary,
    drawn_run,
    summary_file,
    write_reports,
)
from tunekit.cli.screen import SearchScreen
from tunekit.cli.settings import file_and_line
from tunekit.cli.share import joined
from tunekit.cli.trials import (
    before_trials,
    executor_for,
    fixed_knob,
    memory_outside,
    refuse_unseen_command,
    target_or_builtin,
    typed_options,
    window_s,
)
from tunekit.cli.workloads import make_data
from tunekit.errors import DamagedRecordError, RunFolderError, TargetChangedError, TunekitError, UsageError
from tunekit.export.files import write_exports
from tunekit.machine.device import profile_here
from tunekit.machine.profiles import load_profiles
from tunekit.plan.from_run import plan_of_run
from tunekit.records.codec import to_json
from tunekit.records.config import KNOB, NUMERIC_KNOBS
from tunekit.records.host import Host
from tunekit.records.measurement import THREAD_VARIABLES
from tunekit.records.options import SEARCH
from tunekit.records.run import (
    KnobRange,
    Objective,
    Run,
    RunStatus,
    SearchOptions,
    usual_options,
)
from tunekit.records.target import Target
from tunekit.report.run import on_one_screen, on_page
from tunekit.report.text import resume_command
from tunekit.secret_words import masked_words
from tunekit.session.folder import RUN_FILE, RunFolder, load_run, new_folder
from tunekit.session.search import Search
from tunekit.trial.knob_names import knob_hint
from tunekit.trial.target import resolve_target, without_secrets
from tunekit.tune.budget import budget_for_more
from tunekit.tune.space import preview_space
from tunekit.units import count_text


class _Prepared(NamedTuple):
    run: Run
    folder: Path
    here: Host
    """This machine as it is now; a resumed run has it as it was."""


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Search, write the files, show the answer and return 0.

    Raises:
        UsageError: flags contradict each other.
    """
    alone = [flag for flag in ("share", "resume", "dry_run") if getattr(options, flag)]
    if len(alone) > 1:
        one, other = ("--" + flag.replace("_", "-") for flag in alone[:2])
        raise UsageError(f"{one} and {other} exclude each other; drop one")
    if options.dry_run:
        return _dry_run(options, command)
    summary = summary_file(options)
    run, where, here = _resumed(options, command) if options.resume else _new(options, command)
    profile = profile_here(run.measured_on, run.host, load_profiles())
    with ExitStack() as stack:
        screen = stack.enter_context(SearchScreen(options.json, is_quiet=options.quiet))
        store = None
        if options.share is not None:
            store = stack.enter_context(joined(options.share, run, command, options.out))
            run = run.changed(shared_at=store.address.saved)
        folder = stack.enter_context(RunFolder(store.folder if store else where))
        screen.opened(run, folder.path)
        if store is not None:
            screen.shared(store.address.shown, store.host, store.is_only_group)
        make_data(run, screen)
        executor = executor_for(run, folder, here, command, run.known_budget_s or math.inf)
        search = Search(run, folder, executor, profile, screen, memory_outside(), store=store)
        finished = _searched(search, folder.path, options, screen, is_shared=store is not None)
        is_done, shown_at = finished.status is RunStatus.FINISHED, folder.path
        if store is not None and store.finisher is not None:
            elsewhere = Path(str(store.finisher.folder))
            screen.left_to(str(store.finisher.host), elsewhere, store.trials_run)
            # Another machine's folder may have the path of this one's.
            is_here = (elsewhere / RUN_FILE).is_file() and not elsewhere.samefile(folder.path)
            if options.out is None and (is_here or not is_done):
                store.keeps_folder, shown_at = store.trials_run > 0, elsewhere
        try:
            if is_done:
                _show(finished, shown_at, options, summary, screen, writes=shown_at == folder.path)
        finally:
            if options.json:
                sys.stdout.write(to_json(finished) + "\n")
    return 0


def _searched(
    search: Search, folder: Path, options: argparse.Namespace, screen: SearchScreen, is_shared: bool
) -> Run:
    """Search; when interrupted or failing, save what is known before the error propagates."""
    try:
        return search.run()
    except (KeyboardInterrupt, TunekitError) as error:
        if isinstance(error, KeyboardInterrupt):
            others = "Other hosts go on; take part again with the same command."
            then = others if is_shared else f"Resume with: {resume_command(search.found, str(folder))}"
            screen.interrupted(folder, then)
        _report_so_far(search.found, folder, options.full_paths, screen)
        raise


def _show(
    finished: Run,
    folder: Path,
    options: argparse.Namespace,
    summary: Path | None,
    screen: SearchScreen,
    writes: bool,
) -> None:
    """Show the answer, after its configs and reports are written unless another host has done so."""
    files = (*write_exports(finished, folder), folder / RUN_FILE) if writes else ()
    try:
        report = drawn_run(finished, folder, options.full_paths)
        if writes:
            files += write_reports(report, folder)
        if summary is not None:
            append_summary(summary, report.markdown())
    finally:
        full = on_page(finished, str(folder), plan_of_run(finished)).blocks if options.full else None
        screen.closed(full or on_one_screen(finished, folder, files))


def _dry_run(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Show what a search would do; nothing is started or written."""
    run, where, _ = _new(options, command)
    here = profile_here(run.measured_on, run.host, load_profiles())
    native_bf16 = ["bf16"] if here.is_cpu and run.host.cpu_bf16_native else []
    space = preview_space(run.options, run.target, run.host, (*here.native_precisions, *native_bf16))
    screen = SearchScreen(to_stderr=options.json)
    screen.opened(run, where)
    screen.preview(run, space)
    if options.json:
        sys.stdout.write(to_json(run) + "\n")
    return 0


def _new(options: argparse.Namespace, command: Sequence[str], folder: Path | None = None) -> _Prepared:
    """Return a new run for the options; nothing is written yet."""
    target = target_or_builtin(options, command)
    asked = search_options(options, builtin=target.builtin is not None)
    host = host_here(command)
    run = Run(options=asked, **before_trials(target, asked.gpu, host, load_profiles(), asked.ignored))
    # A host that shares the search makes its folder as it joins, beside those of others.
    asked_folder = None if options.share is not None else options.out
    return _Prepared(run, folder or new_folder(asked_folder, target.name, resume="a run"), host)


def search_options(options: argparse.Namespace, builtin: bool) -> SearchOptions:
    """Return the typed options.

    Args:
        options: what the parser read.
        builtin: the target is the built-in workload, which has a shorter budget and window.

    Raises:
        UsageError: a value can't be understood.
    """
    if options.objective == Objective.FINISH_TIME and not (options.epochs or options.planned_steps):
        raise UsageError(
            "--objective finish-time needs the length of the planned run; add --epochs N or --planned-steps N"
        )
    _command_line_overrides_settings(options)
    fixed, ranges = tuple(map(fixed_knob, options.fix)), tuple(map(_range, options.range))
    _refuse_two_limits(options)
    return typed_options(
        SearchOptions,
        options,
        fixed=fixed,
        ranges=ranges,
        budget_s=options.budget_s or usual_options(builtin).budget_s,
        window_s=window_s(options, builtin, options.budget_s),
        epochs_given=options.epochs is not None,
    )


def _command_line_overrides_settings(options: argparse.Namespace) -> None:
    """Drop a knob's values in the settings file where the command line sets others."""
    split = {name: file_and_line(options, name) for name in ("fix", "range")}
    given = {_knob_of(text) for _, of_line in split.values() for text in of_line}
    if options.max_batch == options.project.get("max_batch"):
        options.max_batch = None if "batch_size" in given else options.max_batch
    elif options.max_batch is not None:
        given.add("batch_size")
    for name, (of_file, of_line) in split.items():
        setattr(options, name, [text for text in of_file if _knob_of(text) not in given] + of_line)


def _knob_of(text: str) -> str:
    return text.partition("=")[0]


def _refuse_two_limits(options: argparse.Namespace) -> None:
    """Refuse two flags that limit the same knob."""
    most = {"batch_size": f"--max-batch {options.max_batch}"} if options.max_batch is not None else {}
    for name in ("fix", "range"):
        for text in getattr(options, name):
            given = most.setdefault(_knob_of(text), f"--{name} {text}")
            if given != f"--{name} {text}":
                raise UsageError(f"{given} and --{name} {text} both limit {_knob_of(text)}; drop one")


def _range(text: str) -> KnobRange:
    """Return the bounds in "knob=lo..hi"."""
    knob, _, bounds = text.partition("=")
    if knob not in NUMERIC_KNOBS:
        raise UsageError(f"--range {text}: no numeric knob {knob!r}; {knob_hint(knob, NUMERIC_KNOBS)}")
    low, high = (int(digits(bound) or -1) for bound in bounds.partition("..")[::2])
    least = KNOB[knob].least or 0
    if not least <= low <= high:
        raise UsageError(f"--range {text}: write it as {knob}=LO..HI, from {least} up, such as {knob}=8..64")
    return KnobRange(knob=knob, low=low, high=high)


# --- resuming ------------------------------------------------------------------------------


def _resumed(options: argparse.Namespace, command: Sequence[str]) -> _Prepared:
    """Return the run in the folder, its budget renewed by --budget."""
    try:
        run = load_run(options.resume)
    except DamagedRecordError as error:
        # The trial records are the truth; what else run.json held, the command line must say again.
        if not command:
            raise DamagedRecordError(
                f"{error}; to rebuild it from them, give the same flags and the training command after --"
            ) from error
        return _new(options, command, options.resume)
    _refuse_other_options(options)
    if run.shared_at is not None and run.status is not RunStatus.FINISHED:
        raise UsageError(
            f"the search in {options.resume} is shared; to resume it, take part again: "
            f"{resume_command(run, str(options.resume))}"
        )
    if not command or Path.cwd() != Path(run.target.working_dir):
        refuse_unseen_command(run, options.resume, ["search", "--resume", str(options.resume.resolve())])
    run = run.changed(shared_at=None)  # what one adds to the answer of all is this host's alone
    _refuse_other_target(run, command, options.resume)
    _refuse_other_threads(run)
    here = _same_machine(run)
    given = {one.name: getattr(options, one.name) for one in SEARCH if one.on_resume}
    asked = run.options.changed(**{name: value for name, value in given.items() if value})
    budget_s = options.budget_s or run.budget_s
    if options.budget_s is None and (options.confirm_rounds or options.ablate):
        budget_s = budget_for_more(run, asked)
    findings = warnings_of(here, asked.gpu, asked.ignored)
    run = run.changed(options=asked, budget_s=budget_s, machine_findings=findings)
    return _Prepared(run, options.resume, here)


def _refuse_other_options(options: argparse.Namespace) -> None:
    """Refuse flags that a resumed run would ignore: it keeps its own."""
    fixed = {one.flag: getattr(options, one.name) for one in SEARCH if not one.on_resume}
    given = [flag for flag, value in (fixed | {"--out": options.out}).items() if value]
    if given:
        changeable = ", ".join(one.flag for one in SEARCH if one.on_resume)
        raise UsageError(
            f"--resume keeps the run's own options, so {', '.join(given)} can't be changed; "
            f"only these can: {changeable}"
        )


def _refuse_other_target(run: Run, command: Sequence[str], folder: Path) -> None:
    """Refuse a command (given again with its secrets) or a script that is not the run's."""
    known = run.target
    # In the folder that it was made in, wherever this is run.
    target: Target = resolve_target(
        tuple(command) or known.command, Path(known.working_dir), builtin=known.builtin
    )
    if without_secrets(target).command != known.command:
        raise TargetChangedError(
            f"the run in {folder} is for {shlex.join(known.command)!r}, not for "
            f"{shlex.join(masked_words(command))!r}"
        )
    if target.script_sha256 != known.script_sha256:
        raise TargetChangedError(f"{known.script} has changed since the run in {folder}; start a new run")


def _refuse_other_threads(run: Run) -> None:
    """Refuse an environment whose CPU thread variables differ from the earlier trials'."""
    were, now = run.thread_variables, variables_here(THREAD_VARIABLES)
    changed = [
        f"{name} was {were.get(name, 'unset')} and is {now.get(name, 'unset')}"
        for name in THREAD_VARIABLES
        if were.get(name) != now.get(name)
    ]
    if changed:
        raise UsageError(
            f"the environment for CPU threads differs: {', '.join(changed)}; "
            "set it as it was, or start a new run"
        )


def _same_machine(run: Run) -> Host:
    """Return the run's machine as it is now; figures of two machines are never mixed."""
    here = host_here(run.target.command, working_dir=Path(run.target.working_dir))
    was, now = _machine_text(run.host), _machine_text(here)
    if was != now:
        raise UsageError(f"the run was measured on {was}; this machine is {now}: start a new run here")
    return here


def _machine_text(host: Host) -> str:
    gpus = ", ".join(gpu.name for gpu in host.accelerators) or "no GPU"
    return f"{host.cpu_name or 'unknown CPU'} with {count_text(host.cpus, 'CPU')} and {gpus}"


def _report_so_far(run: Run, folder: Path, full_paths: bool, screen: SearchScreen) -> None:
    """Write the reports of an interrupted or failed search, if it measured anything."""
    if all(record.measurement is None for record in run.trials):
        return
    try:
        html, _ = write_reports(drawn_run(run, folder, full_paths), folder)
    except RunFolderError as error:
        screen.said(str(error))
    else:
        screen.reported_so_far(html)
