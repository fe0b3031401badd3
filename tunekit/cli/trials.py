"""The executor of a verb that runs trials into a folder."""

from typing import TYPE_CHECKING

from tunekit.search.folder import RunFolder
from tunekit.trial.executor import ProcessExecutor
from tunekit.trial.watch import TREE_RAM_SHARE, Limits

if TYPE_CHECKING:
    from tunekit.records.host import Host
    from tunekit.records.loop_profile import LoopProfile
    from tunekit.records.run import Run


def executor_for(
    record: "Run | LoopProfile", folder: RunFolder, here: "Host", trial_s: float
) -> ProcessExecutor:
    """Return what runs the trials of a run or a loop profile.

    Args:
        record: target, options and the machine whose limits hold.
        folder: owned by the caller.
        here: this machine as it is now.
        trial_s: longest time of a trial.
    """
    limits = Limits(
        trial_s=trial_s,
        no_progress_s=record.options.no_progress_limit_s,
        ram_bytes=int(TREE_RAM_SHARE * record.host.ram_limit_bytes),
    )
    return ProcessExecutor(
        record.target,
        folder.trials_folder,
        limits,
        record.options.window_s,
        hide_gpus=record.profile.is_cpu,
        gpus=here.nvml_indexes,
        telemetry_store=folder.telemetry_store,
    )
