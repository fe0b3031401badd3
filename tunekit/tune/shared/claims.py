"""Claims of hosts in one Optuna study: each thing is done by the host that claims it first, and done once.

An Optuna trial is a claim. It runs while a host is at it, completes with what came of it (or is pruned, where
that has no value), and fails where it came to nothing: withdrawn, given back, or lost by a silent host.
"""

import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from optuna.exceptions import DuplicatedStudyError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from tunekit.tune.shared.leases import USUAL_PACE, LeaseWatch, Pace
from tunekit.tune.shared.storage import UNANSWERED, Patience

_DONE = (TrialState.COMPLETE, TrialState.PRUNED)
_CLAIM, _BEATS, _OUTCOME, _LOST, _GIVEN_BACK = "claim", "beats", "outcome", "lost", "given_back"
"""User attributes of an Optuna trial; one that failed with neither of the last two was withdrawn. What never
changes is one of them, as a database takes a query or two for each."""
_KEY, _HOST, _OWNER, _TOKEN, _ABOUT = "key", "host", "owner", "token", "about"
"""Of a claim."""


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
    owner: str = field(compare=False)
    """Who made it: one process, which never had another's name."""
    token: str = field(compare=False)
    """Of one attempt to claim: where an answer was lost, two claims may have it."""


@dataclass(frozen=True)
class Taken:
    """What one host was after, and another has."""

    ahead: int
    """Claims of it that were made before; 0 where it is done."""


