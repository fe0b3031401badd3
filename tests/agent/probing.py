"""A child process under the file guard, and pictures of the files that it may not change."""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

from tunekit.agent import SITE_FOLDER

_GUARDED = """
import json, os, sys
class Log:
    def emit(self, event, **fields):
        os.write(reported, (json.dumps({"event": event, **fields}) + "\\n").encode())
request = json.loads(sys.argv[1])
reported = os.open(request["events"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
from _tunekit_agent import file_guard
file_guard.install(request["trial"], [request["scratch"]], Log())
exec(compile(sys.argv[2], "script", "exec"))
"""


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


def run_guarded(
    root: Path, trial: Path, code: str, python: str = sys.executable
) -> tuple[list[str], list[dict[str, Any]]]:
    """Run code in `root` in a child under the guard; return the lines it printed and what was refused."""
    (trial / "tmp").mkdir(parents=True, exist_ok=True)
    events = trial / "events.jsonl"
    request = {"trial": str(trial), "scratch": str(trial / "tmp"), "events": str(events)}
    done = subprocess.run(
        [python, "-c", _GUARDED, json.dumps(request), textwrap.dedent(code)],
        cwd=root,
        env={
            **os.environ,
            "PYTHONPATH": str(SITE_FOLDER),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": str(trial / "tmp"),
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    reported = [json.loads(line) for line in events.read_text().splitlines() if line]
    assert not [event for event in reported if event["event"] != "written"]
    return done.stdout.splitlines(), reported
