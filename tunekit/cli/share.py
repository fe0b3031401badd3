"""`tunekit search --share`: how a host joins the others, and the run folder that it has among them."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path

from tunekit.cli.machine import ask_torch
from tunekit.cli.trials import REPORTS, folder_stem
from tunekit.errors import RunFolderError, UsageError
from tunekit.machine.host.torch_build import TorchAbsent
from tunekit.records.run import Run
from tunekit.session.shared import SharedBook
from tunekit.tune.shared.facts import machine_facts, search_facts
from tunekit.tune.shared.leases import USUAL_PACE, Pace
from tunekit.tune.shared.share import Share
from tunekit.tune.shared.storage import Address, address_of


@dataclass(frozen=True)
class Joined:
    """This host's part in a shared search."""

    book: SharedBook
    shown: str
    """Where the hosts meet, without a password."""
    unlike: tuple[str, ...]
    """What this machine has otherwise than those of another group."""


@contextmanager
def joined(
    text: str,
    run: Run,
    command: Sequence[str],
    out: Path | None,
    say: Callable[[str], None],
    pace: Pace = USUAL_PACE,
) -> Iterator[Joined]:
    """Join the hosts that share a search; what this host still holds at the end is given back.

    Args:
        text: what `--share` says.
        run: before its first trial.
        command: the training command, whose torch is asked for its version.
        out: the run folder that is asked for, of which each host has one of its own; None for one where the
            hosts meet, or under reports/.
        say: hears that the place where they meet does not answer.
        pace: of beats and leases.

    Raises:
        UsageError: hosts can't meet there, or where they meet is also to be a run folder.
        ShareError: it can't be opened.
        TargetChangedError: another search is shared there.
    """
    address, host_name = address_of(text), run.host.hostname
    if out is not None and address.folder is not None and out.resolve() == address.folder.resolve():
        raise UsageError(
            f"--share and --out are both {out}: in one the hosts meet, and by the other each has a folder of "
            "its own; drop --out, or name another folder"
        )
    build = run.host.torch or ask_torch(command)
    torch = None if isinstance(build, TorchAbsent) else build
    with Share(address, host_name, say, pace) as share:
        group = share.join(search_facts(run), machine_facts(run, torch))
        folder = _own_folder(out or _base_of(address, run))
        with SharedBook(group, host_name, folder, pace) as book:
            yield Joined(book, address.shown, group.unlike)


def _base_of(address: Address, run: Run) -> Path:
    if address.folder is not None:
        return address.folder / folder_stem(run.host.hostname)
    name = folder_stem(f"{run.target.name}-{datetime.now():%Y-%m-%d}-{run.host.hostname}")
    return Path(REPORTS) / name


def _own_folder(base: Path) -> Path:
    """Make a folder that is no other host's, nor another process's of this one, and return it."""
    for number in count(1):
        folder = base if number == 1 else base.with_name(f"{base.name}-{number}")
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise RunFolderError(f"the run folder {folder} can't be made ({error.strerror})") from error
        return folder
    raise AssertionError("there is always a next number")
