"""What is not run: a target whose baseline failed, and a config that would not fit."""

from collections.abc import Sequence
from datetime import UTC, datetime

from tunekit.errors import NoTrainingLoopError, TargetError
from tunekit.memory.base import predicted_base_ram
from tunekit.memory.ram import oom_reason
from tunekit.records.config import TrainConfig
from tunekit.records.host import Host
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


def why_refused(config: TrainConfig | None, records: Sequence[TrialRecord], host: Host) -> str | None:
    """Return why a config must not be started, by the bytes that measured trials showed; None if it may.

    Args:
        config: the knobs; None, the target as it is, always may.
        records: the trials so far.
        host: the share of the machine that one rank can use.
    """
    measured = [record.measurement for record in records if record.measurement]
    ran_before = any(record.config == config and record.measurement for record in records)
    if config is None or not measured or ran_before:
        return None
    base_bytes = predicted_base_ram(measured).with_workers(config.num_workers)
    loop = next((one.loop for one in measured if one.loop.batch), measured[-1].loop)
    return oom_reason(config, loop.bytes_per_sample, base_bytes, host, loop.shared_bytes_per_sample)


def refused_record(spec: TrialSpec, reason: str) -> TrialRecord:
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
