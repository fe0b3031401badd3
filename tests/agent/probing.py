"""A child process that runs file operations under the guard, and pictures of the files it may not change."""

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tunekit.agent import SITE_FOLDER

PROBE = Path(__file__).with_name("harm_probe.py")


class Probe:
    """Speaks with one probe process."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, root: Path, trial: Path | None, ops: Sequence[Sequence[Any]], **more: object) -> Any:
        """Return what each operation gave in `root`, under the guard if there is a trial's folder."""
        request = {"root": str(root), "trial": str(trial) if trial else None, "ops": ops, **more}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


@contextmanager
def probing(
    python: str = sys.executable, packages: str | None = None, preloaded: tuple[str, ...] = ()
) -> Iterator[Probe]:
    """Start a probe and end it.

    Args:
        python: the interpreter.
        packages: a folder of packages that it may import from.
        preloaded: modules that are imported before the guard.
    """
    path = os.pathsep.join(filter(None, (str(SITE_FOLDER), packages)))
    with subprocess.Popen(
        [python, "-S", str(PROBE), *preloaded],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "PATH": "/usr/bin:/bin"},
    ) as process:
        yield Probe(process)
        assert process.stdin is not None
        process.stdin.close()


def picture(folder: Path) -> dict[str, tuple[object, ...]]:
    """Return what must stay: content, mode and time of every file, and every folder and link."""
    seen: dict[str, tuple[object, ...]] = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        name = str(path.relative_to(folder))
        if path.is_symlink():
            seen[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            seen[name] = ("folder", status.st_mode)
        else:
            seen[name] = (path.read_bytes(), status.st_mode, status.st_mtime_ns, status.st_ino)
    return seen


_GUARDED = """
import json, os, sys
class Log:
    def emit(self, event, **fields):
        os.write(reported, (json.dumps({"event": event, **fields}) + "\\n").encode())
request = json.loads(sys.argv[1])
reported = os.open(request["events"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
from _tunekit_agent import file_guard
file_guard.install(request["trial"], request["trial"], request["redirected"], Log(), **request["more"])
exec(compile(sys.argv[2], "script", "exec"))
"""


def run_guarded(
    root: Path, trial: Path, code: str, redirected: dict[str, str] | None = None, **more: object
) -> tuple[str, list[dict[str, Any]]]:
    """Run code in `root` in a child under the guard; return what it printed and what the guard told.

    What no child of the trial made is old.
    """
    trial.mkdir(exist_ok=True)
    (trial / "tmp").mkdir(exist_ok=True)
    events = trial / "events.jsonl"
    request = {"trial": str(trial), "events": str(events), "redirected": redirected or {}, "more": more}
    done = subprocess.run(
        [sys.executable, "-c", _GUARDED, json.dumps(request), textwrap.dedent(code)],
        cwd=root,
        env={
            **os.environ,
            "PYTHONPATH": str(SITE_FOLDER),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(trial / "tmp"),  # new files stay there: it is not to hold the tests' own folder
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    reported = [json.loads(line) for line in events.read_text().splitlines() if line]
    assert not [event for event in reported if event["event"] != "written"]
    return done.stdout, reported
