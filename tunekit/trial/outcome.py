"""Turns evidence into a measurement or a named failure. Pure.

Outcomes are distinguished by exception types, exit status and our own limits, never by looking for
"error" in the output: a good run may print that word.
"""

import re
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from tunekit.records.agent_messages import AgentErrorEvent, ByHandEvent, DoneEvent, ErrorSeen
from tunekit.records.details import Details
from tunekit.records.measurement import DryLoop, DryRun, LoopMeasurement, Measurement
from tunekit.records.target import Discovery
from tunekit.records.trial import Failure, OutcomeKind
from tunekit.trial.bindings import Bound
from tunekit.trial.events import NO_GUARD_REMEDY, Evidence, place_and_message, plain
from tunekit.trial.knob_verification import (
    batch_contradicted,
    inputs_text,
    unapplied_knob,
    unjoined,
)
from tunekit.units import count_text, duration_text, rate_text

_FULL_SHARE = 0.05
"""Free share of the device's memory below which a library's failure counts as out of memory."""
_PINNING = re.compile(
    r"in pin memory thread for device|\.pin_memory\(|\bpin_memory=True|(?:cuda|hip)HostRegister"
)
_PINNING_PLACE = "torch.utils.data._utils.pin_memory."
_TRACEBACK = "Traceback (most recent call last)"
_NO_GUARD = "before the current process has finished its bootstrapping phase"
_KERNEL_ERROR = re.compile("(?:CUDA|HIP) error")
"""A kernel's error, which surfaces at whatever call uses the device next."""
_CUDA_HINTS = (
    "Search for `cuda",
    "CUDA kernel errors might be",
    "HIP kernel errors might be",
    "For debugging consider",
    "Compile with `TORCH",
)
_RERAISED = "torch._utils.reraise"
_IN_WORKER = re.compile(r"Caught \w+ in DataLoader worker process \d+\.")
NO_ROOM_IN_SHM = "unable to allocate shared memory(shm) for file </torch_"
_DEVICE = (
    r"(?:CUDA|HIP) (?:driver )?error: (?:out of memory|CUDA_ERROR_OUT_OF_MEMORY)"
    r"|Triton Error \[\w+\]: out of memory"
    r"|\w+ out of memory\. Tried to allocate"  # torch's message, repeated by a compiler
    r"|MPS backend out of memory"
    r"|No executable batch size found, reached zero"  # accelerate's, after it ran out at every size
    r"|\b(?:CU|HIP)[A-Z]+_(?:STATUS_)?(?:INTERNAL_ERROR_DEVICE_ALLOCATION|ALLOC)_FAILED\b"
    r"|Cuda failure (?:2 )?'out of memory'|Failed to CUDA (?:calloc|malloc)\b"  # NCCL's
)
_DEVICE_IF_FULL = (  # these libraries report the same if they are broken or can't do what is asked
    r"\bCU[A-Z]+_STATUS_(?:NOT_INITIALIZED|INTERNAL_ERROR)\b"
    r"|cuDNN error: CUDNN_STATUS_SUCCESS\b"  # no handle: torch reports the status of its next query
    r"|unable to find an engine to execute this computation"
    r"|Unable to find a valid cuDNN algorithm"
)
_HOST = r"DefaultCPUAllocator: can't allocate memory|CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION"
_OF_SHM = (
    r"insufficient shared memory \(shm\)|unable to write to file </torch_"
    rf"|{re.escape(NO_ROOM_IN_SHM)}|^DataLoader worker \(pid.*Bus error"
)
_GPU_FAILED = (
    r"(?:CUDA|HIP) error: (?:unknown error|uncorrectable |unspecified launch failure|the launch timed out)"
    r"|CUDA error: (?:CUDA-capable device\(s\) is/are busy|no CUDA-capable device|hardware stack)"
    r"|\bCU(?:DNN|BLAS)_STATUS_EXECUTION_FAILED\b"
)


def _is_of_full_device(error: ErrorSeen) -> bool:
    return error.device_free_share is not None and error.device_free_share <= _FULL_SHARE


