"""One session: trials into a run folder, each run or refused, on disk before the next begins, and shown.

A search, a loop profile and a prediction of what fits are walks on it.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Generic, Protocol

from tunekit.errors import NoTrainingLoopError, TargetError
from tunekit.machine.device import AUTO, CPU, device_profile, profile_here, with_first
from tunekit.machine.host.limits import busy_share
from tunekit.machine.profiles import load_profiles
from tunekit.predict.loader_rate import cpus_per_worker, max_useful_workers
from tunekit.predict.throughput.boundary import Boundary
from tunekit.records.config import TrainConfig
from tunekit.records.profile import Profile
from tunekit.records.run import Run, RunStatus
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord, TrialRole
from tunekit.session.folder import AnyRun, RunFolder
from tunekit.session.store import LocalTrialStore, TrialStore
from tunekit.trial.binding_suggestions import without_unknown_flags
from tunekit.trial.executor import Executor, KnownTarget, TrialSpec
from tunekit.trial.watch import TrialProgress
from tunekit.tune.confirm import typical_duration_s
from tunekit.tune.feasibility import why_infeasible
from tunekit.tune.knob_access import SearchContext
from tunekit.units import count_text, duration_text, percent_text

_SHOWN_LINES = 10
NOT_READ = "what the agent reported of the script can't be read; see output.log of trial 0"
_TO_SPARE_S, _MAX_TIMES = 8.0, 2.0
"""Seconds by which a trial may overrun the budget before it is ended, or times what such a trial takes."""
_BUSY_SHARE = 0.10
"""Share of the CPUs' time from which on other programs disturb a trial."""


class TrialListener(Protocol):
    """Hears what becomes of trials, as they run; the screen draws it."""

    def trial_started(self, spec: TrialSpec, purpose: str, left_s: float | None) -> None:
        """A trial begins; `left_s` is what remains of the budget, in seconds, None without one."""

    def trial_moved(self, progress: TrialProgress) -> None:
        """The running trial did something."""

    def trial_ended(self, record: TrialRecord) -> None:
        """A trial's record is on disk."""

    def said(self, message: str) -> None:
        """Something that the user should know now."""


class SearchListener(TrialListener, Protocol):
    """Hears what a search does, as it does it."""

    def space_known(self, run: Run) -> None:
        """The baseline is measured and the space is built."""

    def trial_of_another_ended(self, record: TrialRecord, host: str) -> None:
        """Another host that shares the search has finished a trial."""


