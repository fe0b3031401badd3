"""What a script of the zoo must be understood as, and the check of it."""

import venv
from dataclasses import dataclass
from pathlib import Path

import torch
from real_trials import Plan, Ran, loop_of

from tunekit.records.target import Discovery

SEQUENTIAL = "torch.nn.modules.container.Sequential"


@dataclass(frozen=True, eq=False)
class Script(Plan):
    """A command and what must be found in it."""

    roots: tuple[tuple[str, int], ...] = ()
    """Class and parameter elements of each root."""
    optimizers: tuple[tuple[str, float], ...] = ()
    batch_size: int | None = 16
    workers: int = 0
    batches_per_step: int = 1
    precision: str = "fp32"
    compiled: bool = False

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


def found_by(ran: Ran) -> Discovery:
    """Return what the baseline learnt; it must have been measured."""
    assert ran.baseline.failure is None, ran.baseline.failure
    assert ran.baseline.discovery is not None
    return ran.baseline.discovery


def understood_of(ran: Ran) -> dict[str, object]:
    """Return what the baseline says of its script, as `Script.understood` has it."""
    found, loop, config = found_by(ran), loop_of(ran.baseline), ran.baseline.config
    loader = found.training_loader
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


def check_reached(ran: Ran) -> None:
    """Check that the second trial has its knobs in its loop."""
    script, loop = ran.plan, loop_of(ran.tuned)
    batch_size = script.tuned.get("batch_size", script.batch_size)
    assert (loop.batch_size, loop.num_workers) == (
        batch_size,
        script.tuned.get("num_workers", script.workers),
    )
    assert loop.compile_graphs >= script.tuned.get("compile", 0)
    if script.batch_size is not None and "batch_size" in script.tuned:
        assert script.batch_size < loop.steady_samples / loop.steady_batches <= batch_size


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