def _is_of_pinning(error: ErrorSeen) -> bool:
    """Return whether host memory could not be pinned, which CUDA reports like its own out of memory."""
    lines = (line for line in reversed(error.traceback) if line.startswith("    ") and line.strip(" ^~"))
    said = (error.message, next(lines, ""))  # the innermost line of the script or of torch's own Python
    return error.raised_in.startswith(_PINNING_PLACE) or any(_PINNING.search(text) for text in said)


class _Signature(NamedTuple):
    """What an exception must look like to have one cause: its type, its message, and a condition."""

    types: tuple[str, ...]
    """Possible endings of the name of one of its types."""
    message: str
    """A pattern; any white space in the message counts as one space."""
    kind: OutcomeKind | None
    """The outcome; None for that of any other exception."""
    remedy: str | None = None
    holds: Callable[[ErrorSeen], bool] = lambda error: True


_ANY, _RUNTIME, _SYSTEM = ("",), ("builtins.RuntimeError",), ("builtins.RuntimeError", "builtins.OSError")
_SIGNATURES = (
    _Signature((".WriteDenied",), "", OutcomeKind.HARM_DENIED),
    _Signature(("OutOfMemoryError",), "", OutcomeKind.DEVICE_OOM),
    _Signature(("builtins.MemoryError",), "", OutcomeKind.HOST_OOM),
    _Signature(_ANY, _HOST, OutcomeKind.HOST_OOM),
    _Signature(
        _RUNTIME,
        _DEVICE,
        OutcomeKind.HOST_OOM,
        "the driver could lock no more of the host's memory: leave pinned memory off, use a smaller batch, "
        "or raise the container's limit on memory and `ulimit -l`",
        _is_of_pinning,
    ),
    _Signature(_RUNTIME, _DEVICE, OutcomeKind.DEVICE_OOM),
    _Signature(_RUNTIME, _DEVICE_IF_FULL, OutcomeKind.DEVICE_OOM, holds=_is_of_full_device),
    _Signature(_SYSTEM, _OF_SHM, OutcomeKind.SHM_EXHAUSTED),
    _Signature(_SYSTEM, r"^DataLoader worker \(pid", OutcomeKind.WORKER_CRASH),
    _Signature(
        _ANY,
        _GPU_FAILED,
        None,
        "the GPU or its driver failed, or a kernel broke it: `nvidia-smi` and `dmesg | grep Xid` say which; "
        "a GPU that is lost needs a reset or another machine",
    ),
    _Signature(_ANY, _NO_GUARD, None, NO_GUARD_REMEDY),
)
"""The first signature that matches an exception decides its outcome."""


def cause_of(error: ErrorSeen) -> tuple[OutcomeKind, str | None]:
    """Return the outcome of an uncaught exception, and a remedy if the outcome's usual one does not fit."""
    message = " ".join(error.message.split())
    other = OutcomeKind.WORKER_CRASH if is_of_a_worker(error) else OutcomeKind.SCRIPT_ERROR
    for one in _SIGNATURES:
        has_type = any(name.endswith(one.types) for name in error.types)
        if has_type and re.search(one.message, message) and one.holds(error):
            return one.kind or other, one.remedy
    return other, None


def is_of_a_worker(error: ErrorSeen) -> bool:
    """Return whether torch re-raised an exception of a loader worker in the main process."""
    return error.raised_in == _RERAISED and _IN_WORKER.match(error.message) is not None


def error_text(error: ErrorSeen) -> str:
    """Return an exception in one line: its first paragraph, unless it quotes another process's traceback.

    Later paragraphs are hints and addresses.
    """
    lines = [line.strip() for line in error.traceback if line.strip()]
    is_anothers = _TRACEBACK in error.message or is_of_a_worker(error)
    if not is_anothers and len(error.message.strip().splitlines()) > 1:
        first = re.split(r"\n\s*\n", error.message.strip())[0].splitlines()
        text = " ".join(" ".join(line for line in first if not line.startswith(_CUDA_HINTS)).split())
        return f"{error.types[0].rpartition('.')[2]}: {text}"[:500]
    return (lines[-1] if lines else error.types[0])[:500]


