"""What a script of the zoo must be understood as, and the check of it; baselines are shared between tests."""

import sys
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import torch
from real_trials import ZOO, RealTrials, free_port

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

    @property
    def understood(self) -> dict[str, object]:
        """What its baseline is to say of it."""
        return {
            "is whole": True,
            "roots": sorted(self.roots),
            "optimizers": sorted(self.optimizers),
            "loader": (self.batch_size, self.workers),
            "loop": (self.batch_size, self.workers),
            "batches per step": self.batches_per_step,
            "modes": (self.precision, self.compiled),
        }

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
    values = {"{output}": str(output), "{port}": str(free_port())}
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


def understood_of(trials: RealTrials) -> dict[str, object]:
    """Return what the baseline says of its script, as `Script.understood` has it."""
    found, loop = found_by(trials), loop_of(trials.baseline)
    loader, config = found.training_loader, trials.baseline and trials.baseline.config
    assert loader is not None and config is not None
    return {
        "is whole": found.complete and found.roots_cover_step and loop.rate_samples_per_s > 0,
        "roots": sorted((root.class_name, root.parameters) for root in found.roots),
        "optimizers": sorted((one.class_name, one.base_lr) for one in found.optimizers),
        "loader": (loader.batch_size, loader.num_workers),
        "loop": (loop.batch_size, loop.num_workers),
        "batches per step": found.batches_per_step,
        "modes": (config.precision, config.compile),
    }


def is_reached(script: Script, trials: RealTrials) -> bool:
    """Return whether a trial with the script's other knobs has them in its loop."""
    loop = loop_of(trials.run(**script.tuned))
    batch_size = script.tuned.get("batch_size", script.batch_size)
    workers = script.tuned.get("num_workers", script.workers)
    if (loop.batch_size, loop.num_workers) != (batch_size, workers):
        return False
    if not isinstance(batch_size, int) or script.batch_size is None:
        return True
    return script.batch_size < loop.steady_samples / loop.steady_batches <= batch_size


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
