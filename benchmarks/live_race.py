"""Who finds the faster config in the same wall time, live: tunekit, plain TPE, Lightning's BatchSizeFinder?

    python benchmarks/live_race.py [--targets speech_frames click_rates] [--budget 180] [--rounds 4]

Two real scripts that are not among the recorded grids. `tunekit search` has the budget, its confirmation and
everything else included; plain Optuna TPE has it for real trials of the same space, one after the other;
Lightning's BatchSizeFinder runs on the same model and data with the workers that the script has, and its
batch size is taken. Then the four, the script as it is among them, run again in fresh processes, interleaved.
Printed: samples/s of each, and by what factor tunekit's is ahead, beside the A/A floor. On a CPU nothing runs
out of memory, so the finder ends at the size of the data set.
"""

import argparse
import json
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from racers import PlainTpe  # noqa: E402

from tunekit.machine.detect import detect_host  # noqa: E402
from tunekit.recommend.noise import noise_floor, speedup  # noqa: E402
from tunekit.records.codec import read_json  # noqa: E402
from tunekit.records.config import TrainConfig  # noqa: E402
from tunekit.records.run import Run  # noqa: E402
from tunekit.records.trial import TrialRole  # noqa: E402
from tunekit.trial.executor import KnownTarget, ProcessExecutor, TrialSpec  # noqa: E402
from tunekit.trial.target import resolve_target  # noqa: E402
from tunekit.trial.watch import Limits  # noqa: E402

TARGETS_FOLDER = Path(__file__).with_name("live_targets")

_TRIAL_LIMIT_S = 100.0
"""A process that is not measured by then counts as failed: its batches are too long for any window."""

FINDER = """
import importlib.util, json, sys, warnings
warnings.simplefilter("ignore")
import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import BatchSizeFinder
from torch.utils.data import DataLoader

spec = importlib.util.spec_from_file_location("target", sys.argv[1])
target = importlib.util.module_from_spec(spec)
spec.loader.exec_module(target)

class Module(LightningModule):
    def __init__(self):
        super().__init__()
        self.batch_size, self.model = target.BATCH_SIZE, target.make_model()
    def training_step(self, batch, number):
        return target.loss_of(self.model, batch)
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)
    def train_dataloader(self):
        return DataLoader(target.make_dataset(), batch_size=self.batch_size, shuffle=True)

module = Module()
finder = BatchSizeFinder(mode="power", init_val=target.BATCH_SIZE)
trainer = Trainer(
    accelerator="cpu", max_steps=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
    enable_model_summary=False, callbacks=[finder],
)
trainer.fit(module)
print(json.dumps(module.batch_size))
"""


