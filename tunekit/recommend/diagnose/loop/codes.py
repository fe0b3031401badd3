"""Every code that a finding of a measured loop may have, with its severities and what it means in one line.

A test holds it against the checks. The machine's codes are in a table of their own, which is the doctor's.
"""

from tunekit.recommend.diagnose.codes import Code
from tunekit.records.finding import Severity

_NOTE = (Severity.INFO,)
_WARNING = (Severity.WARNING,)

LOOP_CODES: dict[str, Code] = {
    "data-bound": Code(_WARNING, "training waits for its data"),
    "loader-cpu": Code(_WARNING, "it waits because making batches is CPU work"),
    "loader-storage": Code(_WARNING, "it waits because making batches is waiting, for storage mostly"),
    "first-batch-slow": Code(_WARNING, "workers are slow to begin, and begin again with each epoch"),
    "unpickling": Code(_WARNING, "the training process is busy unpacking its workers' batches"),
    "worker-imbalance": Code((*_WARNING, *_NOTE), "one worker is far slower than the others"),
    "batch-time-tail": Code((*_WARNING, *_NOTE), "a few batches take far longer than the rest"),
    "compute-bound": Code(_NOTE, "the training itself takes the time"),
    "fp16-unscaled": Code(_NOTE, "fp16 is this GPU's faster precision, and takes a gradient scaler"),
    "no-loader": Code(_NOTE, "the script makes its batches itself, which can't be told from computing"),
    "memory-bound": Code(_NOTE, "the GPU moves data in its memory more than it computes"),
    "host-bound": Code(_WARNING, "the GPU waits for the host's launches, Python or .item()"),
    "copy-bound": Code(_WARNING, "batches are copied to the GPU while it computes nothing"),
    "sync-points": Code((*_WARNING, *_NOTE), "lines of the script wait for the GPU in each step"),
    "gpu-underused": Code(_WARNING, "the GPU is idle for a good part of the time"),
    "gpu-throttled-in-trial": Code(_WARNING, "heat or the power supply slowed the GPU down"),
    "gpu-unsoaked": Code(_WARNING, "the GPU was still getting warm at its power limit, and slower"),
    "gpu-power-capped": Code(_NOTE, "the GPU's power limit held its clock down"),
    "allocation-retries": Code(_WARNING, "the GPU's memory ran out for a moment"),
    "costly-epochs": Code(_WARNING, "a clear share of each epoch goes by at its boundary"),
    "short-epochs": Code(_NOTE, "an epoch is over before its loader is up to speed"),
    "rate-drifts": Code(_WARNING, "the loop got faster or slower while it was measured"),
    "page-cache": Code(_WARNING, "the page cache answered, not the storage"),
    "closure-broken": Code(_NOTE, "loader and training alone do not add up to the loop"),
}
"""In the order of the checks."""
