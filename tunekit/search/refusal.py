"""What is not run: a target whose baseline failed, and a config that would not fit."""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from tunekit.errors import BudgetTooSmallError, NoTrainingLoopError, TargetError, TunekitError
from tunekit.memory.base import predicted_base_ram
from tunekit.memory.ram import held_per_sample, oom_reason
from tunekit.recommend.planned_training import PlannedTraining
from tunekit.records.config import TrainConfig
from tunekit.records.host import Host
from tunekit.records.run import Run, SearchOptions
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord, TrialRole
from tunekit.trial.executor import TrialSpec

_SHOWN_LINES = 10


def refused_target(failure: Failure, options: SearchOptions) -> TunekitError:
    """Return the error that says why a target whose baseline failed can't be tuned."""
    budget_s = options.budget_s
    if failure.kind is OutcomeKind.TIMEOUT and budget_s is not None and budget_s <= options.trial_limit_s:
        return BudgetTooSmallError(
            f"the baseline was not measured within the budget of {budget_s:.0f} s; give --budget 15m or more"
        )
    return baseline_error(failure)


def used_up(baseline: TrialRecord, budget_s: float) -> BudgetTooSmallError:
    """Return the error for a budget that the baseline alone took, with one that would do."""
    return BudgetTooSmallError(
        f"the baseline alone took {baseline.duration_s:.0f} s of the budget of "
        f"{budget_s:.0f} s; use --budget {round(baseline.duration_s * 12)}s or more"
    )


def ended_before(config: TrainConfig, budget_s: float) -> BudgetTooSmallError:
    """Return the error for a budget that ended while a batch was looked for that fits."""
    return BudgetTooSmallError(
        f"the baseline ran out of memory, and the budget of {budget_s:.0f} s ended before "
        f"batch_size {config.batch_size} could be tried; use a longer --budget"
    )


def baseline_error(failure: Failure) -> TargetError:
    """Return the error for a baseline that failed, with the script's own last lines."""
    return _target_error("the baseline failed", failure)


def _target_error(what: str, failure: Failure) -> TargetError:
    kind = NoTrainingLoopError if failure.kind is OutcomeKind.NO_TRAINING_LOOP else TargetError
    remedy = f"; {failure.remedy}" if failure.remedy else ""
    return kind(f"{what} ({failure.kind}): {failure.message}{remedy}", failure.last_lines[-_SHOWN_LINES:])


def insist_on_a_result(run: Run) -> None:
    """Refuse to call a search finished that filled no tier because what it ran failed.

    Raises:
        TargetError: every confirming trial failed, or every trial where none was to confirm; it names what
            happened most often.
    """
    after = [record for record in run.trials if record.role is not TrialRole.BASELINE]
    confirming = [record for record in after if record.role is TrialRole.CONFIRM]
    decisive = confirming or after or run.trials
    failures = [record.failure for record in decisive if record.failure is not None]
    if run.recommendations or not failures or len(failures) < len(decisive):
        return
    started = [failure for failure in failures if failure.kind is not OutcomeKind.REFUSED] or failures
    kind, times = Counter(failure.kind for failure in started).most_common(1)[0]
    first = next(failure for failure in started if failure.kind is kind)
    which = " that was to confirm the choice" if confirming else " after the baseline" if after else ""
    raise _target_error(
        f"nothing can be recommended: every trial{which} failed, {times} of {len(failures)} alike", first
    )


def refused_batch(failure: Failure) -> TargetError:
    """Return the error for a batch size that its binding did not set, in a script that makes its batches."""
    return TargetError(
        f"another batch size does not reach the loop as it is bound: {failure.message}; bind another place, "
        "or take batch_size out with --bind batch_size=fixed and say --samples-per-step N"
    )


def why_refused(config: TrainConfig | None, records: Sequence[TrialRecord], host: Host) -> str | None:
    """Return why a config must not be started, by the bytes that measured trials showed; None if it may.

    Args:
        config: the knobs; None, the target as it is, always may.
        records: the trials so far.
        host: the share of the machine that one rank can use.
    """
    ran_before = any(record.config == config and record.measurement for record in records)
    if config is None or ran_before:
        return None
    return refusals(records, host)(config)


def refusals(records: Sequence[TrialRecord], host: Host) -> Callable[[TrainConfig], str | None]:
    """Return what says of a config that never ran why it must not be started, as `why_refused` does."""
    measured = [record.measurement for record in records if record.measurement]
    if not measured:
        return lambda config: None
    base = predicted_base_ram(measured)
    loop = next((one.loop for one in measured if one.loop.batch), measured[-1].loop)
    return lambda config: oom_reason(
        config,
        held_per_sample(config, loop),
        base.with_workers(config.num_workers),
        host,
        loop.shared_bytes_per_sample,
    )


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


def insist_on_length(planned: PlannedTraining) -> None:
    """Refuse to look for the shortest training where the trials do not tell how long it is.

    Raises:
        TargetError: its length is unknown.
    """
    if planned.judged_by_finish and planned.samples is None:
        raise TargetError(
            "--objective finish-time needs the samples of the planned training, but an epoch has no known "
            "length here (an IterableDataset, or len() of its loader fails); give --planned-steps instead of "
            "--epochs"
        )
