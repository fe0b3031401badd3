"""Runs one trial of a script on some processes, under the CUDA torch of a simulation, and prints its record.

Its words: the trials' folder, the number of processes, the settings of DistributedDataParallel as JSON, then
what Python runs.
"""

import json
import sys
from pathlib import Path

from tunekit.records.data_parallel import DdpSettings
from tunekit.records.trial import TrialRole
from tunekit.trial.executor import ProcessExecutor, TrialSpec
from tunekit.trial.target import resolve_target
from tunekit.trial.watch import Limits

LIMITS = Limits(trial_s=280.0, no_progress_s=200.0, ram_bytes=12 << 30)
WINDOW_S = 3.0


def main(folder: str, processes: str, ddp: str, *command: str) -> None:
    target = resolve_target(["python", *command], Path(folder).parent)
    runs = ProcessExecutor(target, Path(folder), LIMITS, WINDOW_S, gpus=range(4))
    settings = DdpSettings.model_validate(json.loads(ddp))
    spec = TrialSpec(0, TrialRole.BASELINE, None, processes=int(processes), ddp=settings)
    sys.stdout.write(runs.run(spec, None, lambda progress: None).model_dump_json())


if __name__ == "__main__":
    main(*sys.argv[1:])
