"""`tunekit search --share`: how a host joins the others, and its run folder."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import count
from pathlib import Path

from tunekit.cli.machine import ask_torch
from tunekit.errors import RunFolderError, UsageError
from tunekit.machine.host.torch_build import TorchAbsent
from tunekit.records.run import Run
from tunekit.session.folder import REPORTS, folder_stem
from tunekit.session.shared import SharedTrialStore
from tunekit.tune.shared import Address, address_of, group_of, open_place


@contextmanager
def joined(text: str, run: Run, command: Sequence[str], out: Path | None) -> Iterator[SharedTrialStore]:
    """Join the hosts that share a search.

    Args:
        text: the value of `--share`.
        run: before its first trial.
        command: the training command, whose torch is asked for its version.
        out: the run folder that is asked for; None for one where the hosts meet, or under reports/.

    Raises:
        UsageError: hosts can't meet there, or where they meet is also to be a run folder.
        ShareError: it can't be opened.
    """
    address, host_name = address_of(text), run.host.hostname
    if out is not None and address.folder is not None and out.resolve() == address.folder.resolve():
        raise UsageError(
            f"--share and --out are both {out}, but each host needs a run folder apart from the place where "
            "hosts meet; drop --out, or name another folder"
        )
    build = run.host.torch or ask_torch(command)
    group = group_of(run, None if isinstance(build, TorchAbsent) else build)
    with open_place(address) as storage:
        base = out or _base_of(address, run)
        folder = _own_folder(base)
        # The folder tells several processes of one machine apart.
        name = f"{host_name} ({folder.name})" if out else f"{host_name}{folder.name.removeprefix(base.name)}"
        store = SharedTrialStore(address, storage, group, name, folder, host_name)
        yield store
        if not store.keeps_folder:
            shutil.rmtree(folder, ignore_errors=True)


def _base_of(address: Address, run: Run) -> Path:
    if address.folder is not None:
        return address.folder / folder_stem(run.host.hostname)
    return Path(REPORTS) / folder_stem(f"{run.target.name}-{datetime.now():%Y-%m-%d}-{run.host.hostname}")


def _own_folder(base: Path) -> Path:
    """Make a folder that no other process has, and return it."""
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
