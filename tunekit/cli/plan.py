"""`tunekit plan`: what a training costs on each GPU and machine, in hours and dollars."""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tunekit.cli.numbers import duration_s, long_duration_s, positive, positive_count, positive_number
from tunekit.cli.report_files import add_report_files, check_report_files, show, texts_of, write_files
from tunekit.errors import UsageError
from tunekit.units import GIB, bytes_text

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tunekit.plan.from_run import Wishes
    from tunekit.records.plan import PlanAssumptions, PlanRequest
    from tunekit.records.profile import Profile

_TIERS = ("conservative", "balanced", "aggressive")
_PRECISIONS = ("fp32", "tf32", "bf16", "fp16")
_MAX_RATE = 1e12
_MAX_GIB = 1e6

_OF_A_RATE = ("gpu", "gpus", "precision")


def add_verb(verbs: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "plan",
        help="hours and dollars of the whole training on each GPU and machine",
        usage="tunekit plan RUN [options]\n       tunekit plan --rate R --samples N --epochs N [options]",
        description=(
            "Show what a training takes on each GPU and rentable machine, from a run's confirmed rate or "
            "from one that you know. Hours on another GPU, or on more of them, are predictions."
        ),
        epilog="example: tunekit plan --rate 180 --samples 1281167 --epochs 90 --gpu a10g --precision bf16",
    )
    parser.add_argument("run", metavar="RUN", type=Path, nargs="?", help="the folder that a search wrote")
    _add_training(parser.add_argument_group("the training"))
    _add_assumptions(parser.add_argument_group("assumptions"))
    _add_machines(parser.add_argument_group("the machines"))
    parser.set_defaults(verb=run_verb)


def _add_training(group: argparse._ArgumentGroup) -> None:
    group.add_argument("--tier", choices=_TIERS, help="whose rate to take from the run (default: balanced)")
    group.add_argument(
        "--rate",
        type=positive_number("samples/s", _MAX_RATE),
        metavar="R",
        help="measured samples/s, instead of a run",
    )
    group.add_argument(
        "--samples", type=positive_count, metavar="N", help="samples per epoch (default: what the run saw)"
    )
    group.add_argument("--epochs", type=positive, metavar="N", help="epochs (default: the run's)")
    group.add_argument("--gpu", metavar="NAME", help="where --rate was measured (default: the GPU here)")
    group.add_argument(
        "--gpus", type=positive, metavar="N", help="GPUs that --rate was measured on (default: 1)"
    )
    group.add_argument(
        "--precision", choices=_PRECISIONS, help="what --rate was measured in (default: fp32, assumed)"
    )
    group.add_argument(
        "--memory-gib",
        type=positive_number("GiB", _MAX_GIB),
        metavar="N",
        help="peak memory per GPU, which decides where it fits (default: what the run reserved)",
    )


def _add_assumptions(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--max-session",
        type=long_duration_s,
        default="12h",
        metavar="TIME",
        help="longest Colab session (default: 12h)",
    )
    checkpoints = group.add_mutually_exclusive_group()
    checkpoints.add_argument(
        "--checkpoint-cost",
        type=duration_s,
        default="30s",
        metavar="TIME",
        help="time to write a checkpoint (default: 30s)",
    )
    checkpoints.add_argument(
        "--no-checkpoints", action="store_true", help="the script writes none that it could resume from"
    )
    group.add_argument(
        "--restart-cost",
        type=duration_s,
        default="5m",
        metavar="TIME",
        help="from an interruption to the first step after it (default: 5m)",
    )
    group.add_argument(
        "--interrupted-every",
        type=long_duration_s,
        default="4h",
        metavar="TIME",
        help="mean time between interruptions of a spot machine (default: 4h)",
    )
    group.add_argument(
        "--scaling",
        default="0.8..1.0",
        metavar="LO..HI",
        help="efficiency of more GPUs than measured: rate per GPU, as a share (default: 0.8..1.0)",
    )