class QuietWait:
    """What a session may wait for quiet, over all of its trials.

    Args:
        max_s: seconds that it may wait in all.
        busy: returns the share of the CPUs' time that other programs use, after looking for a moment.
        clock: returns seconds.
    """

    def __init__(
        self,
        max_s: float,
        busy: Callable[[], float] = busy_share,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._left_s = max_s
        self._busy = busy
        self._clock = clock

    def wait(self, say: Callable[[str], None]) -> float:
        """Wait until the machine is quiet, or what may be waited is used up; return the seconds it took.

        Args:
            say: hears that it waits, and what came of it.
        """
        if self._left_s <= 0:
            return 0.0
        began_at, share = self._clock(), self._busy()
        if share >= _BUSY_SHARE:
            share = self._busy()  # the last trial's processes may just have ended
        if share >= _BUSY_SHARE:
            say(
                f"machine is busy: other programs use {percent_text(share)} of its CPUs; waiting up to "
                f"{duration_text(self._left_s)}"
            )
            while share >= _BUSY_SHARE and self._clock() - began_at < self._left_s:
                share = self._busy()
            is_now = "quiet" if share < _BUSY_SHARE else f"still busy ({percent_text(share)})"
            say(f"machine is {is_now} after {duration_text(self._clock() - began_at)}")
            self._left_s -= self._clock() - began_at  # to look and find it quiet costs none of it
        return self._clock() - began_at


class Session(ABC, Generic[AnyRun]):
    """Trials of one run, and the run's record as they come; a walk adds which trials, and what follows.

    Args:
        run: target, options and host; its trials are ignored in favour of the records.
        folder: owned by the caller.
        executor: runs trials.
        here: profile of the device that is here.
        listener: hears what happens.
        records: of the trials that the folder holds already.
        clock: returns seconds.
        quiet: what it may wait for the machine to be quiet; None for what the options say.
        store: numbers the trials and keeps their records; None for this host alone.

    Attributes:
        found: what is known so far, also after Ctrl-C or a failure.
        here: profile of the device that the last trial trained on.
    """

    def __init__(
        self,
        run: AnyRun,
        folder: RunFolder,
        executor: Executor,
        here: Profile,
        listener: TrialListener,
        records: tuple[TrialRecord, ...] = (),
        clock: Callable[[], float] = time.monotonic,
        quiet: QuietWait | None = None,
        store: TrialStore | None = None,
    ) -> None:
        self.found: AnyRun = run.changed(trials=records)
        self.store: TrialStore = store or LocalTrialStore()
        self.folder = folder
        self.here = here
        self._executor = executor
        self._listener = listener
        self._clock = clock
        self._quiet = quiet or QuietWait(getattr(run.options, "wait_quiet_s", None) or 0.0)
        self._began_at = clock() - sum(record.duration_s for record in records)
        for record in records:
            self._take_device(record)

    @abstractmethod
    def _derived(self, run: AnyRun) -> AnyRun:
        """Return a run with everything that follows from its trials, and the time spent on them."""

    @property
    def records(self) -> tuple[TrialRecord, ...]:
        """Every trial so far."""
        return self.found.trials

    @property
    def _spent_s(self) -> float:
        """Seconds since the session began, what earlier ones ran before it included."""
        return self._clock() - self._began_at

    @property
    def _budget_s(self) -> float | None:
        return getattr(self.found.options, "budget_s", None)

    @property
    def left_s(self) -> float:
        """Seconds of the budget that are left; infinite without one."""
        return math.inf if self._budget_s is None else self._budget_s - self._spent_s

    @property
    def known(self) -> KnownTarget | None:
        """What the baseline taught; None before it has."""
        configs = [one.config for one in self.records if one.role is TrialRole.BASELINE and one.config]
        discovery = self.found.discovery
        return KnownTarget(discovery, configs[-1]) if configs and discovery else None

    @contextmanager
    def _saved(self) -> Iterator[None]:
        """Save the run at both ends of a block, with how it ended."""
        self.save(RunStatus.RUNNING)
        try:
            yield
        except KeyboardInterrupt:
            self.save(RunStatus.INTERRUPTED)
            raise
        except Exception:
            # Nothing is computed again: that may be what failed.
            self.change(status=RunStatus.FAILED)
            self.folder.save(self.found)
            raise
        self._save_at_end()

    def _save_at_end(self) -> None:
        self.save(RunStatus.FINISHED)

    def save(self, status: RunStatus) -> None:
        """Work out what follows from the trials and put it on disk."""
        self.found = self._derived(self.found.changed(status=status))
        self.folder.save(self.found)

    def _rounds_in_budget(self, first: int, rounds: int, round_s: Callable[[], float]) -> Iterator[int]:
        """Yield the numbers of rounds while the budget has room for another; say where it ends."""
        for done in range(first, rounds):
            if done and self.left_s < round_s():
                ends = f"--budget {duration_text(self._budget_s)} ends after"
                self.say(f"{ends} {count_text(done, 'round')} of {rounds}")
                return
            yield done

    def _require_learnt(self, first: TrialRecord) -> None:
        """Refuse a script whose first trial failed, or taught nothing of the loop."""
        if first.failure is not None:
            raise target_error(first.failure)
        if first.config is None or first.discovery is None:
            raise TargetError(NOT_READ)

    def say(self, message: str) -> None:
        """Tell the user something now."""
        self._listener.said(message)

    def change(self, **values: Any) -> None:
        """Take other values into the run; they are saved with the next trial."""
        self.found = self.found.changed(**values)

    def trial(self, role: TrialRole, config: TrainConfig | None, purpose: str, **others: Any) -> TrialRecord:
        """Run (or refuse) one trial, and return its record once it is on disk.

        Args:
            role: what it is run for; a baseline is run without what is known of the target.
            config: None for the script as it is.
            purpose: the role in words.
            **others: of the TrialSpec.
        """
        number = self.store.next_number(self.records)
        max_s = max(self.left_s, _MAX_TIMES * typical_duration_s(self.records, config)) + _TO_SPARE_S
        bindings = self.found.target.bindings
        spec = TrialSpec(number, role, config, bindings=bindings, max_s=max_s, **others)
        reason = why_infeasible(spec.config, self.records, self.found.rank_host)
        if reason is None:
            self._began_at += self._quiet.wait(self.say)  # no part of the budget
        left_s = self.left_s
        self._listener.trial_started(spec, purpose, None if left_s == math.inf else max(0.0, left_s))
        if reason is not None:
            record = _refused(spec, reason)
        else:
            record = self._executor.run(spec, self._known_of(spec), self._listener.trial_moved)
        record = record.changed(host_name=self.store.host_name)
        self._take_device(record)
        record = self._looked_into(record, spec)
        self._keep(record)
        self.store.keep(record, self._spent_s)
        self._listener.trial_ended(record)
        if role is TrialRole.BASELINE and record.discovery is not None:
            target, said = without_unknown_flags(self.found.target, record.discovery)
            self.change(target=target)
            for message in said:
                self.say(message)
        return record

    def _known_of(self, spec: TrialSpec) -> KnownTarget | None:
        """Return what a trial is run with of what the baseline taught; None for one that learns it itself."""
        return None if spec.role is TrialRole.BASELINE else self.known

    def _keep(self, record: TrialRecord) -> None:
        """Put a trial's record on disk, in place of one of its number."""
        self.folder.save_trial(record)
        self.take(record)
        self.save(RunStatus.RUNNING)

    def _looked_into(self, record: TrialRecord, spec: TrialSpec) -> TrialRecord:
        """Return a trial's record with what follows from it alone; the run may learn from it too."""
        return record

    def take(self, record: TrialRecord) -> None:
        """Take a trial into the run, in the order of their numbers; the run's device follows."""
        self._take_device(record)
        by_number = {one.number: one for one in (*self.records, record)}
        self.change(trials=tuple(by_number[number] for number in sorted(by_number)))

    def _take_device(self, record: TrialRecord) -> None:
        gpu = getattr(self.found.options, "gpu", AUTO)
        self.found, self.here = on_device_of(self.found, record, self.here, gpu)

    def search_context(self, boundary: Boundary | None = None) -> SearchContext:
        """Return what bounds the knobs, by what the baseline taught and what an epoch's end costs."""
        known = self.known
        assert known is not None
        first = next((one.measurement for one in self.records if one.measurement), None)
        data = first.details.data if first and first.details else None
        return SearchContext(
            host=self.found.rank_host,
            profile=self.here,
            native_bf16=self.found.host.cpu_bf16_native,
            discovery=known.discovery,
            baseline=known.baseline,
            target=self.found.target,
            boundary=boundary,
            cpus_per_worker=cpus_per_worker(first),
            max_workers=max_useful_workers(first),
            changing=(data.changing or ()) if data else (),
        )


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
        processes=spec.processes,
        no_sync=spec.no_sync,
    )


def target_error(failure: Failure, what: str = "the baseline failed") -> TargetError:
    """Return the error for what failed, with the script's own last lines."""
    kind = NoTrainingLoopError if failure.kind is OutcomeKind.NO_TRAINING_LOOP else TargetError
    remedy = f"; {failure.remedy}" if failure.remedy else ""
    return kind(f"{what} ({failure.kind}): {failure.message}{remedy}", failure.last_lines[-_SHOWN_LINES:])
