"""Optuna behind ask and tell: it proposes configs, it is told what became of them."""

import itertools
import logging
import random
import warnings
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import cast

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState, create_trial

from tunekit.memory.ram import OOM_SHARE, buffer_bytes
from tunekit.recommend.tiers import POLICIES, base_ram_bytes
from tunekit.records.config import WORKER_KNOBS, TrainConfig
from tunekit.records.host import Host
from tunekit.records.recommendation import Tier
from tunekit.records.run import KnobSpace, KnobValue
from tunekit.records.trial import TrialRecord
from tunekit.search.space import config_from, contains

STUDY_NAME = "tunekit"
_SAME_CONFIG_TRIES = 40
_STARTUP_TRIALS = 5


class Study:
    """Optuna's study of one run.

    Built from the trial records each time: they are the truth, the journal a copy for other tools.

    Args:
        space: the knobs and their values.
        host: its limits become constraints.
        seed: of the sampler; together with the number of finished trials it fixes each proposal.
        journal: file that mirrors the study for Optuna's own tools; None for memory only.
    """

    def __init__(
        self, space: Sequence[KnobSpace], host: Host, seed: int, journal: Path | None = None
    ) -> None:
        logging.getLogger("optuna").setLevel(logging.ERROR)
        self._space = tuple(space)
        self._host = host
        self._seed = seed
        if journal is not None:
            journal.unlink(missing_ok=True)
            # Left by a killed search, it would hold up the first write for half a minute.
            journal.with_name(journal.name + ".lock").unlink(missing_ok=True)
        storage: BaseStorage = InMemoryStorage()
        if journal is not None:
            storage = JournalStorage(JournalFileBackend(str(journal)))
        self._study = optuna.create_study(storage=storage, study_name=STUDY_NAME, direction="maximize")
        self._tried: set[TrainConfig] = set()

    def tell(self, records: Iterable[TrialRecord]) -> None:
        """Add finished trials; those that a sampler can't learn from are only remembered as tried."""
        for record in records:
            if record.config is None or not record.role.is_candidate:
                continue
            self._tried.add(record.config)
            if contains(self._space, record.config):
                self._study.add_trial(self._frozen(record, record.config))

    def propose(self, accept: Callable[[TrainConfig], bool] = lambda config: True) -> TrainConfig | None:
        """Return a legal config that was not tried yet; None when there seems to be none.

        Args:
            accept: whether a config may be proposed at this time.
        """
        for attempt in range(_SAME_CONFIG_TRIES):
            config = self._ask(attempt)
            if config not in self._tried and accept(config):
                return config
        return self._any_untried(accept)

    def _any_untried(self, accept: Callable[[TrainConfig], bool]) -> TrainConfig | None:
        """Return an acceptable config that the sampler, repeating itself, did not come upon."""
        searched = self._searched()
        choices = list(itertools.product(*(entry.values for entry in searched)))
        random.Random(f"{self._seed}-{len(self._tried)}").shuffle(choices)
        for choice in choices:
            values = {entry.knob: value for entry, value in zip(searched, choice, strict=True)}
            config = config_from(values, self._space)
            if config not in self._tried and accept(config):
                return config
        return None

    def _ask(self, attempt: int) -> TrainConfig:
        """Sample one config without leaving a waiting trial in the study."""
        finished = len(self._study.get_trials(deepcopy=False))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = optuna.samplers.TPESampler(
                seed=(self._seed * 1_000_003 + finished * 101 + attempt) % 2**32,
                n_startup_trials=_STARTUP_TRIALS,
                multivariate=True,
                group=True,
            )
        scratch = optuna.create_study(direction="maximize", sampler=sampler)
        scratch.add_trials(self._study.get_trials(deepcopy=False))
        trial = scratch.ask()
        values: dict[str, KnobValue] = {}
        for entry in self._searched():
            if entry.knob in WORKER_KNOBS and self._chosen(values, "num_workers") == 0:
                continue
            # The candidates are KnobValues; Optuna's own type for a choice is wider.
            values[entry.knob] = cast(KnobValue, trial.suggest_categorical(entry.knob, entry.values))
        return config_from(values, self._space)

    def _searched(self) -> list[KnobSpace]:
        return [entry for entry in self._space if entry.is_searched]

    def _chosen(self, values: dict[str, KnobValue], knob: str) -> KnobValue:
        only = next(entry.values[0] for entry in self._space if entry.knob == knob)
        return values.get(knob, only)

    def _frozen(self, record: TrialRecord, config: TrainConfig) -> FrozenTrial:
        values = config.model_dump()
        parameters: dict[str, KnobValue] = {}
        distributions: dict[str, BaseDistribution] = {}
        for entry in self._searched():
            if entry.knob in WORKER_KNOBS and config.num_workers == 0:
                continue
            parameters[entry.knob] = values[entry.knob]
            distributions[entry.knob] = CategoricalDistribution(entry.values)
        violations = constraints(record, self._host)
        return create_trial(
            state=TrialState.COMPLETE,
            params=parameters,
            distributions=distributions,
            value=record.rate_samples_per_s or 0.0,
            user_attrs={"number": record.number, "failure": record.failure.kind if record.failure else None},
            constraints=violations,
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
        record.config, record.config.batch_bytes(loop.bytes_per_sample)
    )
    return {"vram": vram, "ram": needed / host.ram_limit_bytes - OOM_SHARE}
