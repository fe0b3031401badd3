"""The book of a host that shares its search: trials and phases are claimed where the hosts meet."""

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tunekit.errors import (
    BudgetTooSmallError,
    EmptySpaceError,
    NoTrainingLoopError,
    TargetError,
    TunekitError,
)
from tunekit.records.codec import from_json, to_json
from tunekit.records.config import TrainConfig
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.session.book import Phase, TrialNotOursError, Turn
from tunekit.tune.shared.claims import Claim, Taken
from tunekit.tune.shared.leases import USUAL_PACE, Pace
from tunekit.tune.shared.others import PendingTrial, SharedRecord
from tunekit.tune.shared.share import Group
from tunekit.units import duration_text

_OF_ONE_HOST = (TrialRole.CONFIRM, TrialRole.ABLATION)
"""Trials that are compared within rounds: another host's are never mixed with one's own."""
_ERRORS = {
    kind.__name__: kind for kind in (TargetError, NoTrainingLoopError, EmptySpaceError, BudgetTooSmallError)
}
"""That one host leaves for all."""
_RUN, _TRIALS, _ERROR, _MESSAGE, _LINES, _FOLDER = "run", "trials", "error", "message", "last_lines", "folder"


class SharedBook:
    """Claims trials and phases among the hosts of a group; use it in a `with` block, in which the host beats.

    At its end, also by Ctrl-C or an error, what this host still holds is given back.

    Args:
        group: of hosts like this one.
        host_name: of this machine, whose processes may have names of their own in the group.
        folder: this host's run folder, where others find the report if this one finishes the search.
        pace: of beats and leases.
    """

    def __init__(self, group: Group, host_name: str, folder: Path, pace: Pace = USUAL_PACE) -> None:
        self._group = group
        self._host_name = host_name
        self.folder = folder
        self._pace = pace
        self._records: dict[int, TrialRecord] = {}
        """Of all hosts, also those that this one leaves out."""
        self._new: list[SharedRecord] = []
        """Of other hosts, as long as nobody has asked for them."""
        self._trial: Claim | None = None
        self._leads: dict[Phase, Claim] = {}
        self._heard: dict[Claim, int] = {}
        """Beats of those who lead a phase, when this host first asked."""
        self.trials_run = 0
        """By this host."""

    def __enter__(self) -> Self:
        self._group.heart.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._group.heart.__exit__(kind, error, trace)
        if kind is None or issubclass(kind, Exception | KeyboardInterrupt):
            why = "given back" if kind is None else f"given back after {kind.__name__}"
            self._group.trials.release_all(why)
            self._group.phases.release_all(why)

    @property
    def host_name(self) -> str | None:
        """This machine."""
        return self._host_name

    # --- trials ----------------------------------------------------------------------------

    def claim(
        self,
        role: TrialRole,
        config: TrainConfig | None,
        round_number: int | None,
        records: Sequence[TrialRecord],
    ) -> int:
        """Return the number of a trial that is this host's to run.

        Raises:
            TrialNotOursError: another host runs it, leads the phase now, or has begun to finish the search.
        """
        self._group.heart.check()
        self._insist_on_leading()
        again = sum(
            one.role is role and one.config == config and one.round == round_number for one in records
        )
        own = self._host_name if role in _OF_ONE_HOST else None
        claim = self._group.trials.claim(role, config, round_number, again, own)
        if isinstance(claim, Taken):
            raise TrialNotOursError(ahead=claim.ahead)
        if not self._leads and self.is_finishing:
            self._group.trials.withdraw(claim)
            raise TrialNotOursError
        self._trial = claim
        return claim.number

    def _insist_on_leading(self) -> None:
        for phase, claim in tuple(self._leads.items()):
            if not self._group.phases.holds(claim):
                del self._leads[phase]
                raise TrialNotOursError(f"{self._silence} so that another goes on in its place")

    def keep(self, record: TrialRecord, spent_s: float) -> None:
        """Leave a trial's record for all.

        Raises:
            TrialNotOursError: its lease was lost meanwhile.
        """
        assert self._trial is not None
        claim, self._trial = self._trial, None
        if not self._group.trials.finish(claim, record, spent_s):
            raise TrialNotOursError(
                f"trial {record.number} is dropped: {self._silence} so that it is any host's to run again"
            )
        self._records[record.number] = record
        self.trials_run += 1
        self._group.heart.check()

    @property
    def _silence(self) -> str:
        return f"this host was not heard of for {duration_text(self._pace.lease_s)} or more,"

    def pull(self) -> tuple[SharedRecord, ...]:
        """Return the records of other hosts that are new here, but for another machine's rounds."""
        self._look()
        new, self._new = self._new, []
        return tuple(
            one
            for one in new
            if one.record.role not in _OF_ONE_HOST or one.record.host_name == self._host_name
        )

    def _look(self) -> None:
        for one in self._group.trials.pull():
            if one.record.number not in self._records:
                self._records[one.record.number] = one.record
                self._new.append(one)

    def pending(self) -> tuple[PendingTrial, ...]:
        """Return what other hosts run now."""
        return self._group.trials.pending()

    def lost(self) -> tuple[PendingTrial, ...]:
        """Return what hosts began and did not end, and nobody runs now."""
        return self._group.trials.lost()

    # --- phases ----------------------------------------------------------------------------

    def turn(self, phase: Phase) -> Turn:
        """Return whose a phase is; it is this host's from now on where it is nobody's."""
        phases = self._group.phases
        own = self._leads.get(phase)
        if own is not None:
            if phases.holds(own):
                return Turn.OURS
            del self._leads[phase]
        if phases.done(phase.value) is not None:
            return Turn.DONE
        other = self._at(phase)
        if other is not None:
            beats = phases.beats_of(other)
            first = self._heard.setdefault(other, beats or 0)
            return Turn.ALIVE if beats is not None and beats > first else Turn.ELSEWHERE
        claim = phases.claim(phase.value, {_FOLDER: str(self.folder.absolute())})
        if isinstance(claim, Taken):
            return Turn.ELSEWHERE if phases.done(phase.value) is None else Turn.DONE
        if phase is Phase.FINISH and self.pending():
            phases.release(claim, "given back: trials still run")
            return Turn.TOO_EARLY
        self._leads[phase] = claim
        return Turn.OURS

    def _at(self, phase: Phase) -> Claim | None:
        return next((one for one in self._group.phases.pending() if one.key == phase.value), None)

    def leader(self, phase: Phase) -> str:
        """Return the host that is at a phase, or was."""
        claim = self._leader(phase)
        return claim.host if claim else "another host"

    def _leader(self, phase: Phase) -> Claim | None:
        done = self._group.phases.done(phase.value)
        return done.claim if done else self._at(phase)

    @property
    def is_finishing(self) -> bool:
        """Whether some host has begun the last phase."""
        phase = Phase.FINISH
        return self._at(phase) is not None or self._group.phases.done(phase.value) is not None

    def end(self, phase: Phase, run: Run) -> bool:
        """Leave the run for all; return False if another host leads by now."""
        numbers = [record.number for record in run.trials]
        text = to_json(run.changed(trials=()), indent=None)
        return self._end(phase, {_RUN: text, _TRIALS: numbers})

    def fail(self, phase: Phase, error: TunekitError) -> None:
        """Leave for all why the phase can't be done."""
        lines = error.last_lines if isinstance(error, TargetError) else ()
        message = error.message if isinstance(error, TargetError) else str(error)
        self._end(phase, {_ERROR: type(error).__name__, _MESSAGE: message, _LINES: lines})

    def _end(self, phase: Phase, told: dict[str, Any]) -> bool:
        return self._group.phases.finish(self._leads.pop(phase), told)

    def told(self, phase: Phase) -> Run:
        """Return what another host left of a phase.

        Raises:
            TunekitError: why it can't be done.
        """
        outcome = self._group.phases.done(phase.value)
        assert outcome is not None
        told, host = outcome.payload, outcome.claim.host
        if _ERROR in told:
            kind = _ERRORS.get(told[_ERROR], TargetError)
            said = f"{told[_MESSAGE]} (said by {host}, for all hosts of this search)"
            raise kind(said, told[_LINES]) if issubclass(kind, TargetError) else kind(said)
        run = from_json(told[_RUN], Run, f"the run that {host} left")
        self._look()
        return run.changed(trials=tuple(self._records[number] for number in told[_TRIALS]))

    @property
    def report_folder(self) -> str:
        """Run folder of the host that finishes the search, or has, as that host sees it."""
        claim = self._leader(Phase.FINISH)
        return str(claim.about[_FOLDER]) if claim else ""

    def wait(self) -> None:
        """Wait a moment for other hosts."""
        self._pace.pause(self._pace.look_s)
