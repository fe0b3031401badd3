"""`tunekit workloads`: the built-in workloads, and their data made beforehand."""

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console

from tunekit.cli.machine import ask_torch, host_here
from tunekit.cli.screen import TrialScreen
from tunekit.errors import TargetError, UsageError
from tunekit.machine.host.torch_build import TorchAbsent
from tunekit.records.codec import to_json
from tunekit.records.host import Host
from tunekit.records.run import TargetRecord
from tunekit.records.workload import WorkloadHere, WorkloadsHere
from tunekit.report.terminal import draw
from tunekit.report.workloads import workload_list
from tunekit.trial.typed_commands import quoted, workload_options
from tunekit.units import bytes_text
from tunekit.workloads import WORKLOADS, stores


def run_verb(options: argparse.Namespace, command: Sequence[str]) -> int:
    """List the workloads, or make the data of one, and return 0.

    Raises:
        UsageError: a flag needs the name of a workload. TargetError: the data can't be written.
    """
    asked = [flag for flag in ("samples", "data") if getattr(options, flag) is not None]
    if asked and options.name is None:
        raise UsageError(f"--{asked[0]} needs a workload; name one of {', '.join(WORKLOADS)}")
    on_gpu = _trains_on_gpu(host_here())
    words = [word for flag in asked for word in (f"--{flag}", str(getattr(options, flag)))]
    found = {
        name: _contents_of(name, words, on_gpu) for name in ([options.name] if options.name else WORKLOADS)
    }
    with TrialScreen(options.json) as screen:
        if options.name is not None:
            _make_and_say(*found[options.name], words, screen)
    here = [_workload_here(name, contents) for name, (contents, _) in found.items()]
    if options.json:
        sys.stdout.write(to_json(WorkloadsHere(workloads=tuple(here))) + "\n")
    elif options.name is None:
        draw(Console(highlight=False), workload_list(here))
    return 0


def make_data(record: TargetRecord, screen: TrialScreen) -> None:
    """Make a built-in workload's data before its first trial, if it is missing.

    Raises:
        TargetError: it can't be written.
        UsageError: an option of the workload can't be understood.
    """
    if record.target.builtin is not None:
        on_gpu = not record.profile.is_cpu and _trains_on_gpu(record.host)
        _make(*_contents_of(record.target.builtin, workload_options(record.target), on_gpu), screen)


def _make_and_say(contents: Any, root: Path | None, words: Sequence[str], screen: TrialScreen) -> None:
    try:
        folder = _make(contents, root, screen)
    except KeyboardInterrupt:
        screen.said("interrupted; to resume, run the same command again")
        raise
    screen.said(f"{bytes_text(contents.rows * contents.row_bytes)} before compression in {folder}")
    given = f" -- {' '.join(map(quoted, words))}" if words else ""
    screen.said(f"tunekit search --workload {contents.workload}{given}")


def _make(contents: Any, root: Path | None, screen: TrialScreen) -> Path:
    try:
        return stores.store_folder(contents, root, screen.data_made)
    except OSError as error:
        raise TargetError(
            f"the data of the built-in workload {contents.workload} can't be written ({error.strerror}); "
            "free some space, or name another place for it in XDG_CACHE_HOME or with --data"
        ) from error


def _contents_of(name: str, words: Sequence[str], on_gpu: bool) -> tuple[Any, Path | None]:
    """Return the contents of a workload's store for these options of its script, and the folder in --data."""
    kind = import_module(f"tunekit.workloads.{name}_store").Contents
    parser = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--device", default="cuda" if on_gpu else "cpu")
    for size in kind.options:
        parser.add_argument("--" + size.replace("_", "-"), type=int)
    try:
        given = vars(parser.parse_known_args(words)[0])
    except argparse.ArgumentError as error:
        raise UsageError(f"--workload {name}: {error}") from error
    root, device = given.pop("data"), given.pop("device")
    sizes = kind.sizes["cuda" if device.startswith("cuda") or (device == "auto" and on_gpu) else "cpu"]
    return kind(**sizes | {size: value for size, value in given.items() if value is not None}), root


def _workload_here(name: str, contents: Any) -> WorkloadHere:
    size_bytes = contents.rows * contents.row_bytes
    return WorkloadHere(
        name=name, **WORKLOADS[name]._asdict(), samples=contents.samples, data_bytes=size_bytes
    )


def _trains_on_gpu(host: Host) -> bool:
    """Return whether the built-in workloads train on a GPU; asking this Python's torch takes seconds."""
    if not host.accelerators:
        return False
    build = host.torch or ask_torch(())
    return not isinstance(build, TorchAbsent) and any(one.type == "cuda" for one in build.devices)
