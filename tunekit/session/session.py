"""One session: trials into a run folder, each run or refused, on disk before the next begins, and shown.

A search, a loop profile and a prediction of what fits are walks on it.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Generic, Protocol

from tunekit.errors import NoTrainingLoopError, TargetError
from tunekit.machine.device import AUTO, CPU, device_profile, profile_here, with_first
from tunekit.machine.profiles import load_profiles
from tunekit.records.profile import Profile
from tunekit.records.run import Run, RunStatus
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord
from tunekit.session.folder import AnyRun, RunFolder
from tunekit.trial.executor import Executor, KnownTarget, TrialSpec
from tunekit.trial.watch import TrialProgress
from tunekit.tune.feasibility import why_refused

_SHOWN_LINES = 10


class TrialListener(Protocol):
    """Hears what becomes of trials, as they run; the screen draws it."""

    def trial_started(self, spec: TrialSpec, purpose: str, left_s: float | None) -> None:
        """A trial begins; `left_s` is what remains of the budget, in seconds, None without one."""
        ...

    def trial_moved(self, progress: TrialProgress) -> None:
        """The running trial did something."""
        ...

    def trial_ended(self, record: TrialRecord) -> None:
        """A trial's record is on disk."""
        ...

    def said(self, message: str) -> None:
        """Something that the user should know now."""
        ...


class SearchListener(TrialListener, Protocol):
    """Hears what a search does, as it does it."""

    def space_known(self, run: Run) -> None:
        """The baseline is measured and the space is built."""
        ...


class Session(Generic[AnyRun]):
    """Trials of one run, and the run's record as they come.

    Args:
        run: target, options and host; its trials are ignored in favour of the records.
        folder: owned by the caller.
        executor: runs trials.
        listener: hears what happens.
        here: profile of the device that is here.
        derived: returns a run with everything that follows from its trials, given the seconds spent so far.
        records: of the trials that the folder holds already.
        clock: returns seconds.
    """

    def __init__(
        self,
        run: AnyRun,
        folder: RunFolder,
        executor: Executor,
        listener: TrialListener,
        here: Profile,
        derived: Callable[[AnyRun, float], AnyRun],
        records: tuple[TrialRecord, ...] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.run: AnyRun = run.changed(trials=records)
        self.folder = folder
        self.here = here
        self._executor = executor
        self._listener = listener
        self._derived: Callable[[AnyRun, float], AnyRun] = derived
        self._clock = clock
        self._began_at = clock() - sum(record.duration_s for record in records)
        for record in records:
            self._take_device(record)

    @property
    def records(self) -> tuple[TrialRecord, ...]:
        """Every trial so far."""
        return self.run.trials

    @property
    def spent_s(self) -> float:
        """Seconds since the session began, what earlier ones ran before it included."""
        return self._clock() - self._began_at

    @property
    def next_number(self) -> int:
        """That of the next trial."""
        return max((record.number for record in self.records), default=-1) + 1

    @contextmanager
    def saved(self) -> Iterator[None]:
        """Save the run at both ends of a block, with how it ended."""
        self.save(RunStatus.RUNNING)
        try:
            yield
        except KeyboardInterrupt:
            self.save(RunStatus.INTERRUPTED)
            raise
        except Exception:
            # Nothing is worked out anew: that may be what failed.
            self.run = self.run.changed(status=RunStatus.FAILED)
            self.folder.save(self.run)
            raise
        self.save(RunStatus.FINISHED)

    def save(self, status: RunStatus) -> None:
        """Work out what follows from the trials and put it on disk."""
        self.run = self._derived(self.run.changed(status=status), self.spent_s)
        self.folder.save(self.run)

    def change(self, **values: Any) -> None:
        """Take other values into the run; they are saved with the next trial."""
        self.run = self.run.changed(**values)

    def trial(
        self, spec: TrialSpec, known: KnownTarget | None, purpose: str, left_s: float | None = None
    ) -> TrialRecord:
        """Run (or refuse) one trial, and return its record once it is on disk.

        Args:
            spec: what to run.
            known: what the baseline taught.
            purpose: why, in words.
            left_s: of the budget; None without one.
        """
        self._listener.trial_started(spec, purpose, left_s)
        refusal = why_refused(spec.config, self.records, self.run.rank_host)
        if refusal is not None:
            record = _refused(spec, refusal)
        else:
            record = self._executor.run(spec, known, self._listener.trial_moved)
        self.keep(record)
        self._listener.trial_ended(record)
        return record

    def keep(self, record: TrialRecord) -> None:
        """Put a trial's record on disk, in place of one of its number; the run's device follows."""
        self.folder.save_trial(record)
        self._take_device(record)
        others: tuple[TrialRecord, ...] = tuple(one for one in self.records if one.number != record.number)
        self.change(trials=(*others, record))
        self.save(RunStatus.RUNNING)

    def _take_device(self, record: TrialRecord) -> None:
        gpu = getattr(self.run.options, "gpu", AUTO)
        self.run, self.here = on_device_of(self.run, record, self.here, gpu)


def on_device_of(run: AnyRun, record: TrialRecord, here: Profile, gpu: str = AUTO) -> tuple[AnyRun, Profile]:
    """Return a run as measured on the device that a trial trained on, and that device's profile.

    The device comes first among the machine's from then on. Where `--gpu` names none, it is also the one that
    is asked for, unless it is the CPU beside a GPU. A trial that measured nothing changes nothing.

    Args:
        run: as far as it is known.
        record: of the trial.
        here: the profile of the device that the run was thought to be measured on.
        gpu: what `--gpu` says.
    """
    measured = record.measurement or record.dry
    if measured is None:
        return run, here
    device = measured.loop.device
    if device.type == CPU:
        if run.measured_on == CPU:
            return run, here
        return run.changed(measured_on=CPU), profile_here(CPU, run.host, load_profiles())
    host = with_first(run.host, device)
    if host == run.host:
        return run, here
    profiles = load_profiles()
    asked, measured_on = device_profile(gpu, host, profiles)
    run = run.changed(host=host, profile=asked, measured_on=measured_on)
    return run, profile_here(measured_on, host, profiles)


def _refused(spec: TrialSpec, reason: str) -> TrialRecord:
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


def baseline_error(failure: Failure) -> TargetError:
    """Return the error for a baseline that failed, with the script's own last lines."""
    return target_error("the baseline failed", failure)


def target_error(what: str, failure: Failure) -> TargetError:
    """Return the error for what failed, with the script's own last lines."""
    kind = NoTrainingLoopError if failure.kind is OutcomeKind.NO_TRAINING_LOOP else TargetError
    remedy = f"; {failure.remedy}" if failure.remedy else ""
    return kind(f"{what} ({failure.kind}): {failure.message}{remedy}", failure.last_lines[-_SHOWN_LINES:])
