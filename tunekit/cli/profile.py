"""`tunekit profile`: everything about one config's loop on one screen."""

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from tunekit import __version__
from tunekit.cli.findings import add_findings
from tunekit.cli.numbers import duration_s, positive, positive_number
from tunekit.cli.search_arguments import add_fix, add_target_arguments, fixed_knobs, window_s
from tunekit.errors import UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tunekit.records.loop_profile import LoopProfile, ProfileOptions
    from tunekit.records.profile import Profile
    from tunekit.records.target import Target
    from tunekit.search.profile_walk import Against

_COMPARED_ROUNDS = 3

_EPILOG = """\
example: tunekit profile --ablate -- python train.py --config configs/full.yaml
a file for --against, written by hand; a knob that it does not name stays as the script has it:
  num_workers: 4
  precision: bf16"""


class _KeepsIndentedLines(argparse.HelpFormatter):
    """Wraps each line of a text by itself, but for those that are indented."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n".join(
            line if line.startswith(" ") else super(_KeepsIndentedLines, self)._fill_text(line, width, indent)
            for line in text.splitlines()
        )


def add_verb(verbs: "_SubParsersAction[argparse.ArgumentParser]") -> argparse.ArgumentParser:
    """Add the verb to the parser and return its own."""
    parser = verbs.add_parser(
        "profile",
        help="look into one config's loop: where a step's time and memory go, and what would help",
        usage="tunekit profile [options] [-- COMMAND ...]",
        description=(
            "Run the training command as it is, measure it, and show where a step's time goes, what the "
            "loader and the model take of the memory, and what would help. --against compares it with "
            "another config, --ablate measures each optimisation by itself and added in turn. Without a "
            "command it looks into the built-in workload `images`."
        ),
        epilog=_EPILOG,
        formatter_class=_KeepsIndentedLines,
    )
    target = parser.add_argument_group("the target")
    add_target_arguments(target)
    add_fix(target, "change a knob before looking (repeatable)")
    _add_comparison(parser.add_argument_group("what to measure"))
    output = parser.add_argument_group("where it goes")
    output.add_argument(
        "--out", type=Path, metavar="FOLDER", help="folder (default: reports/TARGET-profile-DATE)"
    )
    output.add_argument(
        "--json",
        action="store_true",
        help="print the profile as JSON instead of the report; progress on stderr",
    )
    add_findings(output)
    parser.set_defaults(verb=run_verb)
    return parser


def _add_comparison(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--window", type=positive_number(), metavar="S", help="steady seconds per trial (default: 5)"
    )
    group.add_argument(
        "--rounds",
        type=positive,
        metavar="N",
        help=(
            "fresh processes of each config, interleaved "
            f"(default: 1; {_COMPARED_ROUNDS} with --against or --ablate)"
        ),
    )
    group.add_argument(
        "--against", type=Path, metavar="FILE.yaml", help="compare with this config: a search's, or knobs"
    )
    group.add_argument(
        "--ablate", action="store_true", help="measure each optimisation by itself and added in turn"
    )
    group.add_argument(
        "--budget",
        type=duration_s,
        metavar="TIME",
        help=(
            "run fewer rounds where all would take longer, but one of each config at least, such as 15m; "
            "a plain number is seconds (default: no limit)"
        ),
    )
    group.add_argument(
        "--trace-kernels", action="store_true", help="trace a few steps with torch.profiler as well"
    )


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Look into the loop, write profile.json and show it.

    Returns:
        0; every failure is an exception.
    """
    from tunekit.cli.profile_screen import ProfileScreen  # noqa: PLC0415 - slow; --help must be instant
    from tunekit.cli.trials import executor_for, make_images  # noqa: PLC0415
    from tunekit.search.folder import RunFolder  # noqa: PLC0415
    from tunekit.search.profile_walk import ProfileWalk  # noqa: PLC0415

    profile = _new(options, command)
    against = _against(options.against, profile.target) if options.against else None
    where = _folder(options.out, profile.target.name)
    with RunFolder(where, can_resume=False) as folder, ProfileScreen(to_stderr=options.json) as screen:
        screen.opened(profile, folder.path)
        make_images(profile, screen)
        executor = executor_for(profile, folder, profile.host, command)
        walk = ProfileWalk(profile, folder, executor, _device_here(profile), screen, against)
        try:
            finished = walk.run()
        except KeyboardInterrupt:
            screen.interrupted(folder.path)
            raise
        screen.closed(finished, folder.path)
    if options.json:
        from tunekit.records.codec import to_json  # noqa: PLC0415

        sys.stdout.write(to_json(finished) + "\n")
    return 0