REMEDIES = {
    OutcomeKind.DEVICE_OOM: "use a smaller batch, or bf16 if it trains in fp32",
    OutcomeKind.HOST_OOM: "use fewer workers, a lower prefetch_factor or a smaller batch",
    OutcomeKind.SHM_EXHAUSTED: "enlarge /dev/shm (docker run --shm-size=8g) or use fewer workers",
    OutcomeKind.TIMEOUT: "raise the limit with --trial-limit",
    OutcomeKind.HANG: "if it was only slow, raise the limit with --no-progress-limit",
    OutcomeKind.WORKER_CRASH: (
        "load with num_workers=0, which shows the error (in a search: --fix num_workers=0)"
    ),
    OutcomeKind.SCRIPT_ERROR: (
        "if the command fails without tunekit too, fix that first; --fix keeps a failing knob out of a search"
    ),
    OutcomeKind.KILLED: "find out what ends processes here: a job scheduler, a supervisor or another user",
    OutcomeKind.HARM_DENIED: (
        "point the script at another output folder with its own flag, or train with `tunekit run`"
    ),
    OutcomeKind.TOO_SHORT: "let the script train for more steps while tuning",
    OutcomeKind.NO_TRAINING_LOOP: (
        "give the command that trains after --; if it takes long to start, raise --no-progress-limit"
    ),
    OutcomeKind.AGENT_ABSENT: (
        "run the script with a plain `python` that honours PYTHONPATH: not python -I, -E or -S, "
        "and not inside a container"
    ),
    OutcomeKind.AGENT_ERROR: (
        "this is a bug in tunekit, not in the script: report it to its maintainers, with this message and "
        "the trial's folder"
    ),
    OutcomeKind.SAMPLES_UNKNOWN: (
        "give --samples-per-step N, the samples that one process takes in one forward and backward pass, "
        "or bind the script's own setting for it, such as --bind 'batch_size=--FLAG {}'"
    ),
    OutcomeKind.KNOB_NOT_APPLIED: "take the knob out of the search: use --fix with the script's own value",
    OutcomeKind.COMPILE_NO_EFFECT: "keep compile off for this model: --fix compile=false",
    OutcomeKind.NONFINITE_LOSS: "lower the learning rate (in a search: or --fix precision=fp32)",
    OutcomeKind.REFUSED: "use fewer workers, a lower prefetch_factor or a smaller batch",
}
"""What to do after each outcome, where its cause calls for nothing else."""
_CANNOT_REPORT_REMEDY = (
    "let the script leave room for it while tuning: raise or drop that limit, free some space, and leave the "
    "trial's folder alone; the script can see TUNEKIT_TRIAL=1 in a trial"
)
_UNJOINED_REMEDY = (
    "let the script read RANK and WORLD_SIZE, as torchrun sets them: torch.distributed.init_process_group "
    "and DistributedDataParallel around the model; or write {processes} into the command where the script "
    "takes its number of processes"
)
_BY_HAND_REMEDY = (
    "use a torch.optim optimizer, so that tunekit can see the steps: optimizer = torch.optim.SGD("
    "model.parameters(), lr=LR), then optimizer.step() instead of the loop over the parameters; put a "
    "custom update into step() of a subclass of torch.optim.Optimizer"
)
_NATIVE_CRASHES = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT)
_NATIVE_REMEDY = "native code crashed: PYTHONFAULTHANDLER=1 before the command shows where"
_MAX_FAULTS = 16
"""Maximum number of faults in a Details record."""
_SHELL_KILLED = 128 + signal.SIGKILL


class _Reason(NamedTuple):
    """An outcome, its message, and a remedy if the outcome's usual one does not fit."""

    kind: OutcomeKind
    message: str
    remedy: str | None = None


