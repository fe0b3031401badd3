"""Which config to try next: the one with the highest expected gain per second of its trial. Pure."""

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tunekit.predict.throughput.evidence import STEP_NOISE
from tunekit.predict.throughput.model import Prediction, ThroughputModel
from tunekit.predict.throughput.observation import Columns, Flags, Floats, observations
from tunekit.recommend.planned_training import NOTHING_PLANNED, PlannedTraining
from tunekit.records.config import KNOBS, MODEL_SWITCHES, TrainConfig
from tunekit.records.host import Host
from tunekit.records.recommendation import NoiseFloor
from tunekit.records.run import KnobSpace
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import measured, without_superseded
from tunekit.tune.confirm import COMPILE_PRIOR_S, durations_s
from tunekit.tune.feasibility import chances_to_fit, chances_to_run, fits_host
from tunekit.tune.space import config_from

_MIN_GAIN = 0.005
"""Smallest expected gain, as a share of the best rate, that is worth a trial."""
_MIN_QUIET_GAIN = 0.001
"""The same on the quietest machine."""

_SAME_GAIN = 0.1
"""Difference in the logarithm of gain per second below which two configs count as equal."""
_MIN_CHANCE = 0.1
"""Smallest chance of fitting in the device's memory with which a config is tried."""
_NEARLY = 0.1
"""How far the first config to try may fall short of the fastest, in the logarithm of the rate."""
_LEAST_BATCHES = 9
"""Fewest batches of a trial: three each until the queue is full, of the window, and of the next epoch."""
_LIKELY = 0.5
"""Chance of fitting and running from which a pending trial counts as if it had the predicted rate."""

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Criteria:
    """What a trial must promise and how much it may cost."""

    max_s: float = math.inf
    """Longest time that a trial may take."""
    max_again_s: float = math.inf
    """The same for long batches, and for a compiled trial once one was measured, as their confirmation rounds
    must fit, too."""
    max_workers: float = math.inf
    """Most loader workers that its config may have."""
    min_gain: float = _MIN_GAIN
    """Smallest expected gain, as a share of the best rate."""
    planned: PlannedTraining = NOTHING_PLANNED
    """The planned training."""
    is_fastest: bool = False
    """Whether to propose the highest predicted rate, whatever its trial costs or reveals."""


NO_CRITERIA = Criteria()


def min_gain(noise: NoiseFloor | None) -> float:
    """Return the share of the best rate below which a gain isn't worth a trial.

    It is never above the noise floor, so that no gain is ignored that the run could distinguish from noise.
    """
    return _MIN_GAIN if noise is None else max(_MIN_QUIET_GAIN, min(_MIN_GAIN, noise.relative))


@dataclass(frozen=True)
class Proposal:
    """A config to try, with the predicted figures behind it."""

    config: TrainConfig
    cost_s: float
    expected_rate_samples_per_s: float | None
    """Expected rate of one rank; None before anything was measured."""
    gain: float | None
    """Expected improvement of the best rate by this trial, as a share, with failures to improve counted as
    zero; None before anything was measured."""
    pays: bool = True
    """Whether it is expected to save the planned training more time than it costs; true without a plan."""


def over_planned_training(
    predicted: Prediction, columns: Columns, planned: PlannedTraining, ran: Sequence[TrialRecord]
) -> Prediction:
    """Return predicted rates over the whole planned training, if its finish time is the objective.

    Args:
        predicted: rates over whole epochs.
        columns: the configs.
        planned: the planned training.
        ran: trials that show how long configs take to start.
    """
    if planned.finish_samples is None:
        return predicted
    eager_s, compiled_s = _starts_s(ran)
    start_s = np.where(columns.switches["compile"], compiled_s, eager_s) / planned.finish_samples
    sample_s = np.exp(-predicted.log_rate)
    whole_s = start_s + sample_s
    return replace(predicted, log_rate=-np.log(whole_s), deviation=predicted.deviation * sample_s / whole_s)


def _starts_s(trials: Sequence[TrialRecord]) -> tuple[float, float]:
    """Return the seconds to the end of the first step, without torch.compile and with it.

    The wait for the first batch is left out, as predicted rates already include a boundary for every epoch.
    Compile time comes from the slowest process, as others may have found the code in a cache.
    """
    loops = [(one.config.compile, one.loop.startup_s + one.loop.once_s) for one in measured(trials)]
    eager_s = [start_s for compiled, start_s in loops if not compiled]
    compiled_s = [start_s for compiled, start_s in loops if compiled]
    usual_s = median(eager_s) if eager_s else 0.0
    return usual_s, max(compiled_s, default=usual_s + COMPILE_PRIOR_S)


