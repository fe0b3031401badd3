"""Claims of hosts in one Optuna study: each thing is done by the host that claims it first, and done once.

An Optuna trial is a claim. It runs while a host is at it, completes with what came of it (or is pruned, where
that has no value), and fails where it came to nothing: withdrawn, given back, or lost by a silent host.
"""

import secrets
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from tunekit.tune.shared.leases import USUAL_PACE, LeaseWatch, Pace
from tunekit.tune.shared.storage import UNANSWERED, Patience

_DONE = (TrialState.COMPLETE, TrialState.PRUNED)
_KEY, _HOST, _TOKEN, _ABOUT, _BEATS = "key", "host", "token", "about", "beats"
_OUTCOME, _WHY = "outcome", "why_failed"
"""User attributes of an Optuna trial; one that failed without saying why was withdrawn."""


@dataclass(frozen=True)
class Claim:
    """What one host does, and no other meanwhile."""

    number: int
    """Its place among all claims of the study."""
    key: str
    """Two claims of one key are for the same thing."""
    host: str
    about: Mapping[str, Any] = field(compare=False)
    """JSON that the host said of it."""
    id: int = field(compare=False)
    """The storage's own."""


@dataclass(frozen=True)
class Outcome:
    """What came of a claim."""

    claim: Claim
    told: Mapping[str, Any]
    """JSON that its host left."""


