"""The tunekit agent: runs inside a training process and measures its loop.

It uses only the standard library, and touches torch only after the script has imported it. Its parts:

    request     the parent's request for this trial
    process     which process reports, and which rank it is
    originals   Python's own clock, files and JSON, even if the script replaces them
    file_guard/ protects the user's files
    imports     callbacks that run after an import and hook everything below into torch's modules
    options     the script's command-line options, as its parser sees them
    loader/     how DataLoaders are built and read, their batches, their workers' time and memory
    model/      the root modules, their optimizers' steps, the knobs applied to them; the training loop
    measure/    start-up, a steady window, an epoch boundary, where the time goes on host and device
    stages/     closer looks at the script's own loop after the measurement
    observe     ties all of this together: learn, warm up, measure, report, wait to be ended
    apply       another mode: apply the knobs, then watch the rate with one step counter
    recording   what a real training's loop does from start to end, in a file of bounded size
    events      the JSON lines that the parent reads
    faults      the agent's own exceptions: never raised into the script, reported with a traceback
"""

from __future__ import annotations

import functools
import os


def start(request_path: str) -> None:
    """Start the agent for a request file; failures are reported, never raised into the script."""
    from . import events, faults, imports, process, request

    try:
        asked = request.read(request_path)
    except Exception:  # missing, damaged, or not a request
        return  # the parent notices that no agent reported
    owner = process.Owner()
    log = events.EventLog(asked.trial_folder, owner)
    log.emit("start", pid=os.getpid(), image=process.image())
    imports.report_to(functools.partial(faults.report, log, asked.trial_folder))
    try:
        if asked.mode != "observe":
            from . import apply, recording
            from .options import OptionWatch

            OptionWatch(asked.option_names, log).install()
            (apply if asked.mode == "apply" else recording).install(asked, log, owner)
        else:
            from . import file_guard, observe
            from .file_guard import frameworks

            log.pulse = events.Pulse(asked.trial_folder)
            file_guard.redirect(asked.redirected)
            frameworks.install(log, asked.trial_folder)
            if asked.sandbox != "overlay":  # an overlay protects the user's files without our help
                writable = [asked.scratch_folder, *asked.writable_folders]
                file_guard.install(asked.trial_folder, writable, log)
            observe.install(asked, log, owner)
    except Exception as error:
        faults.report(log, asked.trial_folder, error)