class Contest:
    """One live target and what each search makes of it.

    Args:
        name: of the target.
        budget_s: that each search has.
        window_s: steady seconds of a trial.
        folder: for runs and trials.
    """

    def __init__(self, name: str, budget_s: float, window_s: float, folder: Path) -> None:
        self._script = TARGETS_FOLDER / f"{name}.py"
        self._budget_s, self._window_s, self._folder = budget_s, window_s, folder
        host = detect_host()
        limits = Limits(trial_s=_TRIAL_LIMIT_S, no_progress_s=90.0, ram_bytes=int(0.9 * host.ram_limit_bytes))
        target = resolve_target((sys.executable, str(self._script)), ROOT)
        self._executor = ProcessExecutor(target, folder / f"{name}-trials", limits, window_s)
        self._number = 0
        self._run = self._searched(name)
        baseline, discovery = self._run.baseline_config, self._run.discovery
        assert baseline is not None and discovery is not None
        self.baseline = baseline
        self._known = KnownTarget(discovery, baseline)

    @property
    def ours(self) -> TrainConfig:
        """The fastest config that `tunekit search` recommends."""
        return max(self._run.recommendations, key=lambda one: one.rate_samples_per_s.value).config

    def by_tpe(self) -> TrainConfig:
        """Return the fastest config that plain TPE tried before the time was up."""
        baseline = self._run.baseline
        assert baseline is not None
        racer = PlainTpe(self._run.space, self._run.host, self.baseline, seed=0)
        records, until = [baseline], time.monotonic() + self._budget_s - baseline.duration_s
        while time.monotonic() < until:
            config = racer.propose(records)
            if config is None:
                break
            records.append(self._executor.run(self._spec(config), self._known, lambda progress: None))
            print(f"  TPE, {len(records)}: {records[-1].rate_samples_per_s or 0:.0f} samples/s", flush=True)
        best = max(records, key=lambda record: record.rate_samples_per_s or 0.0)
        assert best.config is not None
        return best.config

    def by_finder(self) -> TrainConfig:
        """Return the script's own config with the batch size that Lightning's finder chose."""
        command = [sys.executable, "-c", FINDER, str(self._script)]
        done = subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=10 * self._budget_s, cwd=self._folder
        )
        batch_size = json.loads(done.stdout.splitlines()[-1])
        return self.baseline.model_copy(update={"batch_size": batch_size})

    def rate(self, config: TrainConfig) -> float | None:
        """Return samples/s of one fresh process, None if it fails."""
        return self._executor.run(self._spec(config), self._known, lambda progress: None).rate_samples_per_s

    def _spec(self, config: TrainConfig) -> TrialSpec:
        self._number += 1
        return TrialSpec(self._number, TrialRole.SEARCH, config)

    def _searched(self, name: str) -> Run:
        out = self._folder / f"{name}-run"
        words = ["--gpu", "cpu", "--budget", f"{self._budget_s:.0f}s", "--window", str(self._window_s)]
        command = [sys.executable, "-m", "tunekit", "search", *words, "--confirm", "3", "--out", str(out)]
        subprocess.run([*command, "--", sys.executable, str(self._script)], check=True, cwd=ROOT)
        return read_json(out / "run.json", Run)


def config_text(config: TrainConfig) -> str:
    """Return a config in one line."""
    modes = [str(config.precision), *(["compile"] if config.compile else [])]
    return f"batch {config.batch_size}, {config.num_workers} workers, {', '.join(modes)}"


def tell(name: str, configs: dict[str, TrainConfig], rates: dict[str, list[float | None]]) -> None:
    """Print one target's table."""
    print(f"\n{name}\n\n| search | config | samples/s | tunekit's is ahead by |\n|---|---|---|---|")
    own = rates["the script as it is"]
    floor = noise_floor([rate for rate in own if rate])
    ours = rates["tunekit"]
    for search, config in configs.items():
        seen = [rate for rate in rates[search] if rate]
        if not seen or len(seen) < len(rates[search]):
            print(f"| {search} | {config_text(config)} | failed | n/a |")
            continue
        ahead = speedup([rate for rate in ours if rate], seen) if all(ours) else None
        factor = f"{ahead.value:.2f} ({ahead.low:.2f} to {ahead.high:.2f})" if ahead else "n/a"
        print(f"| {search} | {config_text(config)} | {geometric_mean(seen):.0f} | {factor} |")
    print(f"\nA/A floor of these processes: {f'{floor.relative:.1%}' if floor else 'n/a'}", flush=True)


def contest(name: str, options: argparse.Namespace, folder: Path) -> None:
    """Run all searches on one target and measure what they chose."""
    one = Contest(name, options.budget, options.window, folder)
    configs = {
        "the script as it is": one.baseline,
        "tunekit": one.ours,
        "plain TPE": one.by_tpe(),
        "Lightning's finder": one.by_finder(),
    }
    rates: dict[str, list[float | None]] = {search: [] for search in configs}
    for number in range(options.rounds):
        order: Sequence[str] = list(configs)
        for search in order if number % 2 == 0 else order[::-1]:
            has_failed = None in rates[search]
            rates[search].append(None if has_failed else one.rate(configs[search]))
    tell(name, configs, rates)


def main() -> None:
    """Race and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--targets", nargs="+", default=["speech_frames", "click_rates"])
    parser.add_argument("--budget", type=float, default=180.0, metavar="S", help="wall time of each search")
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--window", type=float, default=1.0, metavar="S")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for name in options.targets:
            contest(name, options, Path(scratch))
    print(f"`{shlex.join(['python', 'benchmarks/live_race.py', *sys.argv[1:]])}`")


if __name__ == "__main__":
    main()
