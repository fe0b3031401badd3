"""The trials of a group of like hosts: claims whose outcome is a trial's record."""

from tunekit.records.codec import from_json, to_json
from tunekit.records.config import TrainConfig
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.tune.shared.claims import Claim, Claims, Outcome, Taken
from tunekit.tune.shared.others import PendingTrial, SharedRecord

_ROLE, _CONFIG, _ROUND, _RECORD, _SPENT_S = "role", "config", "round", "record", "spent_s"


class SharedTrials:
    """The trials of one group, each run by one host.

    Args:
        claims: of the group's trials.
        most_candidates: how many of them may be candidates, on all hosts; None for any number.
    """

    def __init__(self, claims: Claims, most_candidates: int | None = None) -> None:
        self._claims = claims
        self._most_candidates = most_candidates

    def claim(
        self,
        role: TrialRole,
        config: TrainConfig | None,
        round_number: int | None,
        again: int = 0,
        only_of: str | None = None,
    ) -> Claim | Taken:
        """Claim a trial, whose number is the claim's, unless another host runs it, or has.

        Nor is it this host's where those ahead of it are as many as there may be.

        Args:
            role: what it is run for.
            config: None for the script as it is.
            round_number: of a confirmation.
            again: how many trials of this role and config have ended, as far as this host knows: one that
                is run again, as it was disturbed, is another trial.
            only_of: host that runs it beside its own others; another host's trial of the same is another one.
        """
        text = None if config is None else to_json(config, indent=None)
        about = {_ROLE: role.value, _CONFIG: text, _ROUND: round_number}
        key = f"{role.value} {text} round {round_number} again {again} of {only_of or 'any host'}"
        claim = self._claims.claim(key, about)
        if isinstance(claim, Claim) and role.is_candidate and self._is_one_too_many(claim):
            self._claims.withdraw(claim)
            return Taken(0)
        return claim

    def _is_one_too_many(self, claim: Claim) -> bool:
        if self._most_candidates is None:
            return False
        roles = [TrialRole(one.about[_ROLE]) for one in self._claims.ahead_of(claim)]
        return sum(role.is_candidate for role in roles) >= self._most_candidates

    def name_host(self, name: str) -> None:
        """Have others show this host by that name."""
        self._claims.host = name

    def withdraw(self, claim: Claim) -> None:
        """End the claim of a trial that nobody is to run."""
        self._claims.withdraw(claim)

    def finish(self, claim: Claim, record: TrialRecord, spent_s: float) -> bool:
        """Leave the record of a trial for all; False if its lease was lost, and it is another host's to run.

        Args:
            claim: of the trial.
            record: its number is the claim's.
            spent_s: how long the search has run.
        """
        payload = {_RECORD: to_json(record, indent=None), _SPENT_S: spent_s}
        return self._claims.finish(claim, payload, record.rate_samples_per_s)

    def release_all(self, why: str) -> None:
        """Give back whatever this host has."""
        self._claims.release_all(why)

    def pull(self) -> tuple[SharedRecord, ...]:
        """Return the finished trials that were not returned yet, of this host and of others, by number.

        Raises:
            RecordError: one is damaged, or newer than this tunekit.
        """
        return tuple(map(_shared_record, sorted(self._claims.pull(), key=lambda one: one.claim.number)))

    def pending(self) -> tuple[PendingTrial, ...]:
        """Return what other hosts run now."""
        return tuple(map(_pending, self._claims.pending()))

    def lost(self) -> tuple[PendingTrial, ...]:
        """Return what hosts began and did not end, and nobody runs now."""
        return tuple(_pending(claim, hosts_lost) for claim, hosts_lost in self._claims.lost())


def _shared_record(outcome: Outcome) -> SharedRecord:
    source = f"trial {outcome.claim.number} of {outcome.claim.host}"
    payload = outcome.payload
    return SharedRecord(
        from_json(payload[_RECORD], TrialRecord, source), float(payload[_SPENT_S]), outcome.claim.host
    )


def _pending(claim: Claim, hosts_lost: int = 0) -> PendingTrial:
    text = claim.about[_CONFIG]
    config = None if text is None else from_json(text, TrainConfig, f"trial {claim.number} of {claim.host}")
    return PendingTrial(claim.number, claim.host, TrialRole(claim.about[_ROLE]), config, hosts_lost)
