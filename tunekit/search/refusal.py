"""What is not run: a target that can't be tuned, a config that would not fit."""

from datetime import UTC, datetime

from tunekit.errors import NoTrainingLoopError, TargetError
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord
from tunekit.trial.executor import TrialSpec

_SHOWN_LINES = 10


def baseline_error(failure: Failure) -> TargetError:
    """Return the error for a baseline that failed, with the script's own last lines."""
    kind = NoTrainingLoopError if failure.kind is OutcomeKind.NO_TRAINING_LOOP else TargetError
    lines = "".join(f"\n    {line}" for line in failure.last_lines[-_SHOWN_LINES:])
    said = f"\n  its last lines:{lines}" if lines else ""
    remedy = f"; {failure.remedy}" if failure.remedy else ""
    return kind(f"the baseline failed ({failure.kind}): {failure.message}{remedy}{said}")


def refused(spec: TrialSpec, reason: str) -> TrialRecord:
    """Return the record of a trial that was not started."""
    return TrialRecord(
        number=spec.number,
        role=spec.role,
        round=spec.round,
        config=spec.config,
        is_baseline_config=False,
        started_at=datetime.now(UTC).isoformat(timespec="seconds"),
        duration_s=0.0,
        failure=Failure(kind=OutcomeKind.REFUSED, message=f"not started: {reason}"),
    )
