"""What to try next, and the journal that shows every trial in an Optuna study.

The throughput model proposes configs from the trial records; Optuna only keeps the journal, which is
rewritten
whenever a search starts or resumes. optuna-dashboard shows the running trial, samples/s and user attributes.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState

from tunekit.predict.loader_rate import cpus_per_worker
from tunekit.recommend.planned_training import PlannedTraining
from tunekit.recommend.tiers import POLICIES, same_training, violations
from tunekit.records.config import WORKER_KNOBS, TrainConfig
from tunekit.records.host import Host
from tunekit.records.recommendation import Tier
from tunekit.records.run import KnobSpace
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import Trials
from tunekit.tune.acquisition import NO_CRITERIA, Acquisition, Criteria, Proposal
from tunekit.tune.budget import FEW_TRIALS
from tunekit.tune.space import contains

STUDY_NAME = "tunekit"


class Study:
    """The Optuna study of one run.

    Args:
        space: the knobs and their values.
        host: the host, whose limits apply to proposals.
        journal: file for other tools to read; None for memory only.
    """

    def __init__(self, space: Sequence[KnobSpace], host: Host, journal: Path | None = None) -> None:
        logging.getLogger("optuna").setLevel(logging.ERROR)
        self._space = tuple(space)
        self._host = host
        storage: BaseStorage = InMemoryStorage()
        if journal is not None:
            journal.unlink(missing_ok=True)
            # A lock left by a killed search would delay the first write by half a minute.
            journal.with_name(journal.name + ".lock").unlink(missing_ok=True)
            storage = JournalStorage(JournalFileBackend(str(journal)))
        self._study = optuna.create_study(storage=storage, study_name=STUDY_NAME, direction="maximize")
        self._acquisition = Acquisition(self._space, host, self._may_choose)
        self._records: list[TrialRecord] = []
        self._running: optuna.Trial | None = None

    def propose(
        self, criteria: Criteria = NO_CRITERIA, pending: Sequence[TrainConfig] = ()
    ) -> Proposal | None:
        """Return an untried config, and why; None if none fits.

        Args:
            criteria: what its trial must promise and how much it may cost.
            pending: configs that other hosts are measuring.
        """
        # Start within the answer's tier: a larger config needs separate confirmation in its own tier.
        searched, proposal = Trials(tuple(self._records)).searched, None
        first = Tier.BALANCED if len(searched) < FEW_TRIALS else Tier.AGGRESSIVE
        for tier in dict.fromkeys((first, Tier.AGGRESSIVE)):
            within = replace(criteria, max_workers=self._most_of(tier))
            proposal = self._acquisition.propose(self._records, within, pending)
            if proposal is not None and (proposal.gain is None or proposal.gain >= criteria.min_gain):
                break
        return proposal

    def fastest_untried(self, planned: PlannedTraining, pending: Sequence[TrainConfig]) -> Proposal | None:
        """Return the untried config with the highest predicted rate among those that any tier could take."""
        criteria = Criteria(max_workers=self._most_of(Tier.AGGRESSIVE), planned=planned, is_fastest=True)
        return self._acquisition.propose(self._records, criteria, pending)

    @contextmanager
    def running(self, config: TrainConfig, expected_rate: float | None) -> Iterator[None]:
        """Show a trial as running, with its predicted samples/s; without a record it ends as failed."""
        self._running = self._begin(config)
        self._running.set_user_attr("predicted_samples_per_s", expected_rate)
        try:
            yield
        finally:
            if self._running is not None:
                self._study.tell(self._running, state=TrialState.FAIL)
                self._running = None

    def tell(self, records: Iterable[TrialRecord]) -> None:
        """Add finished trials; one with a value outside the space doesn't appear in the study."""
        for record in records:
            self._records.append(record)
            if record.config is None or not record.role.is_candidate:
                continue
            if self._running is None and contains(self._space, self._as_searched(record.config)):
                self._running = self._begin(record.config)
            if self._running is not None:
                self._end(self._running, record)
                self._running = None

    def why_none(self) -> str:
        """Return why nothing would be proposed even with unlimited time."""
        return self._acquisition.why_none(self._records)

    def _most_of(self, tier: Tier) -> int:
        first = next((one.measurement for one in self._records if one.measurement), None)
        return POLICIES[tier].max_workers(self._host.cpus, cpus_per_worker(first))

    def _may_choose(self, record: TrialRecord) -> bool:
        """Return whether a tier could choose a trial's config and the user's own limits allow it."""
        return (
            record.config is not None
            and contains(self._space, self._as_searched(record.config))
            and not violations(record, Tier.AGGRESSIVE, self._host, self._records)
            and bool(same_training([record], Trials(tuple(self._records))))
        )

    def _as_searched(self, config: TrainConfig) -> TrainConfig:
        """Return a config with the space's persistent_workers, which isn't a parameter of the study."""
        persistent = next(entry.values[0] for entry in self._space if entry.knob == "persistent_workers")
        return config.changed(persistent_workers=bool(config.num_workers and persistent))

    def _begin(self, config: TrainConfig) -> optuna.Trial:
        """Begin a trial of the study; without workers, the knobs that need them are left out."""
        distributions: dict[str, BaseDistribution] = {
            entry.knob: CategoricalDistribution(entry.values)
            for entry in self._space
            if entry.is_searched and not (entry.knob in WORKER_KNOBS and config.num_workers == 0)
        }
        self._study.enqueue_trial({knob: getattr(config, knob) for knob in distributions})
        return self._study.ask(distributions)

    def _end(self, running: optuna.Trial, record: TrialRecord) -> None:
        loop, rate = record.measurement.loop if record.measurement else None, record.rate_samples_per_s
        running.set_user_attr("number", record.number)
        running.set_user_attr("failure", record.failure.kind if record.failure else None)
        running.set_user_attr("duration_s", record.duration_s)
        running.set_user_attr("peak_reserved_bytes", loop.peak_reserved_bytes if loop else None)
        if rate is None:
            self._study.tell(running, state=TrialState.FAIL)
        elif record.is_abandoned:
            running.report(rate, step=0)
            self._study.tell(running, state=TrialState.PRUNED)
        else:
            self._study.tell(running, rate)
