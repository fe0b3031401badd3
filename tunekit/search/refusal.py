"""Why a target can't be tuned: the error that a failed baseline becomes."""

from tunekit.errors import NoTrainingLoopError, TargetError
from tunekit.records.trial import Failure, OutcomeKind

_SHOWN_LINES = 10


def baseline_error(failure: Failure) -> TargetError:
    """Return the error for a baseline that failed, with the script's own last lines."""
    kind = NoTrainingLoopError if failure.kind is OutcomeKind.NO_TRAINING_LOOP else TargetError
    lines = "".join(f"\n    {line}" for line in failure.last_lines[-_SHOWN_LINES:])
    said = f"\n  its last lines:{lines}" if lines else ""
    remedy = f"; {failure.remedy}" if failure.remedy else ""
    return kind(f"the baseline failed ({failure.kind}): {failure.message}{remedy}{said}")