def measurement_of(
    evidence: Evidence,
    bound: Bound,
    baseline: Discovery | None,
    own_batch: int | None = None,
    sizes: Sequence[int] = (),
    processes: int | None = None,
    no_sync: bool = False,
) -> Measurement | DryRun | Failure:
    """Return the measurement or failure that a trial's evidence shows.

    Args:
        evidence: what the watch collected.
        bound: how the config was put into the target.
        baseline: what the baseline learnt; None for the baseline itself.
        own_batch: samples in a batch of the unchanged script; for the baseline, the value at a bound place.
        sizes: batch sizes to be timed without loading, in order.
        processes: local processes that should train together; None for as many as the command starts.
        no_sync: whether the processes should train without summing gradients.
    """
    ended_well = evidence.limit is None and evidence.returncode in (0, None)
    if evidence.done is None or (evidence.done.is_final and not ended_well):
        return _blaming_knobs(_failure(_why_not_measured(evidence), evidence), evidence, bound)
    loop = evidence.done.loop
    if isinstance(loop, DryLoop):
        seen = _details(evidence, evidence.done, sizes) or Details()
        return DryRun(loop=loop, details=seen, is_whole=evidence.done.is_final)
    too_large = _failed_on_largest_samples(evidence, evidence.done)
    if too_large is not None:
        return too_large
    why = _why_unusable(loop, evidence, bound, baseline, own_batch)
    why = why or _why_not_parallel(loop, processes, no_sync)
    if why is not None:
        return _failure(why, evidence)
    assert evidence.memory is not None
    details, memory = _details(evidence, evidence.done, sizes), evidence.memory
    seen_bytes = (details and details.queue and details.queue.pss_bytes) or 0  # may exceed the samples
    memory = memory.changed(peak_pss_bytes=max(memory.peak_pss_bytes, seen_bytes))
    return Measurement(loop=_with_other_ranks(loop, evidence), memory=memory, details=details)


def _why_unusable(
    loop: LoopMeasurement, evidence: Evidence, bound: Bound, baseline: Discovery | None, own_batch: int | None
) -> _Reason | None:
    """Return why a loop's figures are not valid for the requested config."""
    if evidence.nonfinite is not None:
        loss, steps = evidence.nonfinite.loss, evidence.nonfinite.steps
        return _Reason(OutcomeKind.NONFINITE_LOSS, f"the loss was {loss} after {count_text(steps, 'step')}")
    if evidence.learnt is None or not evidence.learnt.discovery.complete:
        lines = count_text(evidence.rejected_lines, "line")
        message = f"the agent's report could not be read ({lines} rejected)"
        return _Reason(OutcomeKind.AGENT_ERROR, message)
    unknown = _unknown_samples(loop, evidence.learnt.discovery, own_batch if baseline is None else None)
    if unknown:
        return _Reason(OutcomeKind.SAMPLES_UNKNOWN, unknown)
    missed = unapplied_knob(loop, bound.changed, bound.injected, evidence.learnt, baseline, own_batch)
    if missed:
        return _Reason(OutcomeKind.KNOB_NOT_APPLIED, missed)
    if bound.changed.get("compile") and loop.compile_graphs == 0:
        return _Reason(OutcomeKind.COMPILE_NO_EFFECT, "torch.compile was applied but captured 0 graphs")
    return None


def _why_not_parallel(loop: LoopMeasurement, processes: int | None, no_sync: bool) -> _Reason | None:
    """Return why a loop's figures are not valid for the requested processes or for `no_sync`."""
    if processes is not None and (why := unjoined(loop, processes)) is not None:
        return _Reason(OutcomeKind.KNOB_NOT_APPLIED, why, _UNJOINED_REMEDY)
    seen = loop.data_parallel
    if no_sync and (seen is None or seen.syncs_gradients is not False):
        why = "gradient summing should be off, but no DistributedDataParallel turned it off"
        return _Reason(OutcomeKind.KNOB_NOT_APPLIED, why)
    return None


def _details(evidence: Evidence, done: DoneEvent, sizes: Sequence[int]) -> Details | None:
    return done.details if done.is_final else _cut_short(evidence, done.details or Details(), sizes)


