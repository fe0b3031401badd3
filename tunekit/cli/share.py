"""`tunekit search --share`: how a host joins the others, and the run folder that it has among them."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path

from tunekit.cli.machine import ask_torch
from tunekit.cli.report_files import HTML_FILE
from tunekit.cli.trials import REPORTS, folder_stem
from tunekit.errors import RunFolderError, TunekitError, UsageError
from tunekit.machine.host.torch_build import TorchAbsent
from tunekit.records.run import Run, RunStatus
from tunekit.session.folder import RUN_FILE, load_run
from tunekit.session.shared import SharedBook
from tunekit.tune.shared.facts import machine_facts, search_facts
from tunekit.tune.shared.leases import USUAL_PACE, Pace
from tunekit.tune.shared.share import Share
from tunekit.tune.shared.storage import Address, address_of


@dataclass
class Joined:
    """This host's part in a shared search."""

    book: SharedBook
    name: str
    """As others see this host."""
    shown: str
    """Where the hosts meet, without a password."""
    place: str
    """The same from whatever folder: as `--share` takes it later."""
    unlike: tuple[str, ...]
    """What this machine has otherwise than those of another group."""
    keeps_folder: bool = True
    """Whether this host's run folder stays when it leaves."""

    @property
    def report_folder(self) -> Path:
        """Run folder of the host that finishes the search, or has, as it is typed here."""
        folder, here = Path(self.book.report_folder), Path.cwd()
        return folder.relative_to(here) if folder.is_relative_to(here) else folder

    def holds_nothing_of_its_own(self, found: Run) -> bool:
        """Return whether all that this host found can be read here in the folder of the one that finishes."""
        if self.book.trials_run:
            return False
        folder = self.report_folder
        try:
            if found.status is not RunStatus.FINISHED:
                return (folder / RUN_FILE).is_file()
            return (folder / HTML_FILE).is_file() and load_run(folder) == found
        except (OSError, TunekitError):
            return False


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
        base = out or _base_of(address, run)
        folder = _own_folder(base)
        # Several processes of one machine are told apart by their folders.
        name = f"{host_name} ({folder.name})" if out else f"{host_name}{folder.name.removeprefix(base.name)}"
        group.name_host(name)
        with SharedBook(group, host_name, folder, pace) as book:
            place = str(address.folder.absolute()) if address.folder is not None else address.shown
            own = Joined(book, name, address.shown, place, group.unlike)
            yield own
        if not own.keeps_folder:
            shutil.rmtree(folder, ignore_errors=True)


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