class Claims:
    """The claims of one Optuna study, as one host sees and makes them.

    One thread may beat while another does the rest.

    Args:
        storage: where the hosts meet.
        study: name; the study is made if it is not there.
        host: name of this host, which others show.
        patience: asks the storage again.
        pace: of beats and leases.
    """

    def __init__(
        self, storage: BaseStorage, study: str, host: str, patience: Patience, pace: Pace = USUAL_PACE
    ) -> None:
        self._storage = storage
        self._host = host
        self._patience = patience
        self._clock, self._pause = pace.clock, pace.pause
        self._watch = LeaseWatch(pace.lease_s, pace.clock)
        self._study_id = patience(lambda: _study_id(storage, study))
        self._lock = threading.Lock()
        self._mine: dict[int, int] = {}
        """Beats of each claim that is this host's, by the storage's id."""
        self._settled = 0
        """Claims below this number have ended."""
        self._ended: set[int] = set()
        """Numbers of those above that have ended too."""
        self._done: dict[str, Outcome] = {}
        """By key; in the order in which this host learnt of them."""
        self._lost: dict[str, list[Claim]] = {}
        """Claims that came to nothing in the hands of their hosts, by key."""
        self._untold: list[Outcome] = []
        self._open: tuple[tuple[Claim, int], ...] = ()
        """With their beats."""

    # --- what this host does ---------------------------------------------------------------

    def claim(self, key: str, about: Mapping[str, Any]) -> Claim | None:
        """Claim a thing; None if another host is at it, or has done it.

        Args:
            key: of the thing.
            about: JSON that other hosts may read while it is open.

        Raises:
            ShareError: the storage does not answer.
        """
        began_at = self._clock()
        trial_id = self._create(TrialState.RUNNING, key, {_ABOUT: dict(about), _BEATS: 0})
        with self._lock:
            self._mine[trial_id] = 0
        self._refresh()
        own = next((claim for claim, _ in self._open if claim.id == trial_id), None)
        if own is None:  # the storage was silent for longer than a lease
            return None
        ahead = sum(claim.key == key and claim.number < own.number for claim, _ in self._open)
        if not ahead and key not in self._done:
            return own
        self._withdraw(own)
        # Each lets those ahead of it go first, else all would be after the same thing again. So many of them
        # were served in the time that this took.
        self._pause((self._clock() - began_at) * max(0, ahead - 1) / max(1, ahead))
        return None

    def _withdraw(self, claim: Claim) -> None:
        """End a claim that another host was faster with, in one write: many may be slower at once."""
        self._forget(claim)
        # Where the storage does not answer, its lease runs out instead.
        with suppress(UpdateFinishedTrialError, *UNANSWERED):
            self._storage.set_trial_state_values(claim.id, TrialState.FAIL)

    def finish(self, claim: Claim, told: Mapping[str, Any], value: float | None = None) -> bool:
        """Leave what came of a claim; False if its lease was lost before: then nothing is left.

        Args:
            claim: this host's own.
            told: JSON.
            value: of Optuna's trial, None where there is none.

        Raises:
            ShareError: the storage does not answer.
        """

        def act() -> bool:
            try:
                self._storage.set_trial_user_attr(claim.id, _OUTCOME, dict(told))
                state = TrialState.PRUNED if value is None else TrialState.COMPLETE
                if self._storage.set_trial_state_values(claim.id, state, None if value is None else [value]):
                    return True
            except UpdateFinishedTrialError:
                pass
            # Only its own host completes a claim: also where the answer to an earlier attempt was lost.
            return self._storage.get_trial(claim.id).state in _DONE

        try:
            return self._patience(act)
        finally:
            self._forget(claim)

    def leave(self, key: str, told: Mapping[str, Any]) -> None:
        """Leave an outcome of a thing that takes no time; who left one before has a lower number.

        Raises:
            ShareError: the storage does not answer.
        """
        self._create(TrialState.PRUNED, key, {_ABOUT: {}, _OUTCOME: dict(told)})

    def release(self, claim: Claim, why: str) -> None:
        """Give a claim back, so that any host may claim the thing again.

        Where the storage does not answer, its lease runs out instead.
        """
        self._forget(claim)
        with suppress(*UNANSWERED):
            self._fail(claim, why)

    def holds(self, claim: Claim) -> bool:
        """Return whether a claim is still this host's.

        Raises:
            ShareError: the storage does not answer.
        """
        return not self._patience(lambda: self._storage.get_trial(claim.id)).state.is_finished()

    def beat(self) -> tuple[Claim, ...]:
        """Say that this host is alive, and end the claims of those that were silent for too long.

        Where the storage does not answer nothing happens: the next beat tries again.

        Returns:
            What others have lost by it.
        """
        try:
            self._raise_counters()
            return self.reclaim()
        except UNANSWERED:
            return ()

    def _raise_counters(self) -> None:
        with self._lock:
            mine = dict(self._mine)
        for trial_id, beats in mine.items():
            try:
                self._storage.set_trial_user_attr(trial_id, _BEATS, beats + 1)
            except UpdateFinishedTrialError:  # lost, or just finished
                continue
            with self._lock:
                if trial_id in self._mine:
                    self._mine[trial_id] = beats + 1

    def reclaim(self) -> tuple[Claim, ...]:
        """End the claims of hosts whose lease is lost, and return them."""
        self._refresh_now()
        with self._lock:
            others = {claim.id: (claim, beats) for claim, beats in self._open if claim.id not in self._mine}
        lost = self._watch.look({one: beats for one, (_, beats) in others.items()})
        ended = []
        for trial_id in lost:
            claim = others[trial_id][0]
            if self._fail(claim, f"lost: {claim.host} was not heard of; seen by {self._host}"):
                ended.append(claim)
        return tuple(ended)

    # --- what the hosts did ----------------------------------------------------------------

    def pull(self) -> tuple[Outcome, ...]:
        """Return what came of claims that this was not told of yet, this host's own among them.

        Raises:
            ShareError: the storage does not answer.
        """
        self._refresh()
        with self._lock:
            untold, self._untold = self._untold, []
        return tuple(untold)

    def pending(self) -> tuple[Claim, ...]:
        """Return what other hosts are at.

        Raises:
            ShareError: the storage does not answer.
        """
        self._refresh()
        with self._lock:
            return tuple(claim for claim, _ in self._open if claim.id not in self._mine)

    def lost(self) -> tuple[tuple[Claim, int], ...]:
        """Return the last claim of what hosts began and did not end, if no other is at it, and their number.

        Raises:
            ShareError: the storage does not answer.
        """
        self._refresh()
        with self._lock:
            taken = self._done.keys() | {claim.key for claim, _ in self._open}
            return tuple((lost[-1], len(lost)) for key, lost in self._lost.items() if key not in taken)

    def beats_of(self, claim: Claim) -> int | None:
        """Return how often the host of a claim has been heard of; None once it has ended.

        Raises:
            ShareError: the storage does not answer.
        """
        self._refresh()
        with self._lock:
            return next((beats for one, beats in self._open if one.id == claim.id), None)

    def done(self, key: str) -> Outcome | None:
        """Return what came of a thing; None while it is not done.

        Raises:
            ShareError: the storage does not answer.
        """
        self._refresh()
        with self._lock:
            return self._done.get(key)

    # --- the storage -----------------------------------------------------------------------

    def _create(self, state: TrialState, key: str, more: Mapping[str, Any]) -> int:
        """Make an Optuna trial and return its id, also where the answer to an earlier attempt was lost."""
        token, was_asked = secrets.token_hex(8), False
        attributes = {_KEY: key, _HOST: self._host, _TOKEN: token, **more}

        def act() -> int:
            nonlocal was_asked
            if was_asked:
                made = (one for one in self._trials() if one.user_attrs.get(_TOKEN) == token)
                if (trial := next(made, None)) is not None:
                    return trial._trial_id
            was_asked = True
            return self._storage.create_new_trial(
                self._study_id, create_trial(state=state, user_attrs=attributes)
            )

        return self._patience(act)

    def _fail(self, claim: Claim, why: str) -> bool:
        """End a claim that came to nothing; return whether this was what ended it."""
        try:
            self._storage.set_trial_user_attr(claim.id, _WHY, why)
            self._storage.set_trial_state_values(claim.id, TrialState.FAIL)
        except UpdateFinishedTrialError:
            return False
        return True

    def _forget(self, claim: Claim) -> None:
        with self._lock:
            self._mine.pop(claim.id, None)

    def _trials(self) -> list[FrozenTrial]:
        return self._storage.get_all_trials(self._study_id, deepcopy=False)

    def _refresh(self) -> None:
        self._patience(self._refresh_now)

    def _refresh_now(self) -> None:
        """Learn what has changed since the last look, among the claims that had not ended then."""
        with self._lock:
            still_open: list[tuple[Claim, int]] = []
            for trial in self._trials()[self._settled :]:
                if trial.number in self._ended:
                    continue
                claim = _claim_of(trial)
                if not trial.state.is_finished():
                    still_open.append((claim, trial.user_attrs[_BEATS]))
                    continue
                self._ended.add(trial.number)
                if trial.state in _DONE:
                    outcome = Outcome(claim, trial.user_attrs[_OUTCOME])
                    self._done[claim.key] = outcome
                    self._untold.append(outcome)
                elif _WHY in trial.user_attrs:
                    self._lost.setdefault(claim.key, []).append(claim)
            while self._settled in self._ended:
                self._ended.remove(self._settled)
                self._settled += 1
            self._open = tuple(still_open)


def _study_id(storage: BaseStorage, name: str) -> int:
    """Return the id of the study of a name, which is made by whoever comes first."""
    try:
        return storage.get_study_id_from_name(name)
    except KeyError:
        pass
    try:
        return storage.create_new_study([StudyDirection.MAXIMIZE], name)
    except DuplicatedStudyError:
        return storage.get_study_id_from_name(name)


def _claim_of(trial: FrozenTrial) -> Claim:
    told = trial.user_attrs
    return Claim(trial.number, told[_KEY], told[_HOST], told[_ABOUT], trial._trial_id)
