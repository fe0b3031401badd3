"""Runs the zoo's scripts as real trials: real child processes, real loaders, real workers."""

import itertools
import os
import socket
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tunekit.records.config import TrainConfig
from tunekit.records.details import Detail
from tunekit.records.host import SandboxKind
from tunekit.records.target import Target
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.trial.executor import KnownTarget, ProcessExecutor, TrialSpec
from tunekit.trial.launch import COMPILE_CACHE
from tunekit.trial.watch import Limits

ZOO = Path(__file__).parent / "zoo"
LIMITS = Limits(trial_s=90.0, no_progress_s=45.0, ram_bytes=3 << 30)


def zoo_target(*words: str) -> Target:
    """Return the target for a zoo script and its flags."""
    return Target(
        name=words[0].removesuffix(".py"),
        command=(sys.executable, *words),
        working_dir=str(ZOO),
        script=str(ZOO / words[0]),
        script_sha256=None,
    )


def share_compiled(trials_folder: Path) -> None:
    """Let a trials folder compile into the one of all tests: torch's headers are read once."""
    shared = Path(tempfile.gettempdir()) / f"compiled-by-tests-{os.getuid()}"
    shared.mkdir(exist_ok=True)
    trials_folder.mkdir(parents=True, exist_ok=True)
    if not (trials_folder / COMPILE_CACHE).exists():
        (trials_folder / COMPILE_CACHE).symlink_to(shared)


class RealTrials:
    """Trials of one target in one folder; the first is the baseline."""

    def __init__(
        self,
        target: Target,
        folder: Path,
        limits: Limits = LIMITS,
        window_s: float = 0.3,
        sandbox: SandboxKind | None = None,
    ) -> None:
        self.folder = folder
        share_compiled(folder)
        self._executor = ProcessExecutor(target, folder, limits, window_s, sandbox=sandbox)
        self._count = 0
        self.baseline: TrialRecord | None = None

    def run_baseline(
        self, details: Sequence[Detail] = (), sizes: Sequence[int] = (), **asked: Any
    ) -> TrialRecord:
        """Run the target as it is, and look at details once it is measured; the rest is of its spec."""
        self.baseline = self._run(None, None, details, sizes, **asked)
        return self.baseline

    def run(
        self, details: Sequence[Detail] = (), processes: int | None = None, **knobs: object
    ) -> TrialRecord:
        """Run the baseline's config with some knobs changed, and look at details once it is measured."""
        assert self.baseline is not None
        assert self.baseline.config is not None
        assert self.baseline.discovery is not None
        values = {**self.baseline.config.model_dump(), **knobs}
        if values["num_workers"] and values["prefetch_factor"] is None:
            values["prefetch_factor"] = 2
        config = TrainConfig.model_validate(values)
        return self._run(
            config, KnownTarget(self.baseline.discovery, self.baseline.config), details, processes=processes
        )

    def output(self, number: int) -> str:
        """Return what the script of a trial printed."""
        return (self.folder / f"{number:04d}" / "output.log").read_text()

    def _run(
        self,
        config: TrainConfig | None,
        known: KnownTarget | None,
        details: Sequence[Detail],
        sizes: Sequence[int] = (),
        **asked: Any,
    ) -> TrialRecord:
        role = TrialRole.BASELINE if config is None else TrialRole.SEARCH
        spec = TrialSpec(self._count, role, config, details=tuple(details), sizes=tuple(sizes), **asked)
        self._count += 1
        return self._executor.run(spec, known, lambda progress: None)


def free_port() -> int:
    """Return a TCP port that nobody listens at, below those that the kernel hands out by itself.

    So nothing that connects or binds to any port takes it before the test's own process does. Tests that run
    side by side, in processes of their own, look in ranges of their own.
    """
    for port in itertools.count(20_000 + os.getpid() % 1_000 * 12):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("there is always another port")


def is_alive(pid: int) -> bool:
    """Return whether a process runs; a zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in ("Z", "X")


def processes_with(word: str) -> list[int]:
    """Return the pids of running processes whose environment or command holds the word."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            told = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if word.encode() in told and is_alive(int(entry.name)):
            found.append(int(entry.name))
    return found


def leaked_shared_memory(before: set[Path], limit_s: float = 60.0) -> list[Path]:
    """Return what came into /dev/shm, is used by no process, and stays.

    Tests run side by side: what another one makes and has not mapped yet is gone a moment later. A folder is
    the state of a simulated GPU, which another test keeps for as long as it likes; segments are files.
    """
    end = time.monotonic() + limit_s
    while leaked := [path for path in set(Path("/dev/shm").iterdir()) - before if _is_left(path)]:
        if time.monotonic() > end:
            break
        time.sleep(0.2)
    return leaked


def _is_left(shared: Path) -> bool:
    """Return whether this is a segment that no process uses."""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            if str(shared) in maps.read_text():
                return False
        except OSError:
            continue
    return shared.exists() and not shared.is_dir()
