"""What the parent asks of one trial."""

from __future__ import annotations

import json


class Request:
    """One trial's request, as the parent wrote it to request.json."""

    mode: str  # "observe" measures and waits for the end, "apply" sets the knobs and gets out of the way
    trial_folder: str  # where events, output and redirected writes go
    working_dir: str  # of the script
    scratch_folder: str  # for short-lived files; gone after the trial
    writable_folders: list  # what the trial may write to beside these two
    sandbox: str  # what the kernel keeps the trial's processes from writing with
    redirected: dict  # files of the user's, by real path, and the rewritten copies that reads see instead
    knobs: dict  # values to set, by name; a knob that is absent is left as the script has it
    no_sync: bool  # whether DistributedDataParallel stops summing gradients after the first steps
    loader: dict | None  # address of the training loader, None at the baseline
    roots: list  # addresses of the roots, empty at the baseline
    samples_per_step: int | None  # in a batch that the script makes itself, None where unknown
    world_size: int  # processes that trained together when the config was measured
    promised_it_per_s: list | None  # (lowest, highest) rate that "apply" watches for, None for no watch
    batches_per_step: int  # loop batches per optimizer step as measured, which that rate is counted in
    details: list  # what to look at once the measurement is complete
    skips: str  # arithmetic on a CPU that is left out: "nothing", "traced" (in the traced steps) or "all"
    # (from the first forward on: nothing is measured, the details follow at once)
    sizes: list  # batch sizes to train at alone, where the details ask for that, in this order
    rate_to_beat: float | None  # steady samples/s of one rank below which to give up, None for never
    device_memory_bytes: int | None  # what "observe" lets torch reserve on a CUDA device, None for all
    ram_bytes: int | None  # what all its processes may take; None for an unknown limit
    window_s: float  # steady time to measure
    interval_goal: float  # half width of the rate's interval, relative, at which the window may close
    option_names: list  # plain names of the options of its command line to report
    thread_variables: list  # names of environment variables to report beside the thread counts

    def __init__(self, payload: dict) -> None:
        vars(self).update({name: payload[name] for name in type(self).__annotations__})


def read(path: str) -> Request:
    """Return the request in the file.

    Raises:
        OSError, ValueError, KeyError: the file is missing or not a request.
    """
    with open(path, encoding="utf-8") as stream:
        return Request(json.load(stream))
