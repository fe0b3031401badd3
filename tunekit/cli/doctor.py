"""`tunekit doctor`: what this machine offers, and what will hold training back on it."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tunekit.cli.doctor_calibrate import calibrate_gpu
from tunekit.cli.doctor_loader import BASELINE, TIERS, loader_of
from tunekit.cli.numbers import natural, positive, positive_number
from tunekit.cli.report_files import add_report_files, check_report_files, show, texts_of, write_files
from tunekit.errors import TargetError, UsageError
from tunekit.near import did_you_mean

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
        epilog=(
            "exit code: 0 nothing or notes only, 11 warnings, 12 errors; "
            "tunekit doctor --codes lists every finding there is; with --calibrate 0, or an error's own"
        ),
    )
    parser.add_argument(
        "--data",
        metavar="PATH",
        type=_data_path,
        action="append",
        default=[],
        help="a data set: its storage is measured, at most 3 s of reading, and a part of it leaves the cache "
        "(repeatable)",
    )
    parser.add_argument("--run", metavar="RUN", type=Path, help="take workers and batch size from this run")
    parser.add_argument(
        "--tier",
        choices=(*TIERS, BASELINE),
        help="which config of the run (default: balanced, or the nearest that it has)",
    )
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
    parser.add_argument(
        "--calibrate",
        action="store_true",
        help="measure what the GPU's memory holds beside torch's tensors, keep it for predictions, and "
        "nothing else (a minute, on the GPU)",
    )
    parser.add_argument("--codes", action="store_true", help="list every code of a finding, and nothing else")
    parser.add_argument("--json", action="store_true", help="print facts and findings as JSON instead")
    add_report_files(parser)
    parser.set_defaults(verb=run_verb)


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """Look the machine over, show what was found and return a code by the worst finding.

    Raises:
        UsageError: a flag can't be used, or there is no GPU to calibrate.
        TargetError: the Python that should calibrate it breaks.
    """
    from rich.console import Console  # noqa: PLC0415 - slow to import; --help must be instant

    from tunekit.cli.pipes import lasting_console  # noqa: PLC0415
    from tunekit.recommend.diagnose.machine import worst  # noqa: PLC0415
    from tunekit.report.doctor import codes_facts, doctor_report  # noqa: PLC0415
    from tunekit.report.terminal import draw  # noqa: PLC0415

    console = Console(highlight=False)
    if options.codes:
        draw(console, (codes_facts(),))
        return 0
    if options.calibrate:
        return calibrate_gpu(console, command, as_json=options.json)
    check_report_files(options)
    _check_codes(options.ignore)
    loader = loader_of(options)
    with lasting_console(to_stderr=True).status("looking this machine over"):
        checkup = _checkup(options.data, loader, command)
    found = {finding.code for finding in checkup.findings}
    silenced = tuple(code for code in dict.fromkeys(options.ignore) if code in found)
    shown = tuple(finding for finding in checkup.findings if finding.code not in options.ignore)
    checkup = checkup.changed(findings=shown)
    texts = texts_of(
        checkup, lambda public: doctor_report(public, silenced), "doctor.json", options.full_paths
    )
    write_files(options, texts)
    show(options, texts, checkup, lambda: draw(console, doctor_report(checkup, silenced).blocks))
    return _exit_code(worst(shown))


def _exit_code(severity: "Severity | None") -> int:
    return {"error": FAILED, "warning": WARNED}.get(severity or "", 0)


def _check_codes(codes: Sequence[str]) -> None:
    """Refuse codes that no finding has.

    Raises:
        UsageError: there is one.
    """
    from tunekit.recommend.diagnose.codes import CODES  # noqa: PLC0415

    for code in codes:
        if code not in CODES:
            hint = did_you_mean(code, CODES, f"known: {', '.join(CODES)}")
            raise UsageError(f"--ignore {code}: no finding has this code; {hint}")


def _data_path(text: str) -> Path:
    """Return the path of a data set.

    Raises:
        argparse.ArgumentTypeError: the text is empty, or an address.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError(
            "must be the path of a data set, got an empty text; is the variable that holds it set?"
        )
    if "://" in text and not Path(text).exists():
        raise argparse.ArgumentTypeError(
            f"must be a path, got {text!r}; only mounted paths can be measured: mount it and give that folder"
        )
    try:
        return Path(text).expanduser()
    except RuntimeError:  # "~name" of nobody
        return Path(text)


def _checkup(data: Sequence[Path], loader: "LoaderPlan | None", command: Sequence[str]) -> "Checkup":
    from tunekit.cli.machine import ask_torch, look_over, with_sandbox  # noqa: PLC0415
    from tunekit.hardware.detect import detect_host  # noqa: PLC0415
    from tunekit.hardware.limits import load_average  # noqa: PLC0415
    from tunekit.hardware.torch_build import TorchAbsent  # noqa: PLC0415

    load_before = load_average()  # this verb's own work is none of the machine's
    storage = _storage(data)
    build = ask_torch(command)
    host = with_sandbox(detect_host(torch=None if isinstance(build, TorchAbsent) else build))
    return look_over(
        host.changed(load_average=load_before),
        absent=build if isinstance(build, TorchAbsent) else None,
        why_no_command=_why_not_to_run(command),
        storage=storage,
        loader=loader,
    )


def _why_not_to_run(command: Sequence[str]) -> str | None:
    """Return why the command can't be run, in the words in which a search would refuse it."""
    from tunekit.trial.target import resolve_target  # noqa: PLC0415

    try:
        if command:
            resolve_target(command, Path.cwd())
    except TargetError as error:
        return str(error)
    return None


def _storage(data: Sequence[Path]) -> "list[Storage]":
    if not data:
        return []
    from tunekit.hardware.storage_child import inspect_storage_apart  # noqa: PLC0415

    return [inspect_storage_apart(path) for path in dict.fromkeys(data)]