def _add_machines(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--provider", action="append", default=[], metavar="NAME", help="only of this provider (repeatable)"
    )
    group.add_argument(
        "--only", action="append", default=[], metavar="GPU", help="only with this GPU (repeatable)"
    )
    group.add_argument(
        "--max-hours", type=positive_number("hours"), metavar="H", help="leave out what needs longer"
    )
    group.add_argument("--spot", action="store_true", help="let the choices use spot prices too")
    group.add_argument("--all", action="store_true", help="show every machine, not only the first")
    group.add_argument("--json", action="store_true", help="print the plan as JSON")
    add_report_files(group)


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Make the plan, show it and return 0.

    Raises:
        UsageError: there is a training command, which this verb has no use for, or a flag can't be used.
    """
    if command:
        raise UsageError(f"plan takes no training command, got {' '.join(command)!r}; give a run or --rate")
    _refuse_mixtures(options)
    check_report_files(options)
    from datetime import UTC, datetime  # noqa: PLC0415 - as below, --help must be instant

    from rich.console import Console  # noqa: PLC0415

    from tunekit.hardware.profiles import load_profiles  # noqa: PLC0415
    from tunekit.plan.plan import make_plan  # noqa: PLC0415
    from tunekit.report.blocks import WIDE  # noqa: PLC0415
    from tunekit.report.plan import plan_report  # noqa: PLC0415
    from tunekit.report.terminal import draw  # noqa: PLC0415

    profiles = load_profiles()
    wishes = _wishes(options, profiles)
    if options.run is None:
        request = _request_of_rate(options, wishes, profiles)
    else:
        request, profiles = _request_of_run(options, wishes, profiles)
    plan = make_plan(request, profiles, datetime.now(UTC).date())
    texts = texts_of(
        plan, lambda public: plan_report(public, WIDE, options.all), "plan.json", options.full_paths
    )
    write_files(options, texts)
    console = Console(highlight=False)
    show(options, texts, plan, lambda: draw(console, plan_report(plan, console.width, options.all).blocks))
    return 0


def _refuse_mixtures(options: argparse.Namespace) -> None:
    """Refuse flags that contradict each other, or would be ignored.

    Raises:
        UsageError: there are some.
    """
    if options.run is None and options.rate is None:
        raise UsageError("plan needs a rate: give a run folder, or --rate with --samples and --epochs")
    if options.run is not None and options.rate is not None:
        raise UsageError(
            f"{options.run} has its own rate, so --rate {options.rate:g} is one too many; drop one"
        )
    if options.rate is not None:
        missing = [f"--{name}" for name in ("samples", "epochs") if getattr(options, name) is None]
        if missing:
            raise UsageError(
                f"--rate {options.rate:g} says nothing of the training; add {' and '.join(missing)}"
            )
        if options.tier is not None:
            raise UsageError(f"--tier {options.tier} belongs to a run, not to --rate; drop one")
        return
    given = [f"--{name}" for name in _OF_A_RATE if getattr(options, name) is not None]
    if given:
        belong, them = ("belongs", "it") if len(given) == 1 else ("belong", "them")
        raise UsageError(f"{', '.join(given)} {belong} to --rate; {options.run} knows {them}, so drop {them}")


def _wishes(options: argparse.Namespace, profiles: "Mapping[str, Profile]") -> "Wishes":
    from tunekit.hardware.profiles import find_profile  # noqa: PLC0415
    from tunekit.plan.from_run import Wishes  # noqa: PLC0415

    return Wishes(
        samples_per_epoch=options.samples,
        epochs=options.epochs,
        providers=tuple(name.strip().lower() for name in options.provider),
        only=tuple(find_profile(name, profiles).id for name in options.only),
        max_hours=options.max_hours,
        may_use_spot=options.spot,
        peak_reserved_bytes=None if options.memory_gib is None else round(options.memory_gib * GIB),
        assumptions=_assumptions(options),
    )


def _assumptions(options: argparse.Namespace) -> "PlanAssumptions":
    from tunekit.records.plan import PlanAssumptions  # noqa: PLC0415

    low, high = _scaling(options.scaling)
    return PlanAssumptions(
        max_session_s=options.max_session,
        checkpoint_cost_s=None if options.no_checkpoints else options.checkpoint_cost,
        restart_cost_s=options.restart_cost,
        interrupted_every_s=options.interrupted_every,
        scaling_low=low,
        scaling_high=high,
    )


def _request_of_run(
    options: argparse.Namespace, wishes: "Wishes", profiles: "dict[str, Profile]"
) -> "tuple[PlanRequest, dict[str, Profile]]":
    """Return what a run asks for, and the profiles with the one that the run itself may hold."""
    from tunekit.plan.from_run import measured_profile, request_of_run  # noqa: PLC0415
    from tunekit.records.recommendation import Tier  # noqa: PLC0415
    from tunekit.search.folder import load_run  # noqa: PLC0415

    run = load_run(options.run)
    own = measured_profile(run)
    if own is not None:
        profiles = {own.id: own} | profiles
    tier = Tier(options.tier) if options.tier else None
    return request_of_run(run, wishes, tier, name=str(options.run)), profiles


def _request_of_rate(
    options: argparse.Namespace, wishes: "Wishes", profiles: "Mapping[str, Profile]"
) -> "PlanRequest":
    from tunekit.hardware.profiles import find_profile  # noqa: PLC0415
    from tunekit.records.config import Precision  # noqa: PLC0415
    from tunekit.records.measurement import Interval  # noqa: PLC0415
    from tunekit.records.plan import PlanRequest  # noqa: PLC0415

    rate: float = options.rate
    measured_on = find_profile(options.gpu, profiles).id if options.gpu else _gpu_here(profiles)
    _refuse_more_than_there_was(wishes.peak_reserved_bytes, profiles.get(measured_on))
    return PlanRequest(
        source=f"--rate {rate:g}, as given",
        samples_per_epoch=options.samples,
        epochs=options.epochs,
        rate_samples_per_s=Interval(value=rate, low=rate, high=rate),
        measured_on=measured_on,
        measured_gpus=options.gpus or 1,
        precision=Precision(options.precision or "fp32"),
        precision_is_assumed=options.precision is None,
        peak_reserved_bytes=wishes.peak_reserved_bytes,
        peak_is_given=wishes.peak_reserved_bytes is not None,
        providers=wishes.providers,
        only=wishes.only,
        max_hours=wishes.max_hours,
        may_use_spot=wishes.may_use_spot,
        assumptions=wishes.assumptions,
    )


def _refuse_more_than_there_was(peak_bytes: int | None, measured: "Profile | None") -> None:
    """Refuse a peak that the GPU which the rate was measured on can't have held.

    Raises:
        UsageError: it is one.
    """
    memory_bytes = None if measured is None else measured.memory_bytes
    if measured is None or peak_bytes is None or memory_bytes is None or peak_bytes <= memory_bytes:
        return
    raise UsageError(
        f"--memory-gib {peak_bytes / GIB:g} is more than the {bytes_text(memory_bytes)} of {measured.id}, "
        "where the rate was measured; give the peak per GPU"
    )


def _gpu_here(profiles: "Mapping[str, Profile]") -> str:
    """Return the profile id of the GPU that is here.

    Raises:
        UsageError: there is none.
    """
    from tunekit.cli.machine import host_here  # noqa: PLC0415
    from tunekit.hardware.device import AUTO, device_profile  # noqa: PLC0415

    host = host_here(profiles=profiles)
    if not host.accelerators:
        raise UsageError("no GPU is here, so say where the rate was measured: --gpu a10g, or --gpu cpu")
    return device_profile(AUTO, host, profiles)[1]


def _scaling(text: str) -> tuple[float, float]:
    number = r"([01](?:\.\d{1,9})?|\.\d{1,9})"
    match = re.fullmatch(rf"{number}(?:\.\.{number})?", text.strip())
    low, high = (float(match[1]), float(match[2] or match[1])) if match else (0.0, 0.0)
    if not 0 < low <= high <= 1:
        raise UsageError(f"--scaling {text}: write it as LO..HI with shares up to 1, such as 0.8..1.0")
    return low, high
