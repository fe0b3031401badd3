"""`tunekit init`: run the script, show what was found, try and write how knobs reach it."""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tunekit.cli.search_arguments import add_target_arguments
from tunekit.errors import UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from rich.console import Console

    from tunekit.records.host import Host
    from tunekit.records.target import Binding, Target
    from tunekit.records.trial import TrialRecord
    from tunekit.report.blocks import Table
    from tunekit.report.discovered import KnobRow
    from tunekit.search.reach import Surroundings
    from tunekit.trial.executor import KnownTarget, TrialSpec
    from tunekit.trial.tried import TriedBinding

_WINDOW_S = 1.0


def add_verb(verbs: "_SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the verb to the parser and return its own."""
    parser = verbs.add_parser(
        "init",
        help="run a training command briefly, show its loop, write how knobs reach it",
        usage="tunekit init [options] -- COMMAND ...",
        description=(
            "Run the training command for a moment as it is, show the loaders, modules and optimizers that "
            "were found and how each knob reaches them. What the command's own options, words and files can "
            "set is tried once with another value; what the loop followed is written to [tool.tunekit.bind] "
            "in pyproject.toml, or to tunekit.toml where there is no pyproject.toml."
        ),
        epilog="example: tunekit init -- python train.py --config configs/full.yaml",
    )
    add_target_arguments(parser.add_argument_group("the target"))
    parser.add_argument("--dry-run", action="store_true", help="show what was found, write nothing")
    parser.add_argument("--replace", action="store_true", help="replace bindings that were written before")
    parser.set_defaults(verb=run_verb)
    return parser


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run the script, show, try and write.

    Raises:
        UsageError: there is no command.
        TargetError: the command can't be run or never trains.
    """
    if not command:
        raise UsageError("no training command; give it after --, as in: tunekit init -- python train.py")
    from tunekit.cli.machine import host_here  # noqa: PLC0415 - slow to import; --help must be instant
    from tunekit.cli.pipes import lasting_console  # noqa: PLC0415
    from tunekit.cli.settings_text import write_settings  # noqa: PLC0415
    from tunekit.cli.targets import target_of  # noqa: PLC0415
    from tunekit.report.discovered import discovery_tables, loop_sentence, why_left_alone  # noqa: PLC0415
    from tunekit.report.terminal import draw, say  # noqa: PLC0415

    console = lasting_console(highlight=False)
    target = target_of(options, command)
    with console.status("running the script once, for a few seconds of its loop"):
        host = host_here(target.command)
        record = _baseline(target, host, options)
        possible = _possible_batch(target, record)
        if possible is not None:
            target = target.changed(bindings=(*target.bindings, possible))
            record = _baseline(target, host, options)
        _insist_on_loop(record)
    assert record.discovery is not None and record.config is not None
    loop = record.measurement.loop if record.measurement else None
    say(console, loop_sentence(record.discovery, record.config, loop), "bold")
    tried = _tried(target, host, record, options, console)
    target = target.changed(bindings=_kept(target, tried))
    rows = _knob_rows(_surroundings(target, host, record, options.gpu))
    draw(console, (*discovery_tables(record.discovery, rows), _tried_table(tried)))
    console.print()
    reasons = (*why_left_alone(rows), *_notes(record, tried))
    if reasons:
        say(console, "Left alone", "bold")
    for reason in reasons:
        say(console, f"  {reason}")
    console.print()
    if options.dry_run or not target.bindings:
        say(
            console,
            "nothing was written" if options.dry_run else "nothing to bind: the agent reaches the rest",
        )
        return 0
    path = write_settings(Path.cwd(), target.bindings, replace=options.replace)
    say(console, f"written to {path}; search reads it from there")
    return 0


def _baseline(target: "Target", host: "Host", options: argparse.Namespace) -> "TrialRecord":
    """Run the script as it is until its loop is known."""
    from tunekit.records.trial import TrialRole  # noqa: PLC0415
    from tunekit.trial.executor import TrialSpec  # noqa: PLC0415

    return _run_trial(target, TrialSpec(0, TrialRole.BASELINE, None), None, host, options)


def _run_trial(
    target: "Target",
    spec: "TrialSpec",
    known: "KnownTarget | None",
    host: "Host",
    options: argparse.Namespace,
) -> "TrialRecord":
    """Run one short trial in a folder that goes with it."""
    from tunekit.trial.executor import ProcessExecutor  # noqa: PLC0415
    from tunekit.trial.watch import TREE_RAM_SHARE, Limits  # noqa: PLC0415

    limits = Limits(
        trial_s=options.trial_limit,
        start_s=options.trial_limit,
        no_progress_s=options.no_progress_limit,
        ram_bytes=int(TREE_RAM_SHARE * host.ram_limit_bytes),
    )
    with tempfile.TemporaryDirectory(prefix="tunekit-init-") as folder:
        executor = ProcessExecutor(target, Path(folder), limits, _WINDOW_S, hide_gpus=options.gpu == "cpu")
        return executor.run(spec, known, lambda progress: None)


def _possible_batch(target: "Target", record: "TrialRecord") -> "Binding | None":
    """Return the place that a script seems to have for its batch size, where that is not known."""
    from tunekit.records.trial import OutcomeKind  # noqa: PLC0415
    from tunekit.trial.suggest import possible_batch  # noqa: PLC0415

    is_unknown = record.failure is not None and record.failure.kind is OutcomeKind.SAMPLES_UNKNOWN
    return possible_batch(target, record.discovery) if is_unknown and record.discovery else None


def _insist_on_loop(record: "TrialRecord") -> None:
    """Refuse a script whose loop is not known.

    Raises:
        TargetError: it fails, or never trains.
    """
    from tunekit.search.refusal import baseline_error  # noqa: PLC0415

    known = record.discovery is not None and record.discovery.complete and record.config is not None
    if record.failure is not None and not known:
        raise baseline_error(record.failure)


def _tried(
    target: "Target",
    host: "Host",
    record: "TrialRecord",
    options: argparse.Namespace,
    console: "Console",
) -> "tuple[TriedBinding, ...]":
    """Try the user's own bindings, and the places that the command, its files and its options have."""
    from tunekit.trial.executor import KnownTarget  # noqa: PLC0415
    from tunekit.trial.suggest import candidate_bindings  # noqa: PLC0415
    from tunekit.trial.tried import is_tryable, try_bindings  # noqa: PLC0415

    assert record.config is not None and record.discovery is not None
    seen = record.config.model_dump() | {"lr": record.discovery.learning_rate}
    own = {one.knob: (one,) for one in target.bindings if is_tryable(one)}
    candidates = {**own, **candidate_bindings(target, seen, record.discovery)}
    known = KnownTarget(record.discovery, record.config)
    tried = []
    with console.status("trying each binding once, with another value") as status:
        for one in try_bindings(
            candidates, target, known, lambda bound, spec, base: _run_trial(bound, spec, base, host, options)
        ):
            tried.append(one)
            status.update(f"trying each binding once, with another value: {one.binding.knob} is done")
    return tuple(tried)


def _kept(target: "Target", tried: "Sequence[TriedBinding]") -> "tuple[Binding, ...]":
    """Return the bindings that worked, and those that no trial can show to work."""
    from tunekit.trial.tried import is_tryable  # noqa: PLC0415

    untried = (one for one in target.bindings if not is_tryable(one))
    return (*untried, *(one.binding for one in tried if one.works))


def _tried_table(tried: "Sequence[TriedBinding]") -> "Table":
    from tunekit.report.discovered import TriedRow, tried_table  # noqa: PLC0415
    from tunekit.trial.binding_syntax import binding_text  # noqa: PLC0415
    from tunekit.trial.spelling import value_text  # noqa: PLC0415

    return tried_table(
        [TriedRow(binding_text(one.binding), value_text(one.value), one.did, one.works) for one in tried]
    )


def _notes(record: "TrialRecord", tried: "Sequence[TriedBinding]") -> list[str]:
    """Return what else a reader has to know of the command line."""
    from tunekit.recommend.learning_rate import follows_batch  # noqa: PLC0415
    from tunekit.trial.suggest import batch_of_all_ranks  # noqa: PLC0415

    assert record.discovery is not None and record.config is not None
    notes = []
    whole = batch_of_all_ranks(record.discovery, record.config.batch_size)
    if whole is not None:
        notes.append(
            f"batch_size: {whole} holds the batch of all {record.discovery.world_size} ranks together, and "
            "the knob is that of one rank"
        )
    sizes = [one.record for one in tried if one.record is not None and one.binding.knob == "batch_size"]
    if follows_batch([record, *sizes]):
        notes.append("lr: the script scales its learning rate itself, so no rule is applied on top")
    return notes


def _surroundings(target: "Target", host: "Host", record: "TrialRecord", gpu: str) -> "Surroundings":
    from tunekit.hardware.device import AUTO, CPU, profile_here, with_first  # noqa: PLC0415
    from tunekit.hardware.profiles import load_profiles  # noqa: PLC0415
    from tunekit.search.reach import Surroundings  # noqa: PLC0415

    assert record.config is not None and record.discovery is not None
    measured = record.measurement or record.dry
    if measured is not None:
        host = with_first(host, measured.loop.device)
    on_cpu = CPU in (record.discovery.device_type, gpu)
    profile = profile_here(CPU if on_cpu else AUTO, host, load_profiles())
    return Surroundings(
        host=host.per_rank(record.discovery.world_size),
        profile=profile,
        native_bf16=host.cpu_bf16_native,
        discovery=record.discovery,
        baseline=record.config,
        target=target,
    )


def _knob_rows(around: "Surroundings") -> "list[KnobRow]":
    from tunekit.records.config import KNOBS  # noqa: PLC0415
    from tunekit.report.discovered import KnobRow  # noqa: PLC0415
    from tunekit.search.reach import reach_of  # noqa: PLC0415
    from tunekit.trial.binding_syntax import binding_text  # noqa: PLC0415

    rows = []
    for knob in KNOBS:
        reach = reach_of(knob, around)
        binding = around.target.binding_of(knob)
        how = binding_text(binding).partition("=")[2] if binding and not reach.why_fixed else str(reach.kind)
        rows.append(KnobRow(knob, str(getattr(around.baseline, knob)), how, reach.why_fixed or ""))
    lr = around.target.binding_of("lr")
    if lr is not None:
        seen = around.discovery.learning_rate
        now = "n/a" if seen is None else f"{seen:.6g}"
        rows.append(KnobRow("lr", now, binding_text(lr).partition("=")[2], ""))
    return rows
