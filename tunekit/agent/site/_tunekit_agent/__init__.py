"""The tunekit agent: rides inside a training process and measures its loop.

Standard library only; torch is touched only after the script imported it. The parts, in the order
data flows through them:

    request    what the parent asks of this trial
    imports    callbacks that run right after a module was imported
    loaders    DataLoader construction and iteration -> fetches of batches
    steps      optimizer steps, learning rates and losses
    roots      the outermost modules that own the stepped parameters
    knobs      precision, compile and channels_last applied to a root
    steady     from ticks on a clock to a steady window and an epoch boundary (pure)
    observe    ties them together: learn, warm up, measure, report, wait for the end
    facts      devices, epochs, loaders and errors as plain values
    harm       whatever existed before the trial stays as it was
    events     the JSON lines that the parent reads
"""

from __future__ import annotations

import os
import sys


def start(request_path: str) -> None:
    """Start the agent for the request file; a failure is reported, never raised into the script."""
    from . import events, request

    try:
        asked = request.read(request_path)
    except (OSError, ValueError, KeyError):
        return  # the parent sees that no agent reported
    log = events.EventLog(asked.trial_folder)
    log.emit("start", pid=os.getpid(), python=".".join(map(str, sys.version_info[:3])))
    try:
        from . import harm, observe

        harm.install(asked.trial_folder, asked.scratch_folder, asked.started_at_s, {}, log)
        observe.install(asked, log)
    except Exception as error:
        log.emit("agent_error", message=f"{type(error).__name__}: {error}")
