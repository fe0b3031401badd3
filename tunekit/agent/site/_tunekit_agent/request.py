"""The parent's request for one trial."""

from __future__ import annotations

import json


class Request:
    """One trial's request, as the parent wrote it to request.json."""

    mode: str  # "observe" measures and then waits to be ended; "apply" sets the knobs and steps aside;
    # "record" sets nothing and records the real training in the folder
    records: bool  # whether "apply" also records, as "record" does
    trial_folder: str  # where events, output and redirected writes go
    working_dir: str  # the script's
    scratch_folder: str  # for short-lived files; removed after the trial
    writable_folders: list  # other folders that the trial may write to
    sandbox: str  # how the kernel protects the user's files: "overlay", "landlock" or "none"
    redirected: dict  # real paths of the user's files -> rewritten copies to read instead
    knobs: dict  # values to set, by name; a knob that is absent keeps the script's value
    no_sync: bool  # whether DistributedDataParallel stops summing gradients after the first steps
    loader: dict | None  # address of the training loader; None for the baseline
    roots: list  # addresses of the root modules; empty for the baseline
    samples_per_step: int | None  # samples in a batch that the script makes itself; None if unknown
    world_size: int  # number of training processes when the config was measured
    promised_it_per_s: list | None  # (min, max) of the rate that "apply" checks; None to check nothing
    batches_per_step: int  # batches per optimizer step when measured; the promised rate counts batches
    details: list  # what to examine after the measurement
    skips: str  # which arithmetic to skip on a CPU: "nothing", "traced" (in the traced steps) or "all"
    # (from the first forward pass on: nothing is measured, the stages start immediately)
    sizes: list  # batch sizes to time without loading, in this order, if the details ask for it
    rate_to_beat: float | None  # give up below this steady rate (samples/s of one rank); None: never
    device_memory_bytes: int | None  # limit on torch's CUDA memory in "observe" mode; None for no limit
    ram_bytes: int | None  # RAM limit for the whole process tree; None if unknown
    window_s: float  # steady time to measure
    interval_goal: float  # the window may close at this relative half-width of the rate's interval
    option_names: list  # plain names of the command-line options to report
    thread_variables: list  # environment variables to report along with the thread counts

    def __init__(self, payload: dict) -> None:
        vars(self).update({name: payload[name] for name in type(self).__annotations__})


def read(path: str) -> Request:
    """Return the request stored in a file.

    Raises:
        OSError, ValueError, KeyError: the file is missing or not a request.
    """
    with open(path, encoding="utf-8") as stream:
        return Request(json.load(stream))