def _unknown_samples(loop: LoopMeasurement, found: Discovery, said: int | None) -> str | None:
    """Return why the samples per batch of a loop without a loader are unknown; None if they are known.

    Args:
        loop: the measured loop.
        found: what was learnt about it.
        said: the batch size at a bound place, which is checked against the inputs.
    """
    if loop.has_loader:
        return None
    per_step = f", {found.batches_per_step} times per optimizer step" if found.batches_per_step > 1 else ""
    message = (
        f"the script makes its own batches, {rate_text(1 / loop.step_time_s)} a second, of an unknown "
        f"number of samples: its model's input is {inputs_text(found)}{per_step}"
    )
    if loop.batch_size is None:
        return message
    if said is not None and batch_contradicted(found, said):
        return f"{message}, which has no dimension for a batch of {said}"
    return None


def _failed_on_largest_samples(evidence: Evidence, done: DoneEvent) -> Failure | None:
    """Return the failure of a measured script that ran out of memory on the data set's largest samples.

    A long training will meet such a batch eventually. Any other end there leaves the measurement valid.
    """
    seen = done.details.largest if done.details else None
    if done.is_final or seen is None or not seen.is_given or seen.survived:
        return None
    failure = _failure(_why_not_measured(evidence), evidence)
    if not failure.kind.is_memory:
        return None
    message = f"ran out of memory on a batch of the data set's largest samples: {failure.message}"
    return failure.changed(message=message, largest=seen)


def _cut_short(evidence: Evidence, seen: Details, sizes: Sequence[int]) -> Details:
    """Return the details of a script that ended after its measurement but before they were complete."""
    why = _why_cut_short(evidence)
    tried = len(seen.sizes.sizes) if seen.sizes is not None else len(sizes)
    is_at_largest = seen.largest is not None and seen.largest.is_given and not seen.largest.survived
    at_work = {
        "sizes": f"at batch size {sizes[tried]}" if tried < len(sizes) else None,
        "trace": "while it was traced",
        "largest": "on the batch" if is_at_largest else None,
    }
    update: dict[str, object] = {
        name: part.changed(why_ended=plain(f"the script ended {where}: {why}")[:500])
        for name, where in at_work.items()
        if where and (part := getattr(seen, name)) is not None and part.why_ended is None
    }
    fault = plain(f"the remaining details are missing: {why}")[:500]
    return seen.changed(**update, faults=(*seen.faults[: _MAX_FAULTS - 1], fault))


def _why_cut_short(evidence: Evidence) -> str:
    is_failed = evidence.agent_error or evidence.limit or evidence.returncode or evidence.keeper_end
    if not is_failed and (evidence.exit is None or evidence.exit.error is None):
        return f"the script ended after {_steps_text(evidence)}"
    failure = _failure(_why_not_measured(evidence), evidence)
    return f"{failure.message}; {failure.remedy}" if evidence.limit and failure.remedy else failure.message


def _blaming_knobs(failure: Failure, evidence: Evidence, bound: Bound) -> Failure:
    """Return the failure; if the script ended before its first step, with the bound knobs in its remedy."""
    ours = [knob for knob in bound.changed if knob not in bound.injected]
    if failure.kind is not OutcomeKind.SCRIPT_ERROR or evidence.steps or not ours:
        return failure
    knobs = ", ".join(f"{knob} {bound.changed[knob]}" for knob in ours)
    remedy = f"check what --bind puts into the script for {knobs}: the script may not accept it there"
    return failure.changed(remedy=remedy)


def _with_other_ranks(loop: LoopMeasurement, evidence: Evidence) -> LoopMeasurement:
    """Return the figures with all ranks' rates, their highest memory peaks, and how many train apart."""
    peaks = {}
    for name in ("peak_allocated_bytes", "peak_reserved_bytes", "allocation_retries"):
        known = [
            value for one in (loop, *evidence.ranks.values()) if (value := getattr(one, name)) is not None
        ]
        peaks[name] = max(known, default=None)
    apart = max(1, len(evidence.trainers)) if loop.world_size == 1 else 1
    return loop.changed(**peaks, ranks=evidence.ranks_seen(), processes_apart=apart)


