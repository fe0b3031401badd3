"""Is predicted device memory what torch's own allocator takes? On a simulated GPU.

    python benchmarks/simulated_peaks.py [--torch 2.8.0 2.14.1] [--only resnet50] [--cpu]

Twelve trainings (peaks_script.py): each is traced by a trial at its small batch, as `tunekit fits` does,
and taken from there to a large batch, without a margin; and it is run there, on the CUDA build of torch
whose allocator is torch's own. With expandable segments too. Beside each stands what a trace on a CPU says,
where the script trains there (--cpu). Goal: within 4% of both peaks.

The device computes nothing and is told to be fast; its memory is as large as is needed. Simulated figures:
cuBLAS's and cuDNN's workspaces are those of the simulation.
"""

import argparse
import json
import os
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from real_trials_of import traced_fits  # noqa: E402

from simgpu.environment import USUAL_TORCH, Environment, find_environment  # noqa: E402
from simgpu.simulation import Simulation, state_folder  # noqa: E402
from tunekit.machine.gpu.outside_torch import outside_torch  # noqa: E402
from tunekit.machine.profiles import load_profiles  # noqa: E402
from tunekit.predict.step_traces import Unpredictable  # noqa: E402
from tunekit.units import MIB  # noqa: E402

SCRIPT = Path(__file__).with_name("peaks_script.py")
RATES = ":".join(f"{kind}_flops_per_s=1e16" for kind in ("fp32", "tf32", "fp16", "bf16"))
DEVICE = f"a10g:{RATES}:bytes_per_s=1e14:memory_bytes=200GiB"
GOAL = 0.04
SMALL_BATCH, STEPS = 4, 8


@dataclass(frozen=True)
class Case:
    """One training."""

    model: str
    precision: str
    optimizer: str
    batch: int
    """The large one."""

    @property
    def name(self) -> str:
        """As a row is named."""
        return f"{self.model} {self.precision} {self.optimizer}"

    def words(self, batch: int) -> list[str]:
        """Return the script's command line, without its Python."""
        given = ("--precision", self.precision, "--optimizer", self.optimizer, "--batch", str(batch))
        return [str(SCRIPT), self.model, *given]


CASES = (
    Case("resnet50", "fp32", "sgd", 128),
    Case("resnet50", "fp16", "sgd", 128),
    Case("vit_s", "fp32", "adamw", 128),
    Case("vit_s", "bf16", "adamw", 256),
    Case("bert_base", "fp32", "adamw", 24),
    Case("bert_base", "fp16", "adamw", 48),
    Case("gpt2", "fp32", "sgd", 16),
    Case("gpt2", "bf16", "adamw", 32),
    Case("lstm", "fp32", "sgd", 48),
    Case("lstm", "bf16", "adamw", 96),
    Case("unet", "fp32", "adamw", 24),
    Case("unet", "bf16", "sgd", 48),
)


@dataclass(frozen=True)
class Peaks:
    """Of a training, in bytes."""

    allocated: int
    reserved: int

    def off(self, truth: "Peaks") -> tuple[float, float]:
        """Return by which share each is off."""
        return self.allocated / truth.allocated - 1, self.reserved / truth.reserved - 1


class Machine:
    """A simulated GPU under one version of torch.

    Args:
        environment: with that torch.
        folder: for its processes.
    """

    def __init__(self, environment: Environment, folder: Path, is_expandable: bool) -> None:
        self._environment, self._folder = environment, folder
        self._simulation = Simulation(environment, devices=DEVICE, state=folder)
        self._is_expandable = is_expandable

    def variables(self) -> dict[str, str]:
        """Return the environment variables of a process on it."""
        variables = {**os.environ, **self._simulation.variables(os.environ), "OMP_NUM_THREADS": "1"}
        if self._is_expandable:
            variables["PYTORCH_CUDA_ALLOC_CONF"] = "expandable_segments:True"
        return variables

    def truth(self, case: Case) -> Peaks:
        """Return torch's own peaks of a plain run at the large batch."""
        words = [str(self._environment.python), *case.words(case.batch), "--steps", str(STEPS)]
        done = subprocess.run(words, env=self.variables(), capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(f"{shlex.join(words)}\n{done.stderr[-2000:]}")
        peaks = json.loads(done.stdout.splitlines()[-1])
        return Peaks(peaks["allocated_bytes"], peaks["reserved_bytes"])

    def predicted(self, case: Case, hide_gpus: bool = False) -> Peaks | str:
        """Return what a trace at the small batch says of the large one, or why there is none."""
        before = dict(os.environ)
        os.environ.update(self.variables())
        python, words = str(self._environment.python), case.words(SMALL_BATCH)[1:]
        try:
            with tempfile.TemporaryDirectory() as folder:
                fits = traced_fits(SCRIPT, words, Path(folder), python, hide_gpus)
        except Unpredictable as why:
            return str(why)
        finally:
            os.environ.clear()
            os.environ.update(before)
        outside = outside_torch(load_profiles()["a10g"])
        peak = fits.unlimited_peak(fits.precisions[0], case.batch, outside)
        assert peak is not None
        return Peaks(peak.allocated_bytes, peak.reserved_bytes)


def tell(machine: Machine, case: Case, kind: str, with_cpu: bool) -> float:
    """Predict, run, print a row; return how far off the worse of both peaks is."""
    truth = machine.truth(case)
    worst = 0.0
    for path in ("GPU", "CPU") if with_cpu else ("GPU",):
        peaks = machine.predicted(case, hide_gpus=path == "CPU")
        if isinstance(peaks, str):
            print(f"| {case.name} | {case.batch} | {kind} | {path} | {peaks[:150]} | | | | | |", flush=True)
            worst = 1.0 if path == "GPU" else worst
            continue
        off = peaks.off(truth)
        worst = max(worst, *map(abs, off)) if path == "GPU" else worst
        print(
            f"| {case.name} | {case.batch} | {kind} | {path} "
            f"| {peaks.allocated / MIB:,.0f} | {truth.allocated / MIB:,.0f} | {off[0]:+.1%} "
            f"| {peaks.reserved / MIB:,.0f} | {truth.reserved / MIB:,.0f} | {off[1]:+.1%} |",
            flush=True,
        )
    return worst


def main() -> int:
    """Print the table of each torch; return whether a goal is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--torch", nargs="+", default=[USUAL_TORCH])
    parser.add_argument("--only", default="", help="trainings whose names hold this")
    parser.add_argument("--segments", nargs="+", default=["usual", "expandable"])
    parser.add_argument("--cpu", action="store_true", help="traced on a CPU too")
    options = parser.parse_args()
    worst = 0.0
    for version in options.torch:
        print(f"\ntorch {version}, simulated\n")
        print(
            "| training | batch | segments | traced on | allocated MiB, predicted | torch's | off by ", end=""
        )
        print("| reserved MiB, predicted | torch's | off by |\n" + "|---" * 10 + "|", flush=True)
        for case in CASES:
            for kind in options.segments:
                if options.only in case.name:
                    with state_folder() as state:
                        machine = Machine(find_environment(version), state, kind == "expandable")
                        worst = max(worst, tell(machine, case, kind, options.cpu))
    print(f"\nfurthest off, traced on the GPU: {worst:.1%}; goal: {GOAL:.0%}")
    return int(worst > GOAL)


if __name__ == "__main__":
    sys.exit(main())
