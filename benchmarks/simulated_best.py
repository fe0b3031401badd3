"""What the best config is, held against what a search recommends, on simulated devices.

    python benchmarks/simulated_best.py                                   # every device and loop: hours
    python benchmarks/simulated_best.py --device a10g --loop tokens       # one of them; both may be repeated
    python benchmarks/simulated_best.py --table                           # what was measured so far

For each device and loop of `simulated_loop.py`, `tunekit search` looks for the best by itself; then a small
grid of configs is run plainly, without tunekit. The search's Balanced and Aggressive are then run plainly
too, in turns with the grid's best, each in fresh processes; the noise floor is that of the grid's best.
Everything is kept in --out, and what is there already is not run again. Needs the environment of `python -m
simgpu environment`.
"""

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from simgpu.environment import USUAL_TORCH, find_environment
from simgpu.simulation import Simulation, state_folder
from tunekit.recommend.noise import noise_floor
from tunekit.records.codec import read_json
from tunekit.records.run import Run

ROOT = Path(__file__).resolve().parents[1]
LOOP = ROOT / "benchmarks" / "simulated_loop.py"
SLOWER = {"t4": 8, "a10g": 32, "a100-sxm-80": 32, "h200": 96}
"""By device: how much slower than described, so that the host's own time is small beside it."""
AS_DESCRIBED = "resnet50"
"""The loop whose steps are long enough by themselves."""
LAUNCHES = {"clicks": ":launch_ns=100000"}
"""A slow launch is what bounds it."""
LOOPS = ("images", "tokens", "clicks", AS_DESCRIBED)
FLAGS = ("pin_memory", "compile", "channels_last")
KNOBS = ("batch_size", "num_workers", "prefetch_factor", "precision", *FLAGS)
BATCHES = {
    "images": (16, 64, 256),
    "tokens": (16, 64, 256),
    "clicks": (16, 64, 256),
    "resnet50": (64, 128, 192),
}
ROUNDS = 3

Knobs = dict[str, Any]


def grid_of(device: str, loop: str) -> list[Knobs]:
    """Return the configs that are run plainly; compiled ones in 16 bit alone, where they are fastest."""
    half = "fp16" if device == "t4" else "bf16"
    precisions = ["fp32", half] if device == "t4" or loop == "resnet50" else ["fp32", "tf32", half]
    modes = [(precision, False) for precision in precisions] + [(half, True)]
    workers = {"tokens": (0,), "resnet50": (1,)}.get(loop, (0, 2))
    layouts = (False, True) if loop in ("images", "resnet50") else (False,)
    return [
        {
            "batch_size": batch,
            "num_workers": count,
            "precision": precision,
            "compile": is_compiled,
            "channels_last": layout,
            "pin_memory": loop == AS_DESCRIBED,
        }
        for (precision, is_compiled), layout, count, batch in itertools.product(
            modes, layouts, workers, BATCHES[loop]
        )
    ]


