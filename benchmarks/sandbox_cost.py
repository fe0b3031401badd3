"""What the sandbox costs a trial: whole trials with and without it, interleaved, and their steady rates.

    python benchmarks/sandbox_cost.py [--rounds 8] [--window 2] [--kind overlay]

Each round runs a real trial without the sandbox, with it, and without it again, in turn; the script reads its
samples from 2,000 files through DataLoader workers. The ratios of the second and the third to the first are
given as geometric means with their standard errors: sandboxed against not, and, as the noise floor, not
against not. Setting the sandbox up is timed apart, around `true`.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, median, stdev

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tunekit.records.host import SandboxKind  # noqa: E402
from tunekit.records.target import Target  # noqa: E402
from tunekit.records.trial import TrialRecord, TrialRole  # noqa: E402
from tunekit.trial import sandbox  # noqa: E402
from tunekit.trial.executor import ProcessExecutor, TrialSpec  # noqa: E402
from tunekit.trial.watch import Limits  # noqa: E402

READS_FILES = """
import numpy, torch
from pathlib import Path
from torch.utils.data import DataLoader, Dataset

class Files(Dataset):
    paths = sorted(Path("samples").iterdir())
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, index):
        return torch.from_numpy(numpy.fromfile(self.paths[index], dtype=numpy.float32))

if __name__ == "__main__":
    model = torch.nn.Linear(4096, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    while True:
        for samples in DataLoader(Files(), batch_size=32, num_workers=1, shuffle=True):
            optimizer.zero_grad()
            model(samples).square().mean().backward()
            optimizer.step()
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--window", type=float, default=2.0, metavar="S")
    parser.add_argument("--kind", choices=(sandbox.OVERLAY, sandbox.LANDLOCK), default=sandbox.OVERLAY)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        project = Path(folder)
        (project / "samples").mkdir()
        for number in range(2_000):
            (project / "samples" / f"{number:05d}").write_bytes(bytes(4 * 4096))
        (project / "train.py").write_text(READS_FILES)
        print(f"set-up: {_set_up_ms(project, options.kind):.1f} ms (median of 20, less `true` itself)")
        kinds: tuple[SandboxKind, ...] = ("none", options.kind, "none")
        rounds = [[_trial(project, kind, options.window) for kind in kinds] for _ in range(options.rounds)]
    print(f"{'':28}{options.kind + ' / none':>22}{'none / none':>22}")
    for name, figure in (("whole trial, s", _duration_s), ("steady rate, samples/s", _rate)):
        values = [[figure(record) for record in records] for records in rounds]
        ratios = [_ratio_text([one[at] / one[0] for one in values]) for at in (1, 2)]
        print(f"{name:28}{ratios[0]:>22}{ratios[1]:>22}")
    print(
        f"command: python benchmarks/sandbox_cost.py --rounds {options.rounds} --window {options.window:g} "
        f"--kind {options.kind}"
    )


def _set_up_ms(project: Path, kind: str) -> float:
    spec = {
        "kind": kind,
        "layer": str(project / "layer"),
        "kept": [str(project)],
        "shared": {},
        "startup_files": {},
    }
    launcher = [sys.executable, "-I", "-S", sandbox.__file__, json.dumps(spec), "--"]
    took = []
    for _ in range(20):
        for command in ([*launcher, "true"], ["true"]):
            started = time.perf_counter()
            subprocess.run(command, check=True)
            took.append(time.perf_counter() - started)
        sandbox.remove_layer(str(project / "layer"))
    return 1e3 * (median(took[::2]) - median(took[1::2]))


def _trial(project: Path, kind: SandboxKind, window_s: float) -> TrialRecord:
    target = Target(
        name="train",
        command=(sys.executable, "train.py"),
        working_dir=str(project),
        script=None,
        script_sha256=None,
    )
    limits = Limits(trial_s=120.0, no_progress_s=60.0, ram_bytes=8 << 30)
    executor = ProcessExecutor(target, project / "trials", limits, window_s, sandbox=kind)
    return executor.run(TrialSpec(0, TrialRole.BASELINE, None), None, lambda progress: None)


def _duration_s(record: TrialRecord) -> float:
    return record.duration_s


def _rate(record: TrialRecord) -> float:
    assert record.measurement is not None, record.failure
    loop = record.measurement.loop
    return loop.steady_samples / loop.steady_time_s


def _ratio_text(ratios: Sequence[float]) -> str:
    logs = [math.log(ratio) for ratio in ratios]
    error = stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    return f"{math.expm1(mean(logs)):+.2%} (s.e. {error:.2%})"


if __name__ == "__main__":
    main()