@dataclass(frozen=True)
class Outcome:
    """What came of a claim."""

    claim: Claim
    payload: Mapping[str, Any]
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
        self.host = host
        """As others see this one."""
        self._patience = patience
        self._watch = LeaseWatch(pace.lease_s, pace.clock)
        self._study_id = patience(lambda: _study_id(storage, study))
        self._owner = secrets.token_hex(8)
        self._tokens = map(str, count())
        self._lock = threading.Lock()
        self._mine: dict[int, int] = {}
        """Beats of each claim that this host has in hand, by the storage's id."""
        self._token: str | None = None
        """Of the claim that is being made."""
        self._settled = 0
        """Claims below this number have ended."""
        self._ended: set[int] = set()
        """Numbers of those above that have ended too."""
        self._done: dict[str, Outcome] = {}
        """By key; in the order in which this host learnt of them."""
        self._came_to_nothing: dict[str, tuple[Claim, int]] = {}
        """By key: the last claim, and how many were lost with their hosts."""
        self._unread: list[Outcome] = []
        self._open: tuple[tuple[Claim, int], ...] = ()
        """With their beats."""

    # --- what this host does ---------------------------------------------------------------

    def claim(self, key: str, about: Mapping[str, Any]) -> Claim | Taken:
        """Claim a thing, unless another host is at it, or has done it.

        Args:
            key: of the thing.
            about: JSON that other hosts may read while it is open.

        Raises:
            ShareError: the storage does not answer.
        """
        own = self._made(key, about)
        if own is None:  # the storage was silent for longer than a lease
            return Taken(0)
        with self._lock:
            others = [one for one, _ in self._open if one.key == key and not self._is_stray(one)]
            ahead = sum(one.number < own.number for one in others)
            if not ahead and key not in self._done:
                return own
        self.withdraw(own)
        return Taken(ahead)

    def _made(self, key: str, about: Mapping[str, Any]) -> Claim | None:
        """Return a new claim, which this host has in hand; None if it has ended by now."""
        self._token = token = next(self._tokens)
        try:
            trial_id = self._create(TrialState.RUNNING, token, key, about, {_BEATS: 0})
            with self._lock:
                self._mine[trial_id] = 0
            with self._up_to_date():
                twins = (one for one, _ in self._open if one.owner == self._owner and one.token == token)
                own = next(twins, None)
                del self._mine[trial_id]
                if own is not None:
                    self._mine[own.id] = 0
        finally:
            self._token = None
        with suppress(*UNANSWERED):
            self._end_strays()
        return own

    def _is_stray(self, claim: Claim) -> bool:
        """Return whether a claim is this host's by mistake: it was made twice, or could not be ended."""
        is_own = claim.owner == self._owner
        return is_own and claim.id not in self._mine and claim.token != self._token

    def _end_strays(self) -> None:
        with self._lock:
            strays = [claim for claim, _ in self._open if self._is_stray(claim)]
        for claim in strays:
            with suppress(UpdateFinishedTrialError):
                self._storage.set_trial_state_values(claim.id, TrialState.FAIL)

    def withdraw(self, claim: Claim) -> None:
        """End a claim of what this host is not to do, in one write: many may be too slow with one at once."""
        # Where the storage does not answer, the next beat ends it.
        with suppress(UpdateFinishedTrialError, *UNANSWERED):
            self._storage.set_trial_state_values(claim.id, TrialState.FAIL)
        self._forget(claim)

    def finish(self, claim: Claim, payload: Mapping[str, Any], value: float | None = None) -> bool:
        """Leave what came of a claim; False if its lease was lost before: then nothing is left.

        Args:
            claim: this host's own.
            payload: JSON.
            value: of Optuna's trial, None where there is none.

        Raises:
            ShareError: the storage does not answer.
        """

        def act() -> bool:
            try:
                self._storage.set_trial_user_attr(claim.id, _OUTCOME, dict(payload))
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

    def leave(self, key: str, payload: Mapping[str, Any]) -> None:
        """Leave an outcome of a thing that takes no time; who left one before has a lower number.

        Raises:
            ShareError: the storage does not answer.
        """
        token = next(self._tokens)
        self._create(TrialState.PRUNED, token, key, {}, {_OUTCOME: dict(payload)})

    def release(self, claim: Claim, why: str) -> None:
        """Give a claim back, so that any host may claim the thing again.

        Where the storage does not answer, its lease runs out instead.
        """
        with suppress(*UNANSWERED):
            self._fail(claim, _GIVEN_BACK, why)
        self._forget(claim)

    def release_all(self, why: str) -> None:
        """Give back all that this host has, also what it was about to claim when it was interrupted.

        Where the storage does not answer, the leases run out instead.
        """
        with suppress(*UNANSWERED):
            self._refresh_now()
        with self._lock:
            own = [claim for claim, _ in self._open if claim.owner == self._owner]
        for claim in own:
            self.release(claim, why)

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
        self._end_strays()
        with self._lock:
            others = {claim.id: (claim, beats) for claim, beats in self._others()}
        lost = self._watch.look({one: beats for one, (_, beats) in others.items()})
        ended = []
        for trial_id in lost:
            claim = others[trial_id][0]
            if self._fail(claim, _LOST, f"{claim.host} was not heard of; seen by {self.host}"):
                ended.append(claim)
        return tuple(ended)

    # --- what the hosts did ----------------------------------------------------------------

    def pull(self) -> tuple[Outcome, ...]:
        """Return what came of claims that was not returned yet, of this host's own too.

        Raises:
            ShareError: the storage does not answer.
        """
        with self._up_to_date():
            unread, self._unread = self._unread, []
        return tuple(unread)

    def pending(self) -> tuple[Claim, ...]:
        """Return what other hosts are at.

        Raises:
            ShareError: the storage does not answer.
        """
        with self._up_to_date():
            return tuple(claim for claim, _ in self._others())

    def ahead_of(self, claim: Claim) -> tuple[Claim, ...]:
        """Return what is done, and what others are at by a claim that was made before this one.

        Raises:
            ShareError: the storage does not answer.
        """
        with self._up_to_date():
            done = tuple(one.claim for one in self._done.values())
            return done + tuple(one for one, _ in self._others() if one.number < claim.number)

    def lost(self) -> tuple[tuple[Claim, int], ...]:
        """Return the last claim of what is not done and nobody is at, and how many hosts were lost at it.

        Raises:
            ShareError: the storage does not answer.
        """
        with self._up_to_date():
            taken = self._done.keys() | {claim.key for claim, _ in self._open}
            return tuple(last for key, last in self._came_to_nothing.items() if key not in taken)

    def beats_of(self, claim: Claim) -> int | None:
        """Return how often the host of a claim has been heard of; None once it has ended.

        Raises:
            ShareError: the storage does not answer.
        """
        with self._up_to_date():
            return next((beats for one, beats in self._open if one.id == claim.id), None)

    def done(self, key: str) -> Outcome | None:
        """Return what came of a thing; None while it is not done.

        Raises:
            ShareError: the storage does not answer.
        """
        with self._up_to_date():
            return self._done.get(key)

    # --- the storage -----------------------------------------------------------------------

    def _create(
        self, state: TrialState, token: str, key: str, about: Mapping[str, Any], more: Mapping[str, Any]
    ) -> int:
        """Make an Optuna trial and return its id, also where the answer to an earlier attempt was lost."""
        was_asked = False
        said = {_KEY: key, _HOST: self.host, _OWNER: self._owner, _TOKEN: token, _ABOUT: dict(about)}
        attributes = {_CLAIM: said, **more}

        def act() -> int:
            nonlocal was_asked
            if was_asked:
                claims = map(_claim_of, self._trials())
                made = (one for one in claims if one.owner == self._owner and one.token == token)
                if (claim := next(made, None)) is not None:
                    return claim.id
            was_asked = True
            return self._storage.create_new_trial(
                self._study_id, create_trial(state=state, user_attrs=attributes)
            )

        return self._patience(act)

    def _fail(self, claim: Claim, how: str, why: str) -> bool:
        """End a claim that came to nothing; return whether this was what ended it."""
        try:
            self._storage.set_trial_user_attr(claim.id, how, why)
            self._storage.set_trial_state_values(claim.id, TrialState.FAIL)
        except UpdateFinishedTrialError:
            return False
        return True

    def _forget(self, claim: Claim) -> None:
        with self._lock:
            self._mine.pop(claim.id, None)

    def _trials(self) -> list[FrozenTrial]:
        return self._storage.get_all_trials(self._study_id, deepcopy=False)

    def _others(self) -> Iterator[tuple[Claim, int]]:
        return ((claim, beats) for claim, beats in self._open if claim.owner != self._owner)

    @contextmanager
    def _up_to_date(self) -> Iterator[None]:
        """Learn what has changed, and hold the lock."""
        self._patience(self._refresh_now)
        with self._lock:
            yield

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
                    self._unread.append(outcome)
                elif _LOST in trial.user_attrs or _GIVEN_BACK in trial.user_attrs:
                    _, hosts_lost = self._came_to_nothing.get(claim.key, (claim, 0))
                    self._came_to_nothing[claim.key] = (claim, hosts_lost + (_LOST in trial.user_attrs))
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
    said = trial.user_attrs[_CLAIM]
    return Claim(
        number=trial.number,
        key=said[_KEY],
        host=said[_HOST],
        about=said[_ABOUT],
        id=trial._trial_id,
        owner=said[_OWNER],
        token=said[_TOKEN],
    )
