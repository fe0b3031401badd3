"""The tunekit agent: rides inside a training process and measures its loop.

Standard library only; torch is touched only after the script imported it. The parts, in the order
data flows through them:

    request    what the parent asks of this trial
    process    which process speaks
    originals  Python's own clock, files and JSON, whatever the script puts in their place
    harm       whatever existed before the trial stays as it was
    hooks      where all this hangs into torch's modules
    imports    callbacks that run right after a module was imported
    options    what the script's own command line has, as its parser knows it
    ranks      which rank of a distributed job this is
    loaders    DataLoader construction and iteration -> fetches of batches
    loader_info  what is known of one loader, and the address that finds it again
    sources    where a loader's batches come from: the script's iterator, and what took its place
    loader_work  what making batches costs in the processes that make them
    batches    what a batch is made of
    storages   bytes of tensors, shared ones counted once
    steps      optimizer steps, learning rates and losses
    roots      the outermost modules that own the stepped parameters
    own        what the script sets by itself
    learn      which loader trains, which modules are the roots
    knobs      precision, compile and channels_last applied to a root
    beginnings  start-up, first batch, first step, torch.compile settling down
    steady     from ticks on a clock to a steady window and an epoch boundary (pure)
    estimates  what a window says of the rate: its interval, its drift (pure)
    parts      what the host did within each loop batch (pure)
    device_times  the same on the device's timeline
    model_bytes  what the roots and their optimizers take
    host_memory  memory of processes, and use of /dev/shm
    facts      devices, epochs, loaders and errors as plain values
    measured   the plain facts of a finished measurement
    closer_look  tells of the measurement, and has stages look at what is left of the loop
    loop_at_hand  what the stages may know of that loop
    stages     which there are, in their order:
        full_queue     what the loader's full queue takes
        kernel_window  a few batches under torch.profiler
        sync_points    where the script waits for the device
        peaks          device memory of forward and backward, and of the optimizer
        floors         the loader alone, the training alone (on one batch of `replayed`)
        sizes          the training alone at other batch sizes (on that batch, `resized`)
        trace          what a step takes and computes, at two small sizes; on a CPU without arithmetic
    details    runs them in turn, each with a deadline
    observe    ties all of this together: learn, warm up, measure, report, wait for the end
    apply      the other mode: apply the knobs, then watch the rate with one step counter
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
    except Exception:  # missing, damaged, no request at all
        return  # the parent sees that no agent reported
    owner = process.Owner()
    log = events.EventLog(asked.trial_folder, owner)
    python = ".".join(map(str, sys.version_info[:3]))
    log.emit("start", pid=os.getpid(), python=python, image=process.image())
    try:
        if asked.mode == "apply":
            from . import apply

            apply.install(asked, log, owner)
        else:
            from . import harm, hooks

            log.start_pulse()
            harm.install(
                asked.trial_folder,
                asked.scratch_folder,
                asked.redirected,
                log,
                divert_new=asked.sandbox == "landlock",
                refuses=asked.sandbox != "overlay",
            )
            hooks.install(asked, log, owner)
    except Exception as error:
        log.emit("agent_error", message=f"{type(error).__name__}: {error}")
