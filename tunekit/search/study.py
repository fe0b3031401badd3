"""Optuna behind ask and tell: it proposes configs, it is told what became of them."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import optuna
from optuna.distributions import CategoricalDistribution
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState, create_trial

from tunekit.memory.ram import OOM_SHARE, buffer_bytes, held_per_sample
from tunekit.recommend.tiers import POLICIES, base_ram_bytes, violations
from tunekit.records.config import KnobValue, TrainConfig
from tunekit.records.host import Host
from tunekit.records.recommendation import Tier
from tunekit.records.run import KnobSpace
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.search.budget import FEW_TRIALS
from tunekit.search.guided import ANY_TERMS, Guided, Proposal, Terms
from tunekit.search.sampler import ThroughputSampler, parameters_of
from tunekit.search.space import config_from, contains

STUDY_NAME = "tunekit"


class Study:
    """Optuna's study of one run.

    Built from the trial records each time: they are the truth, the journal a copy for other tools.

    Args:
        space: the knobs and their values.
        host: its limits bound what is proposed, and become constraints.
        journal: file that mirrors the study for Optuna's own tools; None for memory only.
    """

    def __init__(self, space: Sequence[KnobSpace], host: Host, journal: Path | None = None) -> None:
        logging.getLogger("optuna").setLevel(logging.ERROR)
        self._space = tuple(space)
        self._host = host
        if journal is not None:
            journal.unlink(missing_ok=True)
            # Left by a killed search, it would hold up the first write for half a minute.
            journal.with_name(journal.name + ".lock").unlink(missing_ok=True)
        storage: BaseStorage = InMemoryStorage()
        if journal is not None:
            storage = JournalStorage(JournalFileBackend(str(journal)))
        self._study = optuna.create_study(storage=storage, study_name=STUDY_NAME, direction="maximize")
        self._guided = Guided(self._space, host, self._may_choose)
        self._records: list[TrialRecord] = []
        self._terms = ANY_TERMS
        self._sampler = ThroughputSampler(
            self._space, lambda: self._guided.propose(self._records, self._terms)
        )

    def tell(self, records: Iterable[TrialRecord]) -> None:
        """Add finished trials; one with a value that the space does not have is no trial of the study."""
        for record in records:
            self._records.append(record)
            if record.config is None or not record.role.is_candidate:
                continue
            if contains(self._space, self._as_searched(record.config)):
                self._study.add_trial(self._frozen(record, record.config))

    def propose(self, terms: Terms = ANY_TERMS) -> Proposal | None:
        """Return a config that was not tried yet, and why; None when there is none that fits.

        Args:
            terms: what a trial must promise, and may cost.
        """
        self._terms = replace(terms, most_workers=min(terms.most_workers, self._most_workers))
        # Asked of a study of its own, so that no waiting trial is left in the journal.
        scratch = optuna.create_study(direction="maximize", sampler=self._sampler)
        trial = scratch.ask()
        proposal = self._sampler.proposal
        if proposal is None:
            return None
        choices = {entry.knob: entry.values for entry in self._space}
        values = {
            # The candidates are KnobValues; Optuna's own type for a choice is wider.
            knob: cast(KnobValue, trial.suggest_categorical(knob, choices[knob]))
            for knob in parameters_of(proposal.config, self._space)
        }
        return replace(proposal, config=config_from(values, self._space))

    @property
    def is_exhausted(self) -> bool:
        """Whether every config of the space was tried."""
        return self._guided.is_exhausted(self._records)

    @property
    def _most_workers(self) -> int:
        """What the answer's tier may have, to begin with: more takes confirming rounds of its own."""
        searched = sum(record.role is TrialRole.SEARCH for record in self._records)
        tier = Tier.BALANCED if searched < FEW_TRIALS else Tier.AGGRESSIVE
        return POLICIES[tier].max_workers(self._host.cpus)

    def _may_choose(self, record: TrialRecord) -> bool:
        """Return whether a tier could choose a trial's config and the user's own limits allow it."""
        return (
            record.config is not None
            and contains(self._space, self._as_searched(record.config))
            and not violations(record, Tier.AGGRESSIVE, self._host)
        )

    def _as_searched(self, config: TrainConfig) -> TrainConfig:
        """Return a config with the space's persistent_workers, which is no parameter of the study."""
        persistent = next(entry.values[0] for entry in self._space if entry.knob == "persistent_workers")
        return config.changed(persistent_workers=bool(config.num_workers and persistent))

    def _frozen(self, record: TrialRecord, config: TrainConfig) -> FrozenTrial:
        parameters = parameters_of(config, self._space)
        values = {entry.knob: entry.values for entry in self._space}
        beyond = constraints(record, self._host)
        return create_trial(
            state=TrialState.COMPLETE,
            params=parameters,
            distributions={knob: CategoricalDistribution(values[knob]) for knob in parameters},
            value=record.rate_samples_per_s or 0.0,
            user_attrs={"number": record.number, "failure": record.failure.kind if record.failure else None},
            constraints=beyond,
        )


def constraints(record: TrialRecord, host: Host) -> dict[str, float]:
    """Return how far a trial lies beyond Aggressive's limits, by limit; above 0 is infeasible.

    A trial that gave no measurement is infeasible.
    """
    if record.measurement is None or record.config is None:
        return {"vram": 1.0, "ram": 1.0}
    loop = record.measurement.loop
    share = POLICIES[Tier.AGGRESSIVE].vram_share
    vram = 0.0
    if loop.peak_reserved_bytes is not None and loop.device.memory_bytes:
        vram = loop.peak_reserved_bytes / loop.device.memory_bytes - share
    needed = base_ram_bytes(record.measurement) + buffer_bytes(
        record.config, record.config.batch_bytes(held_per_sample(record.config, loop))
    )
    return {"vram": vram, "ram": needed / host.ram_limit_bytes - OOM_SHARE}
