"""tunekit's verbs on simulated devices, and what they left: records, the script's output, the trace."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from simgpu.machine import SimulatedGpu
from simgpu.trace import Work
from tunekit.records.codec import read_json
from tunekit.records.run import LoopProfile, Run
from tunekit.records.scaling_run import ScalingRun
from tunekit.records.trial import TrialRecord

SCRIPTS = Path(__file__).resolve().parents[1] / "zoo" / "on_gpu"
SLOWED = "a10g:slower=16"
"""A device beside which the host's own time is small, however busy the host is."""

MAX_KEPT_BYTES = 20 * 512
"""What torch allocates between two prints of a script: the agent keeps a loss of each step, unread."""


@dataclass(frozen=True)
class Ended:
    """A verb that has ended."""

    process: "subprocess.CompletedProcess[str]"
    folder: Path

    @property
    def profile(self) -> LoopProfile:
        return read_json(self.folder / "profile.json", LoopProfile)

    @property
    def run(self) -> Run:
        return read_json(self.folder / "run.json", Run)

    @property
    def scaling(self) -> ScalingRun:
        return read_json(self.folder / "scale.json", ScalingRun)

    def output(self, trial: int = 0) -> str:
        """What the script of a trial printed."""
        return (self.folder / "trials" / f"{trial:04d}" / "output.log").read_text()


def script(name: str, *words: str) -> list[str]:
    """The training command of a script."""
    return ["python", str(SCRIPTS / name), *words]


def tunekit(
    gpu: SimulatedGpu,
    verb: str,
    options: Sequence[str],
    command: Sequence[str] = (),
    devices: str = SLOWED,
    **settings: object,
) -> Ended:
    """Run a verb on simulated devices; it writes to a folder of the test's."""
    folder = gpu.own / verb
    out = ["--out", str(folder)] if verb in ("search", "profile", "fits", "scale") else []
    words = ["-m", "tunekit", verb, *out, *options, *(["--", *command] if command else [])]
    return Ended(gpu.run(words, devices, timeout_s=600, **settings), folder)


def has_torchs_peaks(ended: Ended, record: TrialRecord) -> bool:
    """Whether the trial's peaks are those that torch told the script, as it printed them now and then."""
    loop = record.measurement and record.measurement.loop
    printed = re.findall(r"peaks \((\d+), (\d+)\)", ended.output(record.number))
    allocated, reserved = ([int(pair[place]) for pair in printed] for place in (0, 1))
    if not loop or loop.peak_allocated_bytes is None:
        return False
    most = max(allocated) + MAX_KEPT_BYTES
    return allocated[0] <= loop.peak_allocated_bytes <= most and loop.peak_reserved_bytes in reserved


def of_trials(work: list[Work]) -> list[list[Work]]:
    """The devices' work by process, in the order in which they began."""
    pids = dict.fromkeys(one.pid for one in work)
    return [[one for one in work if one.pid == pid] for pid in pids]


def measured(record: TrialRecord) -> TrialRecord:
    """The trial, which must not have failed."""
    assert record.failure is None, record.failure
    assert record.measurement is not None
    return record
