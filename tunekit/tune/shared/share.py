"""A shared search: its hosts join the group of those that are alike, or are refused."""

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tunekit.errors import TargetChangedError
from tunekit.records.codec import from_json, to_json
from tunekit.tune.shared.claims import Claims, Outcome
from tunekit.tune.shared.facts import MachineFacts, SearchFacts
from tunekit.tune.shared.leases import USUAL_PACE, Heart, Pace
from tunekit.tune.shared.storage import Address, Patience, close_storage, open_storage
from tunekit.tune.shared.trials import SharedTrials

_STUDY = "tunekit"
_SEARCH, _MACHINE = "search", "machine"


@dataclass(frozen=True)
class Group:
    """Hosts that are alike: their trials are one run."""

    number: int
    trials: SharedTrials
    phases: Claims
    """What one host does for all: see the session's walk."""
    heart: Heart
    """Keeps this host's claims; runs in a `with` block."""
    unlike: tuple[str, ...]
    """What this machine has otherwise than that of another group, in words; empty where there is none."""

    def name_host(self, name: str) -> None:
        """Have others show this host by a name that no other process of its machine has."""
        self.trials.name_host(name)
        self.phases.host = name


class Share:
    """The place where the hosts of one search meet; use it in a `with` block.

    Args:
        address: of the place.
        host: name of this host, which others show.
        say: hears that the place does not answer.
        pace: of beats and leases.

    Raises:
        ShareError: it can't be opened.
    """

    def __init__(
        self, address: Address, host: str, say: Callable[[str], None], pace: Pace = USUAL_PACE
    ) -> None:
        self._address = address
        self._host = host
        self._pace = pace
        self._patience = Patience(address.shown, say, pace.clock, pace.pause)
        self._storage = open_storage(address)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        close_storage(self._storage)

    def join(self, search: SearchFacts, machine: MachineFacts) -> Group:
        """Return the group of hosts like this one, made if it is the first of them.

        Raises:
            TargetChangedError: another search is shared there.
            ShareError: the storage does not answer.
        """
        board = self._claims(f"{_STUDY}-groups")
        groups = self._groups_on(board, search)
        if not any(not one.machine.differences(machine) for one in groups):
            payload = {_SEARCH: to_json(search, indent=None), _MACHINE: to_json(machine, indent=None)}
            board.leave(f"{self._host} {secrets.token_hex(8)}", payload)
            # A host that started at the same moment may have made it first.
            groups += self._groups_on(board, search, groups)
        own = next(one for one in groups if not one.machine.differences(machine))
        others = (one.machine.differences(machine) for one in groups if one.number != own.number)
        trials, phases = (
            self._claims(f"{_STUDY}-{own.number + 1}"),
            self._claims(f"{_STUDY}-{own.number + 1}-phases"),
        )
        return Group(
            number=own.number,
            trials=SharedTrials(trials, search.options.max_trials),
            phases=phases,
            heart=Heart((trials, phases), self._pace.beat_s),
            unlike=min((one for one in others if one), key=len, default=()),
        )

    def _groups_on(
        self, board: Claims, search: SearchFacts, known: Sequence["_Entry"] = ()
    ) -> list["_Entry"]:
        """Return the groups of this search that came to the board since it was last looked at.

        Raises:
            TargetChangedError: the first group, which decides what is searched, searches something else.
        """
        new = [_entry(one) for one in sorted(board.pull(), key=lambda one: one.claim.number)]
        for first in [*known, *new][:1]:
            if differing := first.search.differences(search):
                raise TargetChangedError(
                    f"{self._address.shown} holds another search: {'; '.join(differing)}; start every "
                    "host with the same command and flags, or share this search in another place"
                )
        return [one for one in new if not one.search.differences(search)]

    def _claims(self, study: str) -> Claims:
        return Claims(self._storage, study, self._host, self._patience, self._pace)


@dataclass(frozen=True)
class _Entry:
    """A group, as the host that made it put it on the board."""

    number: int
    search: SearchFacts
    machine: MachineFacts


def _entry(left: Outcome) -> _Entry:
    source = f"what {left.claim.host} said of itself"
    return _Entry(
        left.claim.number,
        from_json(left.payload[_SEARCH], SearchFacts, source),
        from_json(left.payload[_MACHINE], MachineFacts, source),
    )