class Acquisition:
    """Proposes configs by a throughput model; the same records always give the same proposal.

    It learns only from baseline and search trials, so that confirmation doesn't affect proposals.

    Args:
        space: the knobs and their values.
        host: the share of the machine that one rank can use.
        may_choose: whether a tier could choose a trial's config; a proposal has to beat the fastest of these.
    """

    def __init__(
        self,
        space: Sequence[KnobSpace],
        host: Host,
        may_choose: Callable[[TrialRecord], bool] = lambda record: True,
    ) -> None:
        self._space = tuple(space)
        self._host = host
        self._may_choose = may_choose

    @cached_property
    def configs(self) -> tuple[TrainConfig, ...]:
        """Every config of the space."""
        return all_configs(self._space)

    def propose(
        self,
        records: Sequence[TrialRecord],
        criteria: Criteria = NO_CRITERIA,
        pending: Sequence[TrainConfig] = (),
    ) -> Proposal | None:
        """Return the config to try next, or None.

        Configs that meet the criteria come first.

        Args:
            records: records of the finished trials.
            criteria: what the trial must promise and how much it may cost.
            pending: configs that other hosts are measuring, in any order. They count as tried, with the rates
                that the model predicts.
        """
        candidates = [record for record in records if record.role.is_candidate]
        tried = {record.config for record in candidates if record.config}
        costs, is_slow = self._costs(records)
        is_open = self._untried({*tried, *pending})
        is_open &= (costs <= criteria.max_s) & self._fits_host(candidates)
        if any(one.config and one.config.compile and one.measurement for one in records):
            is_slow |= self._columns.switches["compile"]
        is_open &= ~is_slow | (costs <= criteria.max_again_s)
        is_open &= self._columns.workers <= criteria.max_workers
        fit_chances = chances_to_fit(candidates, self._columns)
        places = np.flatnonzero(is_open & (fit_chances >= _MIN_CHANCE))
        if not len(places):
            return None
        chances = fit_chances * chances_to_run(candidates, self._columns)
        ran = [record for record in candidates if record.measurement is not None]
        if ran:
            try:
                with np.errstate(all="ignore"):  # extreme figures become infinities
                    unheard = self._places_of(set(pending).difference(tried))
                    believed = self._columns.take(unheard[chances[unheard] >= _LIKELY])
                    expected = self._expectations(ran, criteria.planned, places, believed)
                    pool = _CandidatePool(places, chances[places], costs[places], *expected)
                    own = None if ran[1:] or pending else ran[0].config
                    return self._best(pool, criteria, own)
            except np.linalg.LinAlgError:
                pass  # no model fits these figures: continue as if there were none
        place = self._smallest(candidates, pending, places)
        return Proposal(self.configs[place], float(costs[place]), None, None)

    def why_none(self, records: Sequence[TrialRecord]) -> str:
        """Return why there would be nothing to propose even with unlimited time."""
        is_open = self._untried({one.config for one in records if one.role.is_candidate and one.config})
        if not is_open.any():
            return "every config of the space was tried"
        return "no untried config is expected to fit the CPUs and the memory"

    def _expectations(
        self, ran: Sequence[TrialRecord], planned: PlannedTraining, places: Places, pending: Columns
    ) -> tuple[Prediction, Prediction, float]:
        """Return the model's predictions for the configs at some places: rates, objective, best objective."""
        informative, first = without_superseded(ran), ran[0].measurement
        assert first is not None
        on_cpu, epoch_samples = first.loop.device.type == "cpu", first.loop.epoch_samples
        model = ThroughputModel(observations(informative), self._host.cpus, on_cpu, epoch_samples)
        configs = [(record.config, self._may_choose(record)) for record in informative if record.config]
        tried = [config for config, may in configs if may] or [config for config, _ in configs]

        def objective(columns: Columns, rates: Prediction) -> Prediction:
            return over_planned_training(rates, columns, planned, ran)

        to_beat = [
            objective(columns, model.predict_columns(columns)).log_rate
            for columns in (Columns.of(tried), pending)
        ]
        columns = self._columns.take(places)
        rates = model.predict_columns(columns, pending)
        return rates, objective(columns, rates), float(np.max(np.concatenate(to_beat)))

    def _best(self, pool: "_CandidatePool", criteria: Criteria, baseline: TrainConfig | None) -> Proposal:
        """Return the config with the most gain per second, the smallest of equals; at first `_remedy`."""
        expected, best_log_rate = pool.objective, pool.best_log_rate
        gains = expected_improvement(expected, best_log_rate) * pool.chances
        log_gain_per_s = np.log(np.maximum(gains / np.maximum(pool.costs, 1e-3), 1e-300))
        sure = expected_improvement(_as_one_trial_tells(expected), best_log_rate) * pool.chances
        gains_enough = sure >= criteria.min_gain
        pays = np.ones(len(gains), dtype=bool)
        if criteria.planned.samples is not None:
            planned_s = criteria.planned.samples * math.exp(-best_log_rate)
            pays = planned_s * -np.expm1(-sure) >= pool.costs
        order = np.lexsort(
            (
                self._size_rank[pool.places],
                -np.round(log_gain_per_s / _SAME_GAIN),
                ~gains_enough,
                ~(gains_enough & pays),
            )
        )
        first = order[0]
        remedy = self._remedy(pool, baseline) if baseline else None
        # A config with a higher gain that would no longer fit in time afterwards comes first. Not for the
        # first
        # trial, which must leave time for its confirmation.
        last_call = gains_enough & pays & (pool.costs > criteria.max_s - pool.costs[first])
        if baseline is None and last_call.any():
            rival = int(np.argmax(np.where(last_call, sure, -math.inf)))
            if pool.costs[rival] > pool.costs[first] and sure[rival] > sure[first]:
                first = rival
        if criteria.is_fastest:
            first = int(np.argmax(expected.log_rate + np.log(pool.chances)))
        elif remedy is not None:
            first = remedy
        return Proposal(
            config=self.configs[pool.places[first]],
            cost_s=float(pool.costs[first]),
            expected_rate_samples_per_s=math.exp(min(float(pool.rates.log_rate[first]), 700.0)),
            gain=float(sure[first]),
            pays=bool(pays[first]),
        )

    def _remedy(self, pool: "_CandidatePool", baseline: TrainConfig) -> int | None:
        """Return the position of the smallest change among configs nearly as fast as any eager one.

        None if other precisions or model switches promise more than loader and batch size.
        """
        columns, home = self._columns.take(pool.places), Columns.of([baseline])
        log_rates = pool.objective.log_rate + np.log(pool.chances)
        scores = np.where(columns.switches["compile"], -math.inf, log_rates)
        is_near = scores >= np.max(scores, initial=-1e9) - _NEARLY
        is_near &= columns.precision == home.precision
        for knob in MODEL_SWITCHES:
            is_near &= columns.switches[knob] == home.switches[knob]

        def change(at: int) -> tuple[int, int]:
            place = pool.places[at]
            return _changes(self.configs[place], baseline), int(self._size_rank[place])

        return min(map(int, np.flatnonzero(is_near)), key=change, default=None)

    def _smallest(
        self, candidates: Sequence[TrialRecord], pending: Sequence[TrainConfig], places: Places
    ) -> int:
        """Return the place of the smallest untried batch size, with as few other changes as possible."""
        tried = {record.config.batch_size for record in candidates if record.config}
        tried |= {config.batch_size for config in pending}
        baseline = next((record.config for record in candidates if record.config), self.configs[0])

        def key(place: int) -> tuple[bool, int, int, int]:
            config = self.configs[place]
            changed = _changes(config, baseline)
            return config.batch_size in tried, config.batch_size, changed, int(self._size_rank[place])

        return min(map(int, places), key=key)

    # --- the space, once -------------------------------------------------------------------

    @cached_property
    def _columns(self) -> Columns:
        return Columns.of(self.configs)

    @cached_property
    def _place_of(self) -> dict[TrainConfig, int]:
        return {config: place for place, config in enumerate(self.configs)}

    @cached_property
    def _size_rank(self) -> Places:
        """The rank of each config by size; of two equal ones, the one with pinned memory comes first."""
        columns = self._columns
        order = np.lexsort(
            (
                columns.switches["channels_last"],
                columns.precision,
                ~columns.switches["pin_memory"],
                columns.switches["compile"],
                columns.batch_size,
                columns.prefetch,
                columns.workers,
            )
        )
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return rank

    @cached_property
    def _pinned_twin(self) -> Places:
        """The place of each config's variant with pinned memory, or its own if the space has none."""
        return np.array(
            [
                place if config.pin_memory else self._place_of.get(config.changed(pin_memory=True), place)
                for config, place in self._place_of.items()
            ],
            dtype=np.int64,
        )

    @cached_property
    def _queues(self) -> tuple[tuple[TrainConfig, ...], Places]:
        """One config for each queue size, and the index of the matching one for each config of the space."""
        columns = self._columns
        knobs = np.stack([columns.batch_size, columns.workers, columns.prefetch], axis=1)
        _, first, same = np.unique(knobs, axis=0, return_index=True, return_inverse=True)
        return tuple(self.configs[place] for place in first), same.reshape(-1)

    # --- what may be proposed --------------------------------------------------------------

    def _untried(self, configs: Collection[TrainConfig]) -> Flags:
        """Return which configs are untried; unpinned ones only once their pinned twin was tried."""
        tried = np.zeros(len(self.configs), dtype=bool)
        tried[self._places_of(configs)] = True
        is_twin = self._pinned_twin != np.arange(len(tried))
        return np.asarray(~tried & (~is_twin | tried[self._pinned_twin]))

    def _places_of(self, configs: Iterable[TrainConfig]) -> Places:
        """Return the places of those configs that the space contains, in the space's order."""
        found = (self._place_of.get(config) for config in configs)
        return np.array(sorted(place for place in found if place is not None), dtype=np.int64)

    def _fits_host(self, candidates: Sequence[TrialRecord]) -> Flags:
        configs, same = self._queues
        return np.asarray(fits_host(candidates, self._host, configs)[same])

    def _costs(self, records: Sequence[TrialRecord]) -> tuple[Floats, Flags]:
        """Return the estimated seconds of a trial of each config, and whether long batches make it slow."""
        eager_s, compiled_s = durations_s(records)
        usual_s = np.where(self._columns.switches["compile"], compiled_s, eager_s)
        rate = max((one.loop.rank_rate_samples_per_s for one in measured(records)), default=math.inf)
        batches_s = _LEAST_BATCHES * self._columns.batch_size / rate
        return np.maximum(usual_s, batches_s), batches_s > usual_s


