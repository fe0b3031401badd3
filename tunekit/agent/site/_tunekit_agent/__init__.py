"""The tunekit agent: rides inside a training process and measures its loop.

Standard library only; torch is touched only after the script imported it. Its parts:

    request     what the parent asks of this trial
    process     which process speaks, which rank it is
    originals   Python's own clock, files and JSON, whatever the script puts in their place
    file_guard/ keeps the user's files as they are
    imports     callbacks after an import: where all this hangs into torch's modules
    options     what the script's own command line has, as its parser knows it
    loader/     DataLoaders as they are built and read, their batches, their workers' time and memory
    model/      the roots, the steps of their optimizers, the knobs applied to them; the loop that is learnt
    measure/    start-up, a steady window, an epoch boundary, where the time goes on host and device
    stages/     what is looked at once the measurement is complete, in the script's own loop
    observe     ties all of this together: learn, warm up, measure, report, wait for the end
    apply       the other mode: apply the knobs, then watch the rate with one step counter
    events      the JSON lines that the parent reads
    faults      exceptions of the agent's own: never raised into the script, reported with a traceback
"""

from __future__ import annotations

import functools
import os


def start(request_path: str) -> None:
    """Start the agent for the request file; a failure is reported, never raised into the script."""
    from . import events, faults, imports, process, request

    try:
        asked = request.read(request_path)
    except Exception:  # missing, damaged, no request at all
        return  # the parent sees that no agent reported
    owner = process.Owner()
    log = events.EventLog(asked.trial_folder, owner)
    log.emit("start", pid=os.getpid(), image=process.image())
    imports.report_to(functools.partial(faults.tell, log, asked.trial_folder))
    try:
        if asked.mode == "apply":
            from . import apply

            apply.install(asked, log, owner)
        else:
            from . import file_guard, observe
            from .file_guard import frameworks

            log.pulse = events.Pulse(asked.trial_folder)
            file_guard.redirect(asked.redirected)
            frameworks.install(log, asked.trial_folder)
            if asked.sandbox != "overlay":  # which keeps the user's files by itself
                writable = [asked.scratch_folder, *asked.writable_folders]
                file_guard.install(asked.trial_folder, writable, log)
            observe.install(asked, log, owner)
    except Exception as error:
        faults.tell(log, asked.trial_folder, error)