class Bench:
    """One device and loop, in its folder.

    Args:
        device, loop: which.
        folder: where everything is kept.
        torch: version of the environment.
        seconds: that each plain config is measured for.
        budget: of the search; None: what it gives itself.
    """

    def __init__(
        self, device: str, loop: str, folder: Path, torch: str, seconds: float, budget: str | None
    ) -> None:
        self.device, self.loop, self.folder = device, loop, folder / f"{device}-{loop}"
        self._made = find_environment(torch)
        self._seconds, self._budget = seconds, budget
        slower = "" if loop == AS_DESCRIBED else f":slower={SLOWER[device]}"
        self._described = f"{device}{slower}{LAUNCHES.get(loop, '')}"

    def run(self) -> None:
        """Do what is not there yet; the search first, which shall find nothing compiled."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self._searched() is None:
            shutil.rmtree(self.folder / "run", ignore_errors=True)
            words = [] if self._budget is None else ["--budget", self._budget]
            out = ["--out", str(self.folder / "run")]
            self._python(["-m", "tunekit", "search", *words, *out, "--", "python", str(LOOP), self.loop])
        known = [line["knobs"] for line in self._lines("grid")]
        if missing := [knobs for knobs in grid_of(self.device, self.loop) if knobs not in known]:
            self._plain("grid", missing)
        contenders = self._contenders()
        for _ in range(ROUNDS - len(self._lines("again")) // len(contenders)):
            for knobs in contenders:
                self._plain("again", [knobs])

    def row(self) -> str | None:
        """Return its line of the table, None before all of it is there."""
        if self._searched() is None or len(self._lines("again")) < ROUNDS * len(self._contenders()):
            return None
        best, *tiers = ((median(self._rates(knobs)), knobs) for knobs in self._contenders())
        floor = noise_floor(self._rates(best[1]))
        assert floor is not None
        cells = " | ".join(f"{_text(knobs)}: {rate / best[0]:.3f}" for rate, knobs in tiers)
        found = f"{_text(best[1])}: {best[0]:.0f}"
        return f"| {self.device} | {self.loop} | {found} | {cells} | {floor.relative:.1%} |"

    def _contenders(self) -> list[Knobs]:
        """The grid's best, Balanced, Aggressive."""
        measured = [line for line in self._lines("grid") if line["samples_per_s"]]
        best = max(measured, key=lambda line: line["samples_per_s"])["knobs"]
        found = self._searched()
        assert found is not None
        return [best, found["balanced"], found["aggressive"]]

    def _searched(self) -> dict[str, Knobs] | None:
        path = self.folder / "run" / "run.json"
        run = read_json(path, Run) if path.exists() else None
        if run is None or run.status != "finished":
            return None
        configs = {one.tier.value: one.config.model_dump(mode="json") for one in run.recommendations}
        return {tier: {knob: config[knob] for knob in KNOBS} for tier, config in configs.items()}

    def _rates(self, knobs: Knobs) -> list[float]:
        return [line["samples_per_s"] for line in self._lines("again") if line["knobs"] == knobs]

    def _lines(self, name: str) -> list[dict[str, Any]]:
        path = self.folder / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def _plain(self, name: str, every: Sequence[Knobs]) -> None:
        seconds = ["--seconds", str(self._seconds)]
        with (self.folder / f"{name}.jsonl").open("a") as lines:
            self._python([str(LOOP), self.loop, "--plain", json.dumps(every), *seconds], stdout=lines)

    def _python(self, words: Sequence[str], **more: Any) -> None:
        """Run Python on the device."""
        with state_folder() as state:
            variables = Simulation(self._made, devices=self._described, state=state).variables(os.environ)
            compiled = {
                "TRITON_CACHE_DIR": str(self.folder.parent / "triton"),
                "TORCHINDUCTOR_CACHE_DIR": str(self.folder.parent / "inductor"),
            }
            environment = {**os.environ, **variables, **compiled, "OMP_NUM_THREADS": "1"}
            subprocess.run([str(self._made.python), *words], env=environment, cwd=ROOT, check=True, **more)


def _text(knobs: Knobs) -> str:
    flags = [name for name in FLAGS if knobs.get(name)]
    loader = [f"batch {knobs['batch_size']}", f"{knobs['num_workers']} workers"]
    return ", ".join([*loader, knobs["precision"], *flags])


def main() -> None:
    """Run what is asked for, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", action="append", choices=sorted(SLOWER))
    parser.add_argument("--loop", action="append", choices=LOOPS)
    parser.add_argument("--torch", default=USUAL_TORCH)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--budget")
    parser.add_argument("--out", type=Path, default=ROOT / "reports" / "simulated-best")
    parser.add_argument("--table", action="store_true")
    asked = parser.parse_args()
    chosen = itertools.product(asked.device or SLOWER, asked.loop or LOOPS)
    benches = [
        Bench(device, loop, asked.out.resolve(), asked.torch, asked.seconds, asked.budget)
        for device, loop in chosen
    ]
    for bench in () if asked.table else benches:
        bench.run()
    sys.stdout.write("Simulated: no figure of any card. Plain runs; tiers as shares of the grid's best.\n\n")
    sys.stdout.write("| device | loop | grid's best: samples/s | Balanced | Aggressive | noise floor |\n")
    sys.stdout.write("|---|---|---|---|---|---|\n")
    for bench in benches:
        if row := bench.row():
            sys.stdout.write(row + "\n")


if __name__ == "__main__":
    main()
