"""What the parent asks of one trial."""

from __future__ import annotations

import json


class Request:
    """One trial's request, as the parent wrote it to request.json.

    Attributes:
        mode: "observe" measures and waits for the end, "apply" sets the knobs and gets out of the way.
        trial_folder: where events, output and diverted files go.
        working_dir: of the script.
        scratch_folder: where processes put their sockets; gone after the trial.
        sandbox: what the kernel keeps the trial's processes from writing with.
        redirected: files of the user's, by real path, and the rewritten copies that reads see instead.
        knobs: values to set, by knob name; a knob that is absent is left as the script has it.
        loader: address of the training loader, None at the baseline.
        roots: addresses of the roots, empty at the baseline.
        samples_per_step: samples in a batch of a script without a DataLoader, None where they are not known.
        world_size: processes that trained together when the config was measured.
        promised_it_per_s: (lowest, highest) rate that "apply" watches for, None for no watch.
        batches_per_step: loop batches per optimizer step as measured, which that rate is counted in.
        details: what to look at once the measurement is complete.
        skips: arithmetic on a CPU that is left out: "nothing", "traced" (in the traced steps) or "all" (from
            the first forward on: nothing is measured, the details follow at once).
        sizes: batch sizes to train at alone, where the details ask for that, in this order.
        rate_to_beat: steady samples/s of one rank below which the measurement is given up, None for never.
        device_memory_bytes: what "observe" lets torch reserve on a CUDA device, None for all of it.
        window_s: steady time to measure, in seconds.
        interval_goal: half width of the rate's interval, relative, at which the window may close.
        option_names: plain names of the options of its command line to tell of.
    """

    def __init__(self, payload: dict) -> None:
        self.mode: str = payload["mode"]
        self.working_dir: str = payload["working_dir"]
        self.redirected: dict = payload["redirected"]
        self.samples_per_step: int | None = payload["samples_per_step"]
        self.world_size: int = payload["world_size"]
        self.promised_it_per_s: list | None = payload["promised_it_per_s"]
        self.batches_per_step: int = payload["batches_per_step"]
        self.trial_folder: str = payload["trial_folder"]
        self.scratch_folder: str = payload["scratch_folder"]
        self.sandbox: str = payload["sandbox"]
        self.knobs: dict = payload["knobs"]
        self.loader: dict | None = payload["loader"]
        self.roots: list = payload["roots"]
        self.details: list = payload["details"]
        self.skips: str = payload["skips"]
        self.sizes: list = payload["sizes"]
        self.rate_to_beat: float | None = payload["rate_to_beat"]
        self.device_memory_bytes: int | None = payload["device_memory_bytes"]
        self.window_s = float(payload["window_s"])
        self.interval_goal = float(payload["interval_goal"])
        self.option_names: list = payload["option_names"]


def read(path: str) -> Request:
    """Return the request in the file.

    Raises:
        OSError, ValueError, KeyError: the file is missing or not a request.
    """
    with open(path, encoding="utf-8") as stream:
        return Request(json.load(stream))
