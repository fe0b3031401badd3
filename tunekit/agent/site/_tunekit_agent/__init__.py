"""The tunekit agent: rides inside a training process and measures its loop.

Standard library only; torch is touched only after the script imported it. The parts, in the order
data flows through them:

    request    what the parent asks of this trial
    process    which process speaks
    imports    callbacks that run right after a module was imported
    ranks      which rank of a distributed job this is
    loaders    DataLoader construction and iteration -> fetches of batches
    loader_work  what making batches costs in the processes that make them
    batches    what a batch is made of
    steps      optimizer steps, learning rates and losses
    roots      the outermost modules that own the stepped parameters
    own        what the script sets by itself
    learn      which loader trains, which modules are the roots
    knobs      precision, compile and channels_last applied to a root
    steady     from ticks on a clock to a steady window and an epoch boundary (pure)
    parts      what the host did within each loop batch (pure)
    device_times  the same on the device's timeline
    details    what is looked at once the measurement is complete
    stages     which there are: full_queue, kernel_window, sync_points, peaks, floors
    observe    ties them together: learn, warm up, measure, report, wait for the end
    apply      the other mode: apply the knobs, then watch the rate with one step counter
    model_bytes  what the roots and their optimizers take (with storages: bytes of tensors)
    hooks      where all this hangs into torch's modules
    facts      devices, epochs, loaders and errors as plain values
    harm       whatever existed before the trial stays as it was
    telling    how far the loop has come
    events     the JSON lines that the parent reads
"""

from __future__ import annotations

import os
import sys


def start(request_path: str) -> None:
    """Start the agent for the request file; a failure is reported, never raised into the script."""
    from . import events, process, request

    try:
        asked = request.read(request_path)
    except (OSError, ValueError, KeyError):
        return  # the parent sees that no agent reported
    owner = process.Owner()
    log = events.EventLog(asked.trial_folder, owner)
    log.emit("start", pid=os.getpid(), python=".".join(map(str, sys.version_info[:3])))
    try:
        if asked.mode == "apply":
            from . import apply

            apply.install(asked, log, owner)
        else:
            from . import harm, hooks

            harm.install(asked.trial_folder, asked.scratch_folder, asked.started_at_s, asked.redirected, log)
            hooks.install(asked, log, owner)
    except Exception as error:
        log.emit("agent_error", message=f"{type(error).__name__}: {error}")
