"""Runs one trial of a script on some processes, under the CUDA torch of a simulation, and prints its record.

Its words: the trials' folder, the number of processes, "sum" or "apart" for their gradients, then what Python
runs.
"""

import sys
from pathlib import Path

from tunekit.records.trial import TrialRole
from tunekit.trial.executor import ProcessExecutor, TrialSpec
from tunekit.trial.target import resolve_target
from tunekit.trial.watch import Limits

LIMITS = Limits(trial_s=280.0, no_progress_s=200.0, ram_bytes=12 << 30)
WINDOW_S = 3.0


def main(folder: str, processes: str, gradients: str, *command: str) -> None:
    target = resolve_target(["python", *command], Path(folder).parent)
    runs = ProcessExecutor(target, Path(folder), LIMITS, WINDOW_S, gpus=range(4))
    spec = TrialSpec(0, TrialRole.BASELINE, None, processes=int(processes), no_sync=gradients == "apart")
    sys.stdout.write(runs.run(spec, None, lambda progress: None).model_dump_json())


if __name__ == "__main__":
    main(*sys.argv[1:])
