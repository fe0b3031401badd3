"""What a verb needs that runs trials into a folder: their executor, and the built-in workload's images."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tunekit.cli.trial_screen import TrialScreen
from tunekit.errors import TargetError
from tunekit.hardware.device import memory_cap_bytes
from tunekit.search.folder import RunFolder
from tunekit.trial.executor import ProcessExecutor
from tunekit.trial.watch import TREE_RAM_SHARE, Limits

if TYPE_CHECKING:
    from tunekit.records.fits import FitsRun
    from tunekit.records.host import Host
    from tunekit.records.loop_profile import LoopProfile
    from tunekit.records.run import Run


def make_images(record: "Run | LoopProfile | FitsRun", screen: TrialScreen) -> None:
    """Make the images that the built-in workload trains on, before its first trial, if they are not there.

    Raises:
        TargetError: they can't be written.
    """
    if record.target.builtin is None:
        return
    from tunekit.workloads.images_store import USUAL, image_folder  # noqa: PLC0415 - slow to import

    image_size, count = USUAL["cuda" if _trains_on_gpu(record) else "cpu"]
    try:
        image_folder(None, image_size, count, screen.images_made)
    except OSError as error:
        raise TargetError(
            f"the built-in workload's images can't be written ({error.strerror}); free some space, or name "
            "another place for them in XDG_CACHE_HOME"
        ) from error


def _trains_on_gpu(record: "Run | LoopProfile | FitsRun") -> bool:
    """Return whether the built-in workload trains on a GPU: this Python's torch tells, in seconds."""
    from tunekit.cli.machine import ask_torch  # noqa: PLC0415
    from tunekit.hardware.host.torch_build import TorchAbsent  # noqa: PLC0415

    if record.profile.is_cpu or not record.host.accelerators:
        return False
    build = record.host.torch or ask_torch(())
    return not isinstance(build, TorchAbsent) and any(one.type == "cuda" for one in build.devices)


def executor_for(
    record: "Run | LoopProfile | FitsRun",
    folder: RunFolder,
    here: "Host",
    command: Sequence[str] = (),
    budget_s: float = math.inf,
) -> ProcessExecutor:
    """Return what runs the trials of a run, a loop profile or a prediction.

    Where a larger GPU than the one asked for plays its part, trials have that one's memory.

    Args:
        record: target, options and the machine whose limits hold.
        folder: owned by the caller.
        here: this machine as it is now.
        command: the training command with its secrets, which the record lacks; the record's without one.
        budget_s: time for all of them, which no trial takes longer than.
    """
    limit_s = record.options.trial_limit_s
    limits = Limits(
        trial_s=min(limit_s, budget_s),
        start_s=max(0.0, min(limit_s, budget_s - limit_s)),
        no_progress_s=record.options.no_progress_limit_s,
        ram_bytes=int(TREE_RAM_SHARE * record.host.ram_limit_bytes),
    )
    return ProcessExecutor(
        record.target.changed(command=tuple(command) or record.target.command),
        folder.trials_folder,
        limits,
        record.options.window_s,
        hide_gpus=record.profile.is_cpu,
        gpus=here.nvml_indexes,
        telemetry_store=folder.telemetry_store,
        device_memory_bytes=memory_cap_bytes(record.profile, record.measured_on, record.host),
    )
