"""`tunekit init`: run the script, show what was found, test how knobs reach it and save that."""

import argparse
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from tunekit.cli.machine import host_here
from tunekit.cli.settings import write_settings
from tunekit.cli.trials import limits_of, target_of, typed_options
from tunekit.errors import UsageError
from tunekit.machine.device import AUTO, CPU, profile_here, with_first
from tunekit.machine.profiles import load_profiles
from tunekit.recommend.learning_rate import follows_batch
from tunekit.records.config import KNOBS
from tunekit.records.host import Host
from tunekit.records.run import TrialOptions
from tunekit.records.target import Target
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.report.discovery import KnobRow, binding_trials_table, discovery_tables, loop_sentence
from tunekit.report.terminal import draw, say
from tunekit.report.text import by_text
from tunekit.session.session import target_error
from tunekit.trial.binding_suggestions import (
    batch_of_all_ranks,
    candidate_bindings,
    without_unknown_flags,
)
from tunekit.trial.binding_syntax import how_text
from tunekit.trial.binding_trials import BindingTrial, try_bindings
from tunekit.trial.executor import KnownTarget, ProcessExecutor, TrialSpec
from tunekit.tune.knob_access import SearchContext, access_of

_WINDOW_S = 1.0


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run the script, show, try and write.

    Raises:
        UsageError: there is no command.
        TargetError: the command can't be run or never trains.
    """
    if not command:
        raise UsageError("no training command; give it after --, as in: tunekit init -- python train.py")
    console = Console(highlight=False)
    target = target_of(options, command)
    with console.status("running the script once, for a few seconds of its loop"):
        host = host_here(target.command)
        target, record = _learnt(target, host, options, console)
    assert record.discovery is not None and record.config is not None
    known = KnownTarget(record.discovery, record.config)
    loop = record.measurement.loop if record.measurement else None
    say(console, loop_sentence(known.discovery, known.baseline, loop), "bold")
    tried = _tried(target, host, known, options, console)
    # What worked is kept, and what no trial can show to work.
    untried = (one for one in target.bindings if not target.is_bound(one.knob))
    target = target.changed(bindings=(*untried, *(one.binding for one in tried if one.works)))
    rows = _knob_rows(_search_context(target, host, known, record, options.gpu))
    draw(console, (*discovery_tables(known.discovery, rows), binding_trials_table(tried)))
    console.print()
    reasons = (*by_text((row.knob, row.why) for row in rows), *_notes(known, record, tried))
    if reasons:
        say(console, "Not changed", "bold")
    for reason in reasons:
        say(console, f"  {reason}")
    console.print()
    done = "nothing was written" if target.bindings else "nothing to bind: tunekit sets the knobs by itself"
    if target.bindings and not options.dry_run:
        path = write_settings(Path.cwd(), command, target.bindings)
        done = f"written to {path}; search reads it from there"
    say(console, done)
    return 0


def _learnt(
    target: Target, host: Host, options: argparse.Namespace, console: Console
) -> tuple[Target, TrialRecord]:
    """Return the trial of the unchanged script, and the target with its possible bindings."""
    spec = TrialSpec(0, TrialRole.BASELINE, None)
    record = _run_trial(target, spec, None, host, options)
    known = record.discovery is not None and record.discovery.complete and record.config is not None
    if record.failure is not None and not known:
        raise target_error(record.failure)
    assert record.discovery is not None
    target, said = without_unknown_flags(target, record.discovery)
    for message in said:
        say(console, message)
    return target, record


def _run_trial(
    target: Target, spec: TrialSpec, known: KnownTarget | None, host: Host, options: argparse.Namespace
) -> TrialRecord:
    """Run one short trial in a folder that goes with it."""
    limits = limits_of(typed_options(TrialOptions, options), host)
    with tempfile.TemporaryDirectory(prefix="tunekit-init-") as folder:
        executor = ProcessExecutor(target, Path(folder), limits, _WINDOW_S, hide_gpus=options.gpu == "cpu")
        return executor.run(spec, known, lambda progress: None)


def _tried(
    target: Target, host: Host, known: KnownTarget, options: argparse.Namespace, console: Console
) -> tuple[BindingTrial, ...]:
    """Try the user's own bindings, and the places that the command, its files and its options have."""
    seen = known.baseline.model_dump() | {"lr": known.discovery.learning_rate}
    given = {one.knob: (one,) for one in target.bindings if target.is_bound(one.knob)}
    candidates = {**given, **candidate_bindings(target, seen, known.discovery)}
    run = partial(_run_trial, host=host, options=options)
    with console.status("trying each binding once, with another value"):
        return tuple(try_bindings(candidates, target, known, run))


def _notes(known: KnownTarget, record: TrialRecord, tried: Sequence[BindingTrial]) -> list[str]:
    """Return notes on the command line."""
    notes = []
    whole = batch_of_all_ranks(known.discovery, known.baseline.batch_size)
    if whole is not None:
        ranks = f"all {known.discovery.world_size} ranks"
        notes.append(
            f"batch_size: {whole} holds the global batch of {ranks}; the knob is the batch of one rank"
        )
    sizes = [one.record for one in tried if one.record is not None and one.binding.knob == "batch_size"]
    if follows_batch([record, *sizes]):
        notes.append("lr: the script scales its learning rate itself, so no rule is applied on top")
    return notes


def _search_context(
    target: Target, host: Host, known: KnownTarget, record: TrialRecord, gpu: str | None
) -> SearchContext:
    measured = record.measurement or record.dry
    if measured is not None:
        host = with_first(host, measured.loop.device)
    on_cpu = CPU in (known.discovery.device_type, gpu)
    profile = profile_here(CPU if on_cpu else AUTO, host, load_profiles())
    return SearchContext(
        host=host.per_rank(known.discovery.world_size),
        profile=profile,
        native_bf16=host.cpu_bf16_native,
        discovery=known.discovery,
        baseline=known.baseline,
        target=target,
    )


def _knob_rows(context: SearchContext) -> list[KnobRow]:
    rows = []
    for knob in KNOBS:
        access = access_of(knob, context)
        binding = context.target.binding_of(knob)
        how = how_text(binding) if binding and not access.why_fixed else str(access.kind)
        rows.append(KnobRow(knob, str(getattr(context.baseline, knob)), how, access.why_fixed or ""))
    lr = context.target.binding_of("lr")
    if lr is not None:
        seen = context.discovery.learning_rate
        now = "n/a" if seen is None else f"{seen:.6g}"
        rows.append(KnobRow("lr", now, how_text(lr), ""))
    return rows