def _changes(config: TrainConfig, baseline: TrainConfig) -> int:
    """Return how many knobs of a config differ from the baseline's."""
    return sum(getattr(config, knob) != getattr(baseline, knob) for knob in KNOBS)


class _CandidatePool(NamedTuple):
    """The configs that may be proposed, with the model's predictions: one entry per config."""

    places: Places
    chances: Floats
    costs: Floats
    rates: Prediction
    objective: Prediction
    """The rates, or those over the whole planned training if its finish time is the objective."""
    best_log_rate: float
    """Highest objective predicted for configs that were tried and may be chosen, or are pending."""


def all_configs(space: Sequence[KnobSpace]) -> tuple[TrainConfig, ...]:
    """Return every distinct config of a space, in order."""
    values = {entry.knob: entry.values for entry in space if entry.is_searched}
    chosen = (dict(zip(values, one, strict=True)) for one in itertools.product(*values.values()))
    return tuple(dict.fromkeys(config_from(one, space) for one in chosen))


def _as_one_trial_tells(prediction: Prediction) -> Prediction:
    """Return the prediction with the part of its deviation that one trial, itself noisy, can remove."""
    variance = prediction.deviation**2
    return replace(prediction, deviation=variance / np.sqrt(variance + STEP_NOISE**2))


def expected_improvement(prediction: Prediction, best: float) -> Floats:
    """Return each config's expected improvement of the best rate, as a share.

    Args:
        prediction: predicted rates of the configs.
        best: natural logarithm of the best rate so far.
    """
    deviation = np.maximum(prediction.deviation, 1e-9)
    ahead = (prediction.log_rate - best) / deviation
    density = np.exp(-0.5 * ahead**2) / math.sqrt(2 * math.pi)
    below = 0.5 * np.array([math.erfc(-one / math.sqrt(2)) for one in ahead])
    return np.asarray((prediction.log_rate - best) * below + deviation * density)
