"""What a script of the zoo must be understood as, and the check of it; baselines are shared between tests."""

import socket
import sys
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from real_trials import ZOO, RealTrials

from tunekit.records.measurement import LoopMeasurement
from tunekit.records.target import Discovery, Target
from tunekit.records.trial import TrialRecord
from tunekit.trial.binding_syntax import parse_binding

SEQUENTIAL = "torch.nn.modules.container.Sequential"
TUNED = {"batch_size": 32, "num_workers": 1, "precision": "bf16"}


@dataclass(frozen=True)
class Script:
    """A command and what must be found in it."""

    words: tuple[str, ...]
    """`python` is this interpreter, another first word a program beside it.

    `{output}` stands for a folder, `{port}` for a free port.
    """
    roots: tuple[tuple[str, int], ...]
    """Class and parameter elements of each root."""
    optimizers: tuple[tuple[str, float], ...]
    batch_size: int | None = 16
    workers: int = 0
    batches_per_step: int = 1
    precision: str = "fp32"
    compiled: bool = False
    tuned: dict[str, object] = field(default_factory=lambda: dict(TUNED))
    """Knobs that one more trial sets."""
    is_slow: bool = False
    """Whether it is left out unless asked for: another script nearly covers it."""

    def __str__(self) -> str:
        return "-".join(word.strip("-") for word in self.words if word[0] not in "{/" and word != "python")


def as_parameters(scripts: Sequence[Script]) -> list[Any]:
    """Return scripts as parameters of a test, the slow ones marked."""
    return [
        pytest.param(one, id=str(one), marks=[pytest.mark.slow] if one.is_slow else []) for one in scripts
    ]


Trials = Callable[[tuple[str, ...]], RealTrials]


class SharedTrials:
    """One baseline per command, however many tests look at it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[tuple[str, ...], RealTrials] = {}

    def __call__(self, words: tuple[str, ...]) -> RealTrials:
        """Return the trials of a command, the baseline among them."""
        if words not in self._known:
            folder = self._folder / str(len(self._known))
            trials = RealTrials(command_target(words, folder / "output"), folder / "trials")
            trials.run_baseline()
            self._known[words] = trials
        return self._known[words]


def command_target(words: tuple[str, ...], output: Path) -> Target:
    """Return the target for a command, run in the zoo."""
    output.mkdir(parents=True, exist_ok=True)
    beside = Path(sys.executable).parent / words[0]
    program = sys.executable if words[0] == "python" else str(beside) if beside.exists() else words[0]
    values = {"{output}": str(output), "{port}": str(_free_port())}
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


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def found_by(trials: RealTrials) -> Discovery:
    """Return what the baseline learnt; it must have been measured."""
    baseline = trials.baseline
    assert baseline is not None
    assert baseline.failure is None, baseline.failure
    assert baseline.discovery is not None
    return baseline.discovery


def loop_of(record: TrialRecord | None) -> LoopMeasurement:
    """Return the loop's figures of a trial that must have been measured."""
    assert record is not None
    assert record.failure is None, record.failure
    assert record.measurement is not None
    return record.measurement.loop


def check_baseline(script: Script, trials: RealTrials) -> None:
    """Check what the baseline says of a script."""
    found = found_by(trials)
    assert found.complete
    assert found.roots_cover_step
    assert sorted((root.class_name, root.parameters) for root in found.roots) == sorted(script.roots)
    assert sorted((o.class_name, o.base_lr) for o in found.optimizers) == sorted(script.optimizers)
    assert found.training_loader is not None
    assert found.training_loader.batch_size == script.batch_size
    assert found.training_loader.num_workers == script.workers
    assert found.batches_per_step == script.batches_per_step
    assert trials.baseline is not None
    config = trials.baseline.config
    assert config is not None
    assert config.precision == script.precision
    assert config.compile is script.compiled
    loop = loop_of(trials.baseline)
    assert loop.batch_size == script.batch_size
    assert loop.num_workers == script.workers
    assert loop.rate_samples_per_s > 0


def check_tuned(script: Script, trials: RealTrials) -> None:
    """Check that a trial with other knobs reaches the loop."""
    loop = loop_of(trials.run(**script.tuned))
    wanted_batch = script.tuned.get("batch_size", script.batch_size)
    assert loop.batch_size == wanted_batch
    assert loop.num_workers == script.tuned.get("num_workers", script.workers)
    if isinstance(wanted_batch, int) and script.batch_size is not None:
        assert script.batch_size < loop.steady_samples / loop.steady_batches <= wanted_batch


def python_without_tunekit(folder: Path) -> Path:
    """Make a virtual environment that has torch and no tunekit, and return its interpreter."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder / "venv")
    packages = folder / "packages"
    packages.mkdir()
    for entry in Path(torch.__file__).parents[1].iterdir():
        if "tunekit" not in entry.name and entry.suffix != ".pth":
            (packages / entry.name).symlink_to(entry)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "packages.pth").write_text(f"{packages}\n")
    return folder / "venv" / "bin" / "python"