def _why_not_measured(evidence: Evidence) -> _Reason:
    if evidence.start_error is not None:
        return _Reason(OutcomeKind.SCRIPT_ERROR, f"could not be started: {evidence.start_error}")
    if evidence.agent_error is not None:
        return _why_agent_failed(evidence.agent_error, evidence)
    if evidence.by_hand is not None:
        return _why_by_hand(evidence.by_hand)
    if (launcher := evidence.external_launcher) is not None:
        return _Reason(
            OutcomeKind.AGENT_ABSENT,
            f"the command started `{launcher.words}` and no Python with torch runs here: the "
            "training runs elsewhere, where tunekit can't see it",
            launcher.remedy,
        )
    if evidence.limit is not None:
        return _why_by_limit(evidence.limit, evidence)
    if evidence.exit is not None and evidence.exit.error is not None:
        return _why_by_exception(evidence.exit.error, evidence)
    if evidence.returncode not in (0, None):
        return _why_by_status(evidence.returncode, evidence)
    if evidence.keeper_end is not None:
        message = (
            f"tunekit's keeper process {evidence.keeper_end} after {_steps_text(evidence)}; "
            "the script's processes were ended with it"
        )
        if evidence.oom_kills:
            return _Reason(OutcomeKind.HOST_OOM, f"{message}; {_oom_text(evidence)}")
        return _Reason(OutcomeKind.KILLED, message)
    if evidence.cannot_report is not None:
        return _why_cannot_report(evidence)
    return _why_too_little(evidence)


def _why_agent_failed(seen: AgentErrorEvent, evidence: Evidence) -> _Reason:
    """Return the failure of a trial whose agent failed.

    The agent may be the first to run into the script's own trouble: full memory, a dead worker, a failed
    device.
    """
    error = seen.error
    if error is not None and (
        cause_of(error)[0] is not OutcomeKind.SCRIPT_ERROR or _KERNEL_ERROR.search(error.message)
    ):
        return _why_by_exception(error, evidence)
    kept = ""
    if seen.traceback_file is not None:
        kept = f"; its traceback is in {Path(evidence.output).parent / seen.traceback_file}"
    if seen.knobs:
        message = f"{' and '.join(seen.knobs)} could not be set: {seen.message}{kept}"
        flags = " ".join(f"--bind {knob}=fixed" for knob in seen.knobs)
        return _Reason(OutcomeKind.KNOB_NOT_APPLIED, message, f"keep the script's own setting: {flags}")
    message = f"tunekit's agent failed after {_steps_text(evidence)}, {place_and_message(seen)}{kept}"
    return _Reason(OutcomeKind.AGENT_ERROR, message)


def _why_cannot_report(evidence: Evidence) -> _Reason:
    """Return the failure of a script in which the agent could not write its events."""
    message = f"the agent could not report after {_steps_text(evidence)}: {evidence.cannot_report}"
    return _Reason(OutcomeKind.AGENT_ABSENT, message, _CANNOT_REPORT_REMEDY)


def _why_by_hand(seen: ByHandEvent) -> _Reason:
    passes = count_text(seen.passes, "backward pass", "backward passes")
    ran = f"{passes} in {duration_text(seen.seconds)} without a step of a torch.optim optimizer"
    changed = f"parameters changed after {seen.changes} of them"
    return _Reason(OutcomeKind.NO_TRAINING_LOOP, f"{ran}; {changed}", _BY_HAND_REMEDY)


def _why_by_limit(limit: OutcomeKind, evidence: Evidence) -> _Reason:
    """Return the failure of a trial that was ended from outside.

    If a worker's sending thread finds no room for a batch, the batch is lost with a traceback in the script's
    output, and the loop waits for it forever.
    """
    if evidence.cannot_report is not None and limit is not OutcomeKind.HOST_OOM:
        return _why_cannot_report(evidence)
    lost = [line for line in evidence.last_lines if NO_ROOM_IN_SHM in line]
    if limit is OutcomeKind.HANG and lost:
        message = f"{evidence.limit_message}; a worker had lost the batch: {lost[-1].strip()}"
        return _Reason(OutcomeKind.SHM_EXHAUSTED, message)
    return _Reason(limit, evidence.limit_message, evidence.limit_remedy)


