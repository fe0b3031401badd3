"""Built-in training scripts, written as users write them and run as commands.

`NAME.py` is a script, and `Contents` in `NAME_store.py` says what data it reads.
"""

from pathlib import Path
from typing import NamedTuple


class Workload(NamedTuple):
    """What a built-in workload trains."""

    model: str
    """On a GPU; a CPU gets a small one."""
    data: str
    limited_by: str
    """The bottleneck of its default settings."""


WORKLOADS = {
    "images": Workload("ResNet-50", "images in chunks of 16", "decoding and augmenting"),
    "ppg": Workload("1-D ResNet-34", "1 s windows of 100 samples", "one small read per sample"),
    "spectrograms": Workload("CNN", "224 x 224 x 3, float16", "compute, copies to the GPU"),
    "text": Workload("BERT-size encoder", "documents of any length", "compute, much of it on padding"),
    "records": Workload("LSTM", "patients' visits", "collating in Python"),
}
"""Every built-in workload by its name."""

DEFAULT_WORKLOAD = next(iter(WORKLOADS))


def script_of(name: str) -> Path:
    """Return the script of a built-in workload."""
    return Path(__file__).with_name(f"{name}.py")
