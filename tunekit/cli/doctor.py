"""`tunekit doctor`: what this machine offers, and what will hold training back on it."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tunekit.cli.numbers import natural, positive, positive_number
from tunekit.errors import UsageError

if TYPE_CHECKING:
    from argparse import _SubParsersAction

    from tunekit.records.checkup import Checkup, LoaderPlan
    from tunekit.records.finding import Severity
    from tunekit.records.storage import Storage

WARNED = 11
FAILED = 12
_MAX_BATCH_MIB = 1e6


def add_verb(verbs: "_SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the verb to the parser."""
    parser = verbs.add_parser(
        "doctor",
        help="look this machine over before training: GPUs, limits, storage, torch",
        usage="tunekit doctor [options] [-- COMMAND ...]",
        description=(
            "Look over what training gets here: GPUs, CPUs and memory that the container grants, /dev/shm, "
            "the storage under the data set, the training environment's torch; and say what is wrong, with "
            "evidence and remedy. With a training command its own Python is asked for its torch."
        ),
        epilog="exit code: 0 nothing or notes only, 11 warnings, 12 errors",
    )
    parser.add_argument(
        "--data",
        metavar="PATH",
        type=Path,
        help="the data set: its storage is measured, at most 3 s of reading (a part of it leaves the cache)",
    )
    parser.add_argument("--run", metavar="RUN", type=Path, help="take workers and batch size from this run")
    parser.add_argument(
        "--workers", metavar="N", type=natural, help="loader workers of each training process"
    )
    parser.add_argument("--prefetch", metavar="N", type=positive, help="prefetch factor (default 2)")
    parser.add_argument(
        "--batch-mib", metavar="MIB", type=positive_number("MiB", _MAX_BATCH_MIB), help="size of one batch"
    )
    parser.add_argument(
        "--processes", metavar="N", type=positive, help="training processes on this machine (default 1)"
    )
    parser.add_argument(
        "--ignore", metavar="CODE", action="append", default=[], help="silence a finding (repeatable)"
    )
    parser.add_argument("--json", action="store_true", help="print facts and findings as JSON instead")
    parser.set_defaults(verb=run_verb)


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Look the machine over, show what was found and return a code by the worst finding.

    Raises:
        UsageError: a flag can't be used.
    """
    from rich.console import Console  # noqa: PLC0415 - slow to import; --help must be instant

    from tunekit.recommend.diagnose.machine import worst  # noqa: PLC0415
    from tunekit.records.codec import to_json  # noqa: PLC0415
    from tunekit.report.doctor import draw_checkup, view_checkup  # noqa: PLC0415

    loader = _loader(options)
    console = Console(highlight=False)
    with Console(stderr=True).status("looking this machine over"):
        checkup = _checkup(options.data, loader, command)
    found = {finding.code for finding in checkup.findings}
    silenced = tuple(code for code in dict.fromkeys(options.ignore) if code in found)
    shown = tuple(finding for finding in checkup.findings if finding.code not in options.ignore)
    checkup = checkup.model_copy(update={"findings": shown})
    if options.json:
        sys.stdout.write(to_json(checkup) + "\n")
    else:
        draw_checkup(console, view_checkup(checkup, silenced))
    return _exit_code(worst(shown))


def _exit_code(severity: "Severity | None") -> int:
    return {"error": FAILED, "warning": WARNED}.get(severity or "", 0)


def _checkup(data: Path | None, loader: "LoaderPlan | None", command: Sequence[str]) -> "Checkup":
    from tunekit.cli.machine import ask_torch, look_over  # noqa: PLC0415
    from tunekit.hardware.detect import detect_host  # noqa: PLC0415
    from tunekit.hardware.limits import load_average  # noqa: PLC0415
    from tunekit.hardware.torch_build import TorchAbsent  # noqa: PLC0415

    load_before = load_average()  # this verb's own work is none of the machine's
    storage = _storage(data)
    build = ask_torch(command)
    host = detect_host(torch=None if isinstance(build, TorchAbsent) else build)
    return look_over(
        host.model_copy(update={"load_average": load_before}),
        absent=build if isinstance(build, TorchAbsent) else None,
        storage=storage,
        loader=loader,
    )


def _storage(data: Path | None) -> "Storage | None":
    if data is None:
        return None
    from tunekit.hardware.storage import inspect_storage  # noqa: PLC0415

    return inspect_storage(data)


def _loader(options: argparse.Namespace) -> "LoaderPlan | None":
    """Return how the data will be loaded, by flags or by a run.

    Raises:
        UsageError: flags contradict each other, or say too little.
    """
    from tunekit.records.checkup import LoaderPlan  # noqa: PLC0415
    from tunekit.units import MIB  # noqa: PLC0415

    flags = ("workers", "prefetch", "batch_mib", "processes")
    given = [name for name in flags if getattr(options, name) is not None]
    if options.run is not None:
        if given:
            names = ", ".join("--" + name.replace("_", "-") for name in given)
            raise UsageError(f"--run {options.run} knows {names} already; drop one or the other")
        return _loader_of_run(options.run)
    if not given:
        return None
    if options.workers is None:
        raise UsageError(f"--{given[0].replace('_', '-')} says nothing without --workers; add --workers N")
    return LoaderPlan(
        num_workers=options.workers,
        prefetch_factor=options.prefetch or 2,
        batch_bytes=None if options.batch_mib is None else max(1, int(options.batch_mib * MIB)),
        processes=options.processes or 1,
    )


def _loader_of_run(folder: Path) -> "LoaderPlan":
    """Return how the baseline of a run loads its data.

    Raises:
        UsageError: the baseline was not measured.
    """
    from tunekit.records.checkup import LoaderPlan  # noqa: PLC0415
    from tunekit.search.folder import load_run  # noqa: PLC0415

    baseline = load_run(folder).baseline
    if baseline is None or baseline.measurement is None:
        raise UsageError(f"the baseline of {folder} was not measured; say --workers and --batch-mib instead")
    loop = baseline.measurement.loop
    return LoaderPlan(
        num_workers=loop.num_workers,
        prefetch_factor=loop.prefetch_factor or 2,
        batch_bytes=loop.batch_bytes or None,
        processes=loop.world_size,
    )