def _new(options: argparse.Namespace, command: Sequence[str]) -> "LoopProfile":
    """Return the profile before its first trial; nothing is written yet."""
    from tunekit.cli.machine import host_here, warnings_of  # noqa: PLC0415
    from tunekit.cli.targets import target_or_builtin  # noqa: PLC0415
    from tunekit.hardware.device import device_profile  # noqa: PLC0415
    from tunekit.hardware.profiles import load_profiles  # noqa: PLC0415
    from tunekit.records.loop_profile import LoopProfile  # noqa: PLC0415
    from tunekit.records.run import RunStatus  # noqa: PLC0415

    host = host_here(command)
    profile, measured_on = device_profile(options.gpu, host, load_profiles())
    target = target_or_builtin(options, command)
    return LoopProfile(
        tunekit_version=__version__,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        status=RunStatus.RUNNING,
        target=target,
        options=_options(options, builtin=target.builtin is not None),
        host=host,
        profile=profile,
        measured_on=measured_on,
        machine_findings=warnings_of(host, options.gpu, options.ignore),
    )


def _options(options: argparse.Namespace, builtin: bool) -> "ProfileOptions":
    """Return the typed options.

    Raises:
        UsageError: a value can't be understood.
    """
    from tunekit.records.loop_profile import ProfileOptions  # noqa: PLC0415

    compares = options.ablate or options.against is not None
    return ProfileOptions(
        gpu=options.gpu,
        fixed=fixed_knobs(options.fix),
        rounds=options.rounds or (_COMPARED_ROUNDS if compares else 1),
        window_s=window_s(options, builtin),
        trial_limit_s=options.trial_limit,
        no_progress_limit_s=options.no_progress_limit,
        budget_s=options.budget,
        kernels=options.trace_kernels,
        ablate=options.ablate,
        ignored=tuple(options.ignore),
        against=str(options.against) if options.against else None,
    )


def _against(path: Path, target: "Target") -> "Against":
    """Return the config of a file, whose keys are those of the search beside it, else our own names.

    Raises:
        UsageError: the file can't be read, or holds a key that is no knob's.
    """
    from tunekit.export.tuned import read_knobs  # noqa: PLC0415
    from tunekit.search.folder import RUN_FILE, load_run  # noqa: PLC0415
    from tunekit.search.profile_walk import Against  # noqa: PLC0415

    asked = read_knobs(path)
    if (path.parent / RUN_FILE).exists():
        target = load_run(path.parent).target
    if not set(asked.knobs(target).values()) - {"lr"}:
        raise UsageError(
            f"{path} names no knob, so there is nothing to compare; add one, such as num_workers"
        )
    return Against(path.name, lambda own, on_gpu: asked.over(own, target, on_gpu=on_gpu).config)


def _folder(asked: Path | None, name: str) -> Path:
    """Return the folder to write.

    Raises:
        UsageError: it holds something already.
    """
    from tunekit.cli.search import default_folder  # noqa: PLC0415

    folder = asked or default_folder(f"{name}-profile")
    taken = any((folder / file).exists() for file in ("profile.json", "run.json"))
    if taken or any(folder.glob("trials/*/trial.json")):
        raise UsageError(f"{folder} already holds trials; give another folder with --out")
    return folder


def _device_here(profile: "LoopProfile") -> "Profile":
    from tunekit.hardware.device import profile_here  # noqa: PLC0415
    from tunekit.hardware.profiles import load_profiles  # noqa: PLC0415

    return profile_here(profile.measured_on, profile.host, load_profiles())
