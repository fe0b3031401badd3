"""Runs the zoo's scripts as real trials: real child processes, real loaders, real workers."""

import itertools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tunekit.records.config import TrainConfig
from tunekit.records.details import Detail
from tunekit.records.host import SandboxKind
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.target import Target
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole
from tunekit.trial.binding_syntax import parse_binding
from tunekit.trial.executor import KnownTarget, ProcessExecutor, TrialSpec
from tunekit.trial.keeper import PR_SET_PDEATHSIG, libc
from tunekit.trial.launch import COMPILE_CACHE
from tunekit.trial.watch import Limits

ZOO = Path(__file__).parent / "zoo"
COMPILED = Path(tempfile.gettempdir()) / f"compiled-by-tests-{os.getuid()}"
LIMITS = Limits(trial_s=90.0, no_progress_s=45.0, ram_bytes=3 << 30)
BESIDE_OTHERS = replace(LIMITS, trial_s=240.0)
"""Beside others a first compile takes long."""


def end_with_parent() -> None:
    """Have this process ended when the one that started it is."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)


def run_tunekit(folder: Path, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of tunekit in a folder, with more environment variables."""
    return subprocess.run(
        [sys.executable, "-m", "tunekit", *words],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=600,
    )


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
    COMPILED.mkdir(exist_ok=True)
    trials_folder.mkdir(parents=True, exist_ok=True)
    if not (trials_folder / COMPILE_CACHE).exists():
        (trials_folder / COMPILE_CACHE).symlink_to(COMPILED)


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


@dataclass(frozen=True, eq=False)
class Plan:
    """Real trials of one command in one folder, which run beside others before a test looks."""

    words: tuple[str, ...]
    """`python` is this interpreter, another first word a program beside it.

    `{output}` stands for a folder, `{port}` for a free port.
    """
    tuned: dict[str, Any] | None = None
    """Knobs of a second trial; None for the baseline alone."""
    outcome: OutcomeKind | None = None
    """That of the baseline; None where it is measured."""
    said: str = ""
    """What its message names."""
    is_slow: bool = False
    """Whether it is left out unless asked for: another plan nearly covers it."""
    limits: Limits = BESIDE_OTHERS
    window_s: float = 0.3
    sandbox: SandboxKind | None = None
    environment: dict[str, str] = field(default_factory=dict)
    asked: dict[str, Any] = field(default_factory=dict)
    """Of the baseline: details, sizes, processes and settings of data parallel."""
    target: dict[str, Any] = field(default_factory=dict)
    """What its target has beside the command."""
    prepare: Callable[[Path], None] | None = None
    """Fills the folder that `{output}` stands for."""
    working_dir: str = str(ZOO)
    name: str = ""

    def __str__(self) -> str:
        if self.name:
            return self.name
        words = [word.strip("-") for word in self.words if word[0] not in "{/" and word != "python"]
        return "-".join([*words, *(str(value) for value in (self.asked | (self.tuned or {})).values())])


@dataclass(frozen=True)
class Ran:
    """What became of a plan."""

    plan: Any
    trials: Path
    """Folder of the trials."""
    output: Path
    """Folder that `{output}` stood for."""
    baseline: TrialRecord
    tuned: TrialRecord | None
    left: tuple[str, ...]
    """Names left in the folder of temporary files."""

    def printed(self, number: int = 0) -> str:
        """Return what the script of a trial printed."""
        return (self.trials / f"{number:04d}" / "output.log").read_text(errors="replace")


def run_plan(plan: Plan, folder: Path) -> Ran:
    """Run the trials of a plan, with a folder of temporary files of their own."""
    output, trials = folder / "output", folder / "trials"
    output.mkdir()
    with tempfile.TemporaryDirectory(dir="/tmp") as temporary, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", temporary)  # short: sockets have short paths
        patch.setattr(tempfile, "tempdir", None)
        for name, value in plan.environment.items():
            patch.setenv(name, value)
        if plan.prepare is not None:
            plan.prepare(output)
        target = command_target(plan.words, output).changed(
            working_dir=plan.working_dir.replace("{output}", str(output)), **plan.target
        )
        runs = RealTrials(target, trials, plan.limits, plan.window_s, plan.sandbox)
        baseline = runs.run_baseline(**plan.asked)
        tuned = runs.run(**plan.tuned) if plan.tuned is not None and baseline.measurement else None
        left = tuple(path.name for path in Path(temporary).iterdir())
    return Ran(plan, trials, output, baseline, tuned, left)


def looking_at(*plans: Plan) -> pytest.MarkDecorator:
    """Let a test look at what became of each plan, as `ran`."""
    rows = [pytest.param(one, marks=[pytest.mark.slow] if one.is_slow else [], id=str(one)) for one in plans]
    return pytest.mark.parametrize("ran", rows, indirect=True)


def command_target(words: tuple[str, ...], output: Path) -> Target:
    """Return the target for a command, run in the zoo."""
    beside = Path(sys.executable).parent / words[0]
    program = sys.executable if words[0] == "python" else str(beside) if beside.exists() else words[0]
    values = {"{output}": str(output), "{port}": str(free_port()), "{python}": sys.executable}
    rest = [values.get(word, word) for word in words[1:]]
    is_bound = "--batch_size" in rest  # of a script without a DataLoader
    return Target(
        name="zoo",
        command=(program, *rest),
        working_dir=str(ZOO),
        script=None,
        script_sha256=None,
        bindings=(parse_binding("batch_size=--batch_size {}"),) if is_bound else (),
    )


def loop_of(record: TrialRecord | None) -> LoopMeasurement:
    """Return the loop's figures of a trial that must have been measured."""
    assert record is not None
    assert record.failure is None, record.failure
    assert record.measurement is not None
    return record.measurement.loop


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
