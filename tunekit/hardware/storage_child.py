"""`inspect_storage` in a process of its own: whoever looks at a dead mount may never come back."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tunekit.errors import TunekitError, UsageError
from tunekit.hardware.storage import inspect_storage
from tunekit.records.codec import from_json, to_json
from tunekit.records.storage import Storage
from tunekit.units import duration_text

LIMIT_S = 30.0
"""Reading has 3 s and the walk half of that; the rest is for a disk that has to spin up, or an automount."""

_CHILD = (sys.executable, "-P", "-c", "from tunekit.hardware.storage_child import main; main()")
_REAPED_S = 1.0


def inspect_storage_apart(path: Path, limit_s: float = LIMIT_S, child: Sequence[str] = _CHILD) -> Storage:
    """Return what lies under a data set, as `inspect_storage` does, without ever waiting longer for it.

    Args:
        path: a file or a folder.
        limit_s: seconds to wait for an answer.
        child: the command that prints it for the path as its last word.

    Raises:
        UsageError: there is no such path, it is neither a file nor a folder, or it does not answer.
        TunekitError: the process that looks at it breaks.
    """
    looking = subprocess.Popen(
        [*child, os.fspath(path)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert looking.stdout is not None and looking.stderr is not None
    with looking.stdout, looking.stderr:
        try:
            answer, complaint = looking.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            raise UsageError(
                f"the data set {str(path)!r} did not answer within {duration_text(limit_s)}: is the server "
                "of its mount down? Look at it with findmnt, and leave out this --data until it answers"
            ) from None
        finally:
            _end(looking)
    if looking.returncode == UsageError.exit_code:
        raise UsageError(complaint.decode(errors="replace").strip())
    if looking.returncode != 0:
        last = complaint.decode(errors="replace").strip().rpartition("\n")[2]
        raise TunekitError(f"the process that looked at the data set {str(path)!r} broke: {last}")
    return from_json(answer, Storage)


def main() -> None:
    """Print what lies under the path that is this process's last word."""
    try:
        sys.stdout.write(to_json(inspect_storage(Path(sys.argv[-1]))))
    except UsageError as error:
        sys.stderr.write(str(error))
        sys.exit(error.exit_code)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Kill a process; one that waits for a dead server can't be, and is left behind."""
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_REAPED_S)
