"""From evidence to a measurement or a named failure. Pure.

Outcomes are told apart by exception types, exit status and our own limits, never by looking for
"error" in the output: a good run may print that word.
"""

import signal
from collections.abc import Iterable

from tunekit.records.agent_messages import ErrorSeen, RankEvent
from tunekit.records.measurement import LoopMeasurement, Measurement
from tunekit.records.target import Discovery
from tunekit.records.trial import Failure, OutcomeKind
from tunekit.trial.applied import knob_missed
from tunekit.trial.bindings import Bound
from tunekit.trial.watch import Evidence

_REMEDIES = {
    OutcomeKind.DEVICE_OOM: "use a smaller batch or bf16",
    OutcomeKind.HOST_OOM: "use fewer workers, a lower prefetch_factor or a smaller batch",
    OutcomeKind.SHM_EXHAUSTED: "enlarge /dev/shm (docker run --shm-size=8g) or use fewer workers",
    OutcomeKind.TIMEOUT: "raise the limit with --trial-limit",
    OutcomeKind.HANG: "see output.log of the trial; raise the limit with --no-progress-limit",
    OutcomeKind.TOO_SHORT: "let the script train for more steps while tuning",
    OutcomeKind.NO_TRAINING_LOOP: "give the command that trains, after --",
    OutcomeKind.AGENT_ABSENT: (
        "run the script with a plain `python` that honours PYTHONPATH: not python -I, -E or -S, "
        "and not inside a container"
    ),
    OutcomeKind.KNOB_NOT_APPLIED: "take the knob out of the search with --fix, as the script sets it",
    OutcomeKind.COMPILE_NO_EFFECT: "keep compile off for this model: --fix compile=false",
    OutcomeKind.NONFINITE_LOSS: "lower the learning rate, or keep the precision with --fix precision=fp32",
}


def measurement_of(evidence: Evidence, bound: Bound, baseline: Discovery | None) -> Measurement | Failure:
    """Return what a trial's evidence amounts to.

    Args:
        evidence: what the watch saw.
        bound: how its config was put into the target.
        baseline: what the baseline learnt; None at the baseline.
    """
    if evidence.done is None or evidence.limit is not None or evidence.returncode not in (0, None):
        return _failure_without_measurement(evidence)
    loop = evidence.done.loop
    if evidence.nonfinite is not None:
        message = f"the loss was {evidence.nonfinite.loss} after {evidence.nonfinite.steps} steps"
        return _failure(OutcomeKind.NONFINITE_LOSS, message, evidence)
    if evidence.learnt is None or not evidence.learnt.discovery.complete:
        message = f"what the agent told could not be read ({evidence.rejected_lines} lines rejected)"
        return _failure(OutcomeKind.AGENT_ABSENT, message, evidence)
    missed = knob_missed(loop, bound.changed, bound.injected, evidence.learnt, baseline)
    if missed:
        return _failure(OutcomeKind.KNOB_NOT_APPLIED, missed, evidence)
    if bound.changed.get("compile") and loop.compile_graphs == 0:
        message = "torch.compile was applied but captured 0 graphs"
        return _failure(OutcomeKind.COMPILE_NO_EFFECT, message, evidence)
    assert evidence.memory is not None
    return Measurement(loop=_with_other_ranks(loop, evidence.ranks.values()), memory=evidence.memory)


def _with_other_ranks(loop: LoopMeasurement, others: Iterable[RankEvent]) -> LoopMeasurement:
    """Return rank 0's figures with the device memory peaks of the rank that needs most."""
    peaks = {}
    for name in ("peak_allocated_bytes", "peak_reserved_bytes", "allocation_retries"):
        known = [value for one in (loop, *others) if (value := getattr(one, name)) is not None]
        peaks[name] = max(known, default=None)
    return loop.model_copy(update=peaks)


def _failure_without_measurement(evidence: Evidence) -> Failure:
    if evidence.start_error is not None:
        return _failure(OutcomeKind.SCRIPT_ERROR, f"could not be started: {evidence.start_error}", evidence)
    if evidence.agent_error is not None:
        return _failure(OutcomeKind.AGENT_ABSENT, f"the agent failed: {evidence.agent_error}", evidence)
    if evidence.limit is not None:
        return _failure(evidence.limit, evidence.limit_message, evidence)
    if evidence.exit is not None and evidence.exit.error is not None:
        kind = _kind_of_error(evidence.exit.error)
        last = evidence.exit.error.traceback[-1:] or (evidence.exit.error.types[0],)
        message = f"after {evidence.exit.steps} steps: {last[0].strip()[:500]}"
        return _failure(kind, message, evidence)
    code = evidence.returncode
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in {s.value for s in signal.Signals} else str(-code)
        return _failure(OutcomeKind.KILLED, f"ended by {name} after {evidence.steps} steps", evidence)
    if code not in (0, None):
        return _failure(
            OutcomeKind.SCRIPT_ERROR, f"exit status {code} after {evidence.steps} steps", evidence
        )
    if not evidence.started:
        message = "the script ended without the agent having run in it"
        return _failure(OutcomeKind.AGENT_ABSENT, message, evidence)
    if evidence.steps == 0:
        message = f"the script ended after {evidence.batches} batches without one optimizer step"
        return _failure(OutcomeKind.NO_TRAINING_LOOP, message, evidence)
    message = f"the script ended after {evidence.steps} optimizer steps, before a steady window"
    return _failure(OutcomeKind.TOO_SHORT, message, evidence)


def _kind_of_error(error: ErrorSeen) -> OutcomeKind:
    """Return the outcome for an uncaught exception, by its type and, for torch's own, its message."""
    if any(name.endswith("OutOfMemoryError") for name in error.types):
        return OutcomeKind.DEVICE_OOM
    if "builtins.MemoryError" in error.types or "DefaultCPUAllocator: can't allocate memory" in error.message:
        return OutcomeKind.HOST_OOM
    if "builtins.RuntimeError" not in error.types and "builtins.OSError" not in error.types:
        return OutcomeKind.SCRIPT_ERROR
    if "CUDA error: out of memory" in error.message or "CUBLAS_STATUS_ALLOC_FAILED" in error.message:
        return OutcomeKind.DEVICE_OOM
    if (
        "insufficient shared memory (shm)" in error.message
        or "unable to write to file </torch_" in error.message
    ):
        return OutcomeKind.SHM_EXHAUSTED
    if error.message.startswith("DataLoader worker (pid"):
        out_of_shm = "Bus error" in error.message
        return OutcomeKind.SHM_EXHAUSTED if out_of_shm else OutcomeKind.WORKER_CRASH
    return OutcomeKind.SCRIPT_ERROR


def _failure(kind: OutcomeKind, message: str, evidence: Evidence) -> Failure:
    return Failure(
        kind=kind,
        message=message,
        remedy=_REMEDIES.get(kind),
        last_lines=evidence.last_lines,
        returncode=evidence.returncode,
    )
