"""Searches that can be raced: each proposes one config after another, from the trials that it was shown."""

import random
from collections.abc import Callable, Sequence
from typing import Protocol

import optuna

from tunekit.records.config import WORKER_KNOBS, KnobValue, TrainConfig
from tunekit.records.host import Host
from tunekit.records.run import KnobSpace
from tunekit.records.trial import TrialRecord
from tunekit.tune.acquisition import Acquisition
from tunekit.tune.space import config_from, nearest

_WORTH_GOING_ON = 1.01


class Racer(Protocol):
    """One search of one world."""

    def propose(self, records: Sequence[TrialRecord]) -> TrainConfig | None:
        """Return the next config, None when there is nothing left to try."""
        ...


MakeRacer = Callable[[Sequence[KnobSpace], Host, TrainConfig, int], Racer]


class PlainTpe:
    """Optuna's TPE as it comes, its first ten trials by chance; batch and workers are ordered."""

    def __init__(self, space: Sequence[KnobSpace], host: Host, baseline: TrainConfig, seed: int) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = tuple(space)
        self._study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
        self._asked: optuna.trial.Trial | None = None
        self._tried: dict[TrainConfig, float] = {}

    def propose(self, records: Sequence[TrialRecord]) -> TrainConfig | None:
        """Tell the last trial and ask for the next; a repeated config is answered with what is known."""
        last = records[-1]
        if self._asked is not None and last.config is not None:
            self._study.tell(self._asked, last.rate_samples_per_s or 0.0)
            self._tried[last.config] = last.rate_samples_per_s or 0.0
        for _ in range(1000):
            self._asked = self._study.ask()
            config = self._config(self._asked)
            if config not in self._tried:
                return config
            self._study.tell(self._asked, self._tried[config])
        return None

    def _config(self, trial: optuna.trial.Trial) -> TrainConfig:
        values: dict[str, KnobValue] = {}
        for entry in self._space:
            if not entry.is_searched or (entry.knob in WORKER_KNOBS and values.get("num_workers") == 0):
                continue
            if isinstance(entry.values[0], int) and not isinstance(entry.values[0], bool):
                values[entry.knob] = entry.values[trial.suggest_int(entry.knob, 0, len(entry.values) - 1)]
            else:
                place = trial.suggest_categorical(entry.knob, list(range(len(entry.values))))
                values[entry.knob] = entry.values[place]
        return config_from(values, self._space)


class GuessThenTpe(PlainTpe):
    """The same, after a first guess: bf16, half of the CPUs as workers, twice the batch."""

    def __init__(self, space: Sequence[KnobSpace], host: Host, baseline: TrainConfig, seed: int) -> None:
        super().__init__(space, host, baseline, seed)
        guess = nearest(self._space, _with(baseline, host, batch_size=2 * baseline.batch_size))
        self._study.enqueue_trial(_suggested(guess, self._space))


class Coordinate:
    """What a good engineer does: bf16, the batch while it helps, workers while they help, then the modes."""

    def __init__(self, space: Sequence[KnobSpace], host: Host, baseline: TrainConfig, seed: int) -> None:
        self._space = tuple(space)
        self._start = nearest(self._space, _with(baseline, host))
        self._known: dict[TrainConfig, float] = {}
        self._walk = self._walked()
        self._is_begun = False

    def propose(self, records: Sequence[TrialRecord]) -> TrainConfig | None:
        """Go on with the walk."""
        for record in records:
            if record.config is not None and record.config not in self._known:
                self._known[record.config] = record.rate_samples_per_s or 0.0
        return next(self._walk, None)

    def _walked(self):  # type: ignore[no-untyped-def]
        now = self._start
        if now not in self._known:
            yield now
        for turn in range(6):
            before = self._known[now]
            for knob in ("batch_size", "num_workers", "prefetch_factor"):
                values = next(entry.values for entry in self._space if entry.knob == knob)
                for direction in (1, -1):
                    while True:
                        stride = 2 if knob == "batch_size" and turn == 0 and len(values) > 6 else 1
                        own = getattr(now, knob)
                        if own not in values:
                            break
                        place = values.index(own) + direction * stride
                        if not 0 <= place < len(values):
                            break
                        tried = self._moved(now, knob, values[place])
                        if tried not in self._known:
                            yield tried
                        if self._known[tried] <= self._known[now] * _WORTH_GOING_ON:
                            break
                        now = tried
            for knob in ("compile", "precision", "channels_last"):
                entry = next(entry for entry in self._space if entry.knob == knob)
                for value in entry.values if entry.is_searched else ():
                    tried = self._moved(now, knob, value)
                    if tried not in self._known:
                        yield tried
                    if self._known[tried] > self._known[now] * _WORTH_GOING_ON:
                        now = tried
            if self._known[now] <= before * 1.005:
                return

    def _moved(self, config: TrainConfig, knob: str, value: KnobValue) -> TrainConfig:
        fixed = {entry.knob: entry.values[0] for entry in self._space if not entry.is_searched}
        return config_from({**config.model_dump(), **fixed, knob: value}, self._space)


class Model:
    """The throughput model's proposals, from the first trial on."""

    def __init__(self, space: Sequence[KnobSpace], host: Host, baseline: TrainConfig, seed: int) -> None:
        self._guided = Acquisition(space, host)

    def propose(self, records: Sequence[TrialRecord]) -> TrainConfig | None:
        """Return the model's proposal."""
        proposal = self._guided.propose(records)
        return proposal.config if proposal else None


class Chance:
    """Any config that was not tried, by chance: what knowing nothing would do."""

    def __init__(self, space: Sequence[KnobSpace], host: Host, baseline: TrainConfig, seed: int) -> None:
        self._configs = list(Acquisition(space, host).configs)
        random.Random(seed).shuffle(self._configs)

    def propose(self, records: Sequence[TrialRecord]) -> TrainConfig | None:
        """Return the next of a shuffled list."""
        tried = {record.config for record in records}
        return next((config for config in self._configs if config not in tried), None)


def _with(baseline: TrainConfig, host: Host, **knobs: KnobValue) -> TrainConfig:
    """Return the baseline with bf16, no compile, and half of the CPUs as workers."""
    values = {**baseline.model_dump(), "num_workers": max(1, host.cpus // 2), "prefetch_factor": 2}
    values |= {"precision": "bf16", "compile": False, "persistent_workers": True, **knobs}
    return TrainConfig.model_validate(values)


def _suggested(config: TrainConfig, space: Sequence[KnobSpace]) -> dict[str, int]:
    values = config.model_dump()
    return {
        entry.knob: entry.values.index(values[entry.knob])
        for entry in space
        if entry.is_searched and values[entry.knob] in entry.values
    }


RACERS: dict[str, MakeRacer] = {
    "chance": Chance,
    "TPE": PlainTpe,
    "guess, then TPE": GuessThenTpe,
    "coordinate": Coordinate,
    "model": Model,
}
