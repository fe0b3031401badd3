"""`tunekit fits`: what fits which GPU and how fast that would be, by one trial on this machine."""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tunekit import __version__
from tunekit.cli.findings import add_findings
from tunekit.cli.numbers import positive, positive_number
from tunekit.cli.search_arguments import add_command_arguments
from tunekit.errors import UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tunekit.records.fits import FitsRun
    from tunekit.records.profile import Profile

_WINDOW_S = 2.0


def add_verb(verbs: "_SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the verb to the parser and return its own."""
    parser = verbs.add_parser(
        "fits",
        help="predict the largest batch and the rate on every GPU, from one short trial here",
        usage="tunekit fits [options] [-- COMMAND ...]",
        description=(
            "Run the training command once as it is, on whatever this machine has: a CPU will do. It traces "
            "what a step allocates and computes at two small batch sizes (on a CPU by shapes alone, without "
            "the arithmetic), and predicts from that the largest batch that fits each GPU, what takes the "
            "memory, and the samples/s that GPU and loader would reach. Nothing is run on those GPUs. "
            "Without a command it looks at the built-in workload `images`."
        ),
        epilog="example: tunekit fits --gpu t4 --gpu a10g --batch 256 -- python train.py",
    )
    add_command_arguments(parser.add_argument_group("the target"))
    asked = parser.add_argument_group("what to tell")
    asked.add_argument(
        "--gpu",
        dest="gpus",
        action="append",
        default=[],
        metavar="NAME",
        help="only this GPU (repeatable; default: all that tunekit gpus lists)",
    )
    asked.add_argument(
        "--batch", type=positive, metavar="N", help="say where this batch size fits, and how fast it would be"
    )
    asked.add_argument(
        "--window",
        type=positive_number(),
        metavar="S",
        help="seconds that the loader alone, or on a GPU the loop, is timed (default: 2)",
    )
    output = parser.add_argument_group("where it goes")
    output.add_argument(
        "--out", type=Path, metavar="FOLDER", help="folder (default: reports/TARGET-fits-DATE)"
    )
    output.add_argument(
        "--json",
        action="store_true",
        help="print the prediction as JSON instead of the report; progress on stderr",
    )
    add_findings(output)
    parser.set_defaults(verb=run_verb)
    return parser


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Run the trial, write fits.json and show what it predicts.

    Returns:
        0; every failure is an exception.
    """
    from tunekit.cli.fits_screen import FitsScreen  # noqa: PLC0415 - slow; --help must be instant
    from tunekit.cli.trials import executor_for, make_images  # noqa: PLC0415
    from tunekit.hardware.gpu.calibrations import load_calibrations  # noqa: PLC0415
    from tunekit.hardware.gpu.outside_torch import outside_torch  # noqa: PLC0415
    from tunekit.search.fits_walk import FitsInterrupted, FitsWalk  # noqa: PLC0415
    from tunekit.search.folder import RunFolder  # noqa: PLC0415

    run, profiles = _new(options, command)
    calibrations = load_calibrations()
    where = _folder(options.out, run.target.name)
    with RunFolder(where, can_resume=False) as folder, FitsScreen(to_stderr=options.json) as screen:
        screen.opened(run, folder.path)
        make_images(run, screen)
        executor = executor_for(run, folder, run.host, command)
        walk = FitsWalk(
            run,
            folder,
            executor,
            screen,
            profiles,
            lambda profile, benchmarks_cudnn: outside_torch(profile, calibrations, benchmarks_cudnn),
        )
        try:
            finished = walk.run()
        except FitsInterrupted as stopped:
            screen.interrupted(stopped.run, folder.path)
            raise
        except KeyboardInterrupt:
            screen.interrupted()
            raise
        screen.closed(finished, folder.path)
    if options.json:
        from tunekit.records.codec import to_json  # noqa: PLC0415

        sys.stdout.write(to_json(finished) + "\n")
    return 0


def _new(options: argparse.Namespace, command: Sequence[str]) -> "tuple[FitsRun, list[Profile]]":
    """Return what is known before the trial, and the GPUs to tell of; nothing is written yet."""
    from tunekit.cli.machine import host_here, warnings_of  # noqa: PLC0415
    from tunekit.cli.targets import target_or_builtin  # noqa: PLC0415
    from tunekit.hardware.device import AUTO, device_profile  # noqa: PLC0415
    from tunekit.hardware.profiles import load_profiles  # noqa: PLC0415
    from tunekit.records.fits import FitsOptions, FitsRun  # noqa: PLC0415
    from tunekit.records.run import RunStatus  # noqa: PLC0415

    known = load_profiles()
    host = host_here(command)
    here, measured_on = device_profile(AUTO, host, known)
    known[here.id] = here  # which may have less memory than its kind, or no profile at all
    asked = _named(options.gpus, known)
    run = FitsRun(
        tunekit_version=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        status=RunStatus.RUNNING,
        target=target_or_builtin(options, command),
        options=FitsOptions(
            gpus=tuple(profile.id for profile in asked),
            batch_size=options.batch,
            window_s=options.window or _WINDOW_S,
            trial_limit_s=options.trial_limit,
            no_progress_limit_s=options.no_progress_limit,
        ),
        host=host,
        profile=here,
        measured_on=measured_on,
        machine_findings=warnings_of(host, AUTO, options.ignore),
    )
    return run, asked or [profile for profile in known.values() if profile.has_own_memory]


def _named(names: Sequence[str], known: "dict[str, Profile]") -> "list[Profile]":
    """Return the GPUs that were asked for, each once.

    Raises:
        UnknownGpuError: a name has no profile.
        UsageError: one has no memory of its own that is known.
    """
    from tunekit.hardware.profiles import find_profile  # noqa: PLC0415

    asked = {profile.id: profile for profile in (find_profile(name, known) for name in names)}
    for profile in asked.values():
        if not profile.has_own_memory:
            raise UsageError(
                f"--gpu {profile.id}: it has no memory of its own that is known, so nothing can be said of "
                "what fits; tunekit gpus lists those that have"
            )
    return list(asked.values())


def _folder(asked: Path | None, name: str) -> Path:
    """Return the folder to write.

    Raises:
        UsageError: it holds something already.
    """
    from tunekit.cli.search import default_folder  # noqa: PLC0415

    folder = asked or default_folder(f"{name}-fits")
    taken = any((folder / file).exists() for file in ("fits.json", "profile.json", "run.json"))
    if taken or any(folder.glob("trials/*/trial.json")):
        raise UsageError(f"{folder} already holds trials; give another folder with --out")
    return folder
