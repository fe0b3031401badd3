"""Runs every way to write that the zoo has, as it is and in trials, and says what became of the files."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from real_trials import ZOO, RealTrials

from tunekit.records.host import SandboxKind
from tunekit.records.target import Target
from tunekit.records.trial import TrialRecord
from tunekit.trial.watch import Limits

SCRIPT = ZOO / "ways_to_write" / "train.py"
LIMITS = Limits(trial_s=400.0, no_progress_s=400.0, ram_bytes=6 << 30)
_OUTSIDE = (Path("/tmp"), Path("/var/tmp"), Path("/dev/shm"))


@dataclass(frozen=True)
class Outcome:
    """What one way did."""

    name: str
    group: str
    seen: str
    """What the script saw: `worked`, `unseen`, or the error."""
    message: str
    changed: tuple[str, ...]
    """Files of the user's that are no longer what they were."""
    left: tuple[str, ...]
    """New files that are still there."""

    @property
    def row(self) -> str:
        """The way in a table: what else is in it may differ between machines."""
        words = ["changes"] * bool(self.changed) + ["leaves"] * bool(self.left)
        return f"{self.group}: {self.name}: {' '.join(words) or 'nothing'}: {self.seen}\n"


class Planted:
    """Folders with what a user has, and a script that waits to write in every way in the last of them.

    Args:
        folder: gets a folder for each name.
        names: one for each run; the last one is that of the run without tunekit.
    """

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.roots = {name: folder.resolve() / name for name in names}
        *_, self._plain = self.roots
        words = [*self._command(self._plain), "--plant", *map(str, self.roots.values())]
        self._script = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        assert self._script.stdout is not None
        printed = []
        for line in self._script.stdout:
            if json_of(line) == {"planted": True}:
                break
            printed.append(line)
        else:
            raise AssertionError("nothing was planted:\n" + "".join(printed[-30:]))
        self._before = {name: fingerprints(root) for name, root in self.roots.items()}

    def without_tunekit(self) -> list[Outcome]:
        """Let the script write in every way, with nothing to stop it."""
        output, _ = self._script.communicate("\n")
        return self._outcomes(self._plain, output)

    def in_trial(self, name: str, sandbox: SandboxKind) -> tuple[list[Outcome], TrialRecord]:
        """Run the script as a trial, and return what became of the files in that folder, and its record."""
        root = self.roots[name]
        target = Target(
            name="ways",
            command=self._command(name),
            working_dir=str(root / "user"),
            script=str(SCRIPT),
            script_sha256=None,
        )
        trials = RealTrials(target, root.with_name(f"trials-{name}"), LIMITS, sandbox=sandbox)
        record = trials.run_baseline()
        return self._outcomes(name, trials.output(0)), record

    def _command(self, name: str) -> tuple[str, ...]:
        return (sys.executable, str(SCRIPT), "--root", str(self.roots[name]))

    def _outcomes(self, name: str, output: str) -> list[Outcome]:
        root, before = self.roots[name], self._before[name]
        after = fingerprints(root)
        reported = [fields for line in output.splitlines() if (fields := json_of(line))]
        if {"end": True} not in reported:
            raise AssertionError(f"the script ended before its end:\n{output[-3000:]}")
        names = sorted((fields["name"] for fields in reported if "name" in fields), key=len, reverse=True)
        changed = _by_way((path for path in before if after.get(path) != before[path]), root, names)
        left = _by_way((path for path in after if path not in before), root, names)
        return [
            Outcome(
                changed=tuple(changed.pop(fields["name"], ())),
                left=tuple(left.pop(fields["name"], ())),
                **fields,
            )
            for fields in reported
            if "name" in fields
        ] + [
            Outcome(
                name, "no way's own", "unknown", "", tuple(changed.get(name, ())), tuple(left.get(name, ()))
            )
            for name in sorted({*changed, *left})
        ]

    def close(self) -> None:
        """End the script and remove what was planted."""
        self._script.kill()
        self._script.communicate()
        for root in self.roots.values():
            for path in _outside(root):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            shutil.rmtree(root, ignore_errors=True)


@contextmanager
def planted(folder: Path, names: Sequence[str]) -> Iterator[Planted]:
    """Plant what a user has in a folder for each name, and remove it afterwards."""
    held = Planted(folder, names)
    try:
        yield held
    finally:
        held.close()


def json_of(line: str) -> dict[str, str] | None:
    """Return the fields that a line of the script reports, None for other lines."""
    _, mark, text = line.rpartition("WAY {")  # a child may have left a line unfinished
    return json.loads("{" + text) if mark else None


def fingerprints(root: Path) -> dict[str, tuple[object, ...]]:
    """Return content, mode, owner, time and attributes of all that is in a folder, or named for it."""
    seen = {}
    for path in (found for top in (root, *_outside(root)) for found in (top, *top.rglob("*"))):
        status = path.lstat()
        marks: tuple[object, ...] = (status.st_mode, status.st_uid, status.st_gid)
        if path.is_symlink():
            marks += (str(path.readlink()),)
        else:
            marks += tuple((name, os.getxattr(path, name)) for name in os.listxattr(path))
        if path.is_file() and not path.is_symlink():
            marks += (status.st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest())
        seen[str(path)] = marks
    return seen


def _outside(root: Path) -> list[Path]:
    mark = f"ways-{hashlib.sha256(str(root).encode()).hexdigest()[:12]}"
    return [path for folder in _OUTSIDE for path in folder.glob(f"{mark}-*")]


def _by_way(paths: Iterable[str], root: Path, names: Sequence[str]) -> dict[str, list[str]]:
    """Sort paths by the way whose name they bear; what bears none stands for itself."""
    sorted_paths: dict[str, list[str]] = {}
    for path in paths:
        words = path.removeprefix(f"{root}/user/").split("/")
        bare = [
            word.partition("-")[2].partition("-")[2] if word.startswith("ways-") else word for word in words
        ]
        owner = next((name for name in names for word in bare if word.startswith(name)), path)
        sorted_paths.setdefault(owner, []).append(path)
    return sorted_paths