def _why_by_exception(error: ErrorSeen, evidence: Evidence) -> _Reason:
    (kind, remedy), said = cause_of(error), error_text(error)
    message = f"after {_steps_text(evidence)}: {said}"
    if kind is OutcomeKind.SCRIPT_ERROR and error.worker_exit_codes:
        ends = " and ".join(_end_text(code) for code in error.worker_exit_codes)
        message = f"a loader worker died ({ends}) after {_steps_text(evidence)}; the loop raised {said}"
        out_of_shm = -signal.SIGBUS in error.worker_exit_codes
        kind = OutcomeKind.SHM_EXHAUSTED if out_of_shm else OutcomeKind.WORKER_CRASH
    elif is_of_a_worker(error):
        message = f"in a loader worker, {message}"
    if kind is OutcomeKind.WORKER_CRASH and evidence.oom_kills:
        kind, message = OutcomeKind.HOST_OOM, f"{message}; {_oom_text(evidence)}"
    is_unguarded = any(_NO_GUARD in line for line in evidence.last_lines)  # a worker's own traceback
    return _Reason(kind, message, NO_GUARD_REMEDY if is_unguarded else remedy)


def _why_by_status(code: int, evidence: Evidence) -> _Reason:
    message = f"{_end_text(code)} after {_steps_text(evidence)}"
    if code in (-signal.SIGKILL, _SHELL_KILLED) and evidence.oom_kills:
        return _Reason(OutcomeKind.HOST_OOM, f"{message}; {_oom_text(evidence)}")
    if code < 0:
        return _Reason(OutcomeKind.KILLED, message, _NATIVE_REMEDY if -code in _NATIVE_CRASHES else None)
    if evidence.last_lines:
        message = f"{message}; its last line: {evidence.last_lines[-1]}"
    return _Reason(OutcomeKind.SCRIPT_ERROR, message)


def _why_too_little(evidence: Evidence) -> _Reason:
    """Return the failure of a script that ended with exit status 0 but without a measurement."""
    steps, batches = evidence.steps, evidence.batches
    if not evidence.started:
        return _Reason(OutcomeKind.AGENT_ABSENT, "the script ended, but the agent never ran in it")
    if steps == batches == 0 and evidence.left_running:
        left = count_text(evidence.left_running, "process", "processes")
        message = f"the command ended before any training, and left {left} running in the background"
        remedy = "run the training in the foreground: without & or nohup, and not as a daemon"
        return _Reason(OutcomeKind.NO_TRAINING_LOOP, message, remedy)
    if steps == 0:
        gradients = evidence.exit.gradients if evidence.exit else 0
        passes = count_text(gradients, "backward pass", "backward passes")
        seen = f"{count_text(batches, 'batch', 'batches')} and {passes}"
        message = f"the script ended after {seen}, without a step of a torch.optim optimizer"
        return _Reason(OutcomeKind.NO_TRAINING_LOOP, message, _BY_HAND_REMEDY if gradients else None)
    message = f"the script ended after {steps} optimizer steps, before a steady window"
    return _Reason(OutcomeKind.TOO_SHORT, message)


def _steps_text(evidence: Evidence) -> str:
    return count_text(evidence.steps, "step")


def _end_text(code: int) -> str:
    """Return an exit status in words; negative for a signal."""
    if code >= 0:
        return f"exit status {code}"
    known = {each.value: each.name for each in signal.Signals}
    return f"ended by {known.get(-code, -code)}"


def _oom_text(evidence: Evidence) -> str:
    peak = f", at a peak of {evidence.memory.peak_pss_bytes >> 20} MiB" if evidence.memory else ""
    return f"the kernel's OOM killer ended {count_text(evidence.oom_kills, 'process', 'processes')}{peak}"


def _failure(why: _Reason, evidence: Evidence) -> Failure:
    return Failure(
        kind=why.kind,
        message=plain(why.message),
        remedy=why.remedy or REMEDIES.get(why.kind),
        last_lines=evidence.last_lines,
        returncode=evidence.returncode,
    )
