"""Which config to try next: the one whose trial is expected to gain most per second that it costs. Pure."""

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
"""Share of the best rate that a trial has to be expected to gain, if it is to be worth its time."""
_MIN_QUIET_GAIN = 0.001
"""The same on the quietest machine."""

_SAME_GAIN = 0.1
"""Logarithm of gain per second within which two configs count as equal."""
_MIN_CHANCE = 0.1
"""Of fitting in the device's memory, below which a config is not tried."""
_NEARLY = 0.1
"""Logarithm of the rate by which the first config that is tried may fall short of the fastest."""
_LIKELY = 0.5
"""Chance to fit and run from which a pending trial is believed to give a rate."""

Places = NDArray[np.int64]


@dataclass(frozen=True)
class Criteria:
    """What a trial must promise, and may cost."""

    max_s: float = math.inf
    """Longest that it may take."""
    max_again_s: float = math.inf
    """Longest that a compiled one may take, once one was measured: its confirming rounds must fit too."""
    max_workers: float = math.inf
    """Most that it may have."""
    min_gain: float = _MIN_GAIN
    """Of the best rate, as a share."""
    planned: PlannedTraining = NOTHING_PLANNED
    """The training to come."""
    is_fastest: bool = False
    """Propose the highest predicted rate, whatever its trial costs and tells."""


NO_CRITERIA = Criteria()


def min_gain(noise: NoiseFloor | None) -> float:
    """Return the share of the best rate below which a gain is not worth a trial.

    No gain that the run could tell from noise is passed over.
    """
    return _MIN_GAIN if noise is None else max(_MIN_QUIET_GAIN, min(_MIN_GAIN, noise.relative))


@dataclass(frozen=True)
class Proposal:
    """A config to try, and why; all figures are predicted."""

    config: TrainConfig
    cost_s: float
    expected_rate_samples_per_s: float | None
    """Of one rank; None before anything was measured."""
    gain: float | None
    """By what share the best rate is expected to grow by what this trial tells, misses counted as nothing;
    None before anything was measured."""
    pays: bool = True
    """Whether it is expected to save more of the planned training than it costs; true without a plan."""


def over_planned_training(
    predicted: Prediction, columns: Columns, planned: PlannedTraining, ran: Sequence[TrialRecord]
) -> Prediction:
    """Return predicted rates as those of the whole planned training, where its finish is what counts.

    Args:
        predicted: rates over whole epochs.
        columns: of the configs.
        planned: the training to come.
        ran: trials that have shown how long configs take to start.
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

    The wait for the first batch is left out: every epoch of a predicted rate has a boundary already.
    What compiling takes is what the slowest process has shown: others may have found its code in a cache.
    """
    loops = [(one.config.compile, one.loop.startup_s + one.loop.once_s) for one in measured(trials)]
    eager_s = [start_s for compiled, start_s in loops if not compiled]
    compiled_s = [start_s for compiled, start_s in loops if compiled]
    usual_s = median(eager_s) if eager_s else 0.0
    return usual_s, max(compiled_s, default=usual_s + COMPILE_PRIOR_S)


class Acquisition:
    """Proposes configs by a throughput model; the same records always give the same proposal.

    Only what the baseline and the search tried is learnt from, so that confirmation changes no proposal.

    Args:
        space: the knobs and their values.
        host: the share of the machine that one rank can use.
        may_choose: whether a tier could choose what a trial ran; the fastest of these is to be beaten.
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
        """Return the config to try next; None when there is none.

        A config that meets the criteria comes before one that does not.

        Args:
            records: of the finished trials.
            criteria: what the trial must promise, and may cost.
            pending: configs that other hosts are measuring, in any order. They count as tried, and are
                believed to give what the model expects of them.
        """
        candidates = [record for record in records if record.role.is_candidate]
        tried = {record.config for record in candidates if record.config}
        costs = self._costs(records)
        is_open = self._untried({*tried, *pending})
        is_open &= (costs <= criteria.max_s) & self._fits_host(candidates)
        if any(one.config and one.config.compile and one.measurement for one in records):
            is_open &= ~self._columns.switches["compile"] | (costs <= criteria.max_again_s)
        is_open &= self._columns.workers <= criteria.max_workers
        fit_chances = chances_to_fit(candidates, self._columns)
        places = np.flatnonzero(is_open & (fit_chances >= _MIN_CHANCE))
        if not len(places):
            return None
        chances = fit_chances * chances_to_run(candidates, self._columns)
        ran = [record for record in candidates if record.measurement is not None]
        if ran:
            try:
                with np.errstate(all="ignore"):  # figures beyond all bounds end as infinities
                    unheard = self._places_of(set(pending).difference(tried))
                    believed = self._columns.take(unheard[chances[unheard] >= _LIKELY])
                    expected = self._expectations(ran, criteria.planned, places, believed)
                    pool = _CandidatePool(places, chances[places], costs[places], *expected)
                    own = None if ran[1:] or pending else ran[0].config
                    return self._best(pool, criteria, own)
            except np.linalg.LinAlgError:
                pass  # figures that no model explains: go on as without any
        place = self._smallest(candidates, pending, places)
        return Proposal(self.configs[place], float(costs[place]), None, None)

    def why_none(self, records: Sequence[TrialRecord]) -> str:
        """Return why there is nothing to propose, whatever the time."""
        is_open = self._untried({one.config for one in records if one.role.is_candidate and one.config})
        if not is_open.any():
            return "every config of the space was tried"
        return "no untried config is expected to fit the CPUs and the memory"

    def _expectations(
        self, ran: Sequence[TrialRecord], planned: PlannedTraining, places: Places, pending: Columns
    ) -> tuple[Prediction, Prediction, float]:
        """Return what the model expects of the configs at some places: rates, objective, best objective."""
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
        """Return the config that gains most per second, equal ones by their size; at first the fastest."""
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
        # Of what there is no time for after that, what gains more comes first, else it is never seen; not
        # for the first trial, which must leave time for its confirmation.
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
        """Return where the config stands that changes least of those nearly as fast as any eager one.

        None where other modes of the model promise more than loader and batch size.
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
        """Return the place of the smallest batch size that was not tried, all else as the script has it."""
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
        """Where each config stands among all by size; of two alike, page-locked memory comes first."""
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
        """The place of each config with page-locked memory, its own where that is not in the space."""
        return np.array(
            [
                place if config.pin_memory else self._place_of.get(config.changed(pin_memory=True), place)
                for config, place in self._place_of.items()
            ],
            dtype=np.int64,
        )

    @cached_property
    def _queues(self) -> tuple[tuple[TrainConfig, ...], Places]:
        """One config of each size of queue, and which of them each config of the space has."""
        columns = self._columns
        knobs = np.stack([columns.batch_size, columns.workers, columns.prefetch], axis=1)
        _, first, same = np.unique(knobs, axis=0, return_index=True, return_inverse=True)
        return tuple(self.configs[place] for place in first), same.reshape(-1)

    # --- what may be proposed --------------------------------------------------------------

    def _untried(self, configs: Collection[TrainConfig]) -> Flags:
        """Return which others are left; without page-locked memory only beside one that was tried with."""
        tried = np.zeros(len(self.configs), dtype=bool)
        tried[self._places_of(configs)] = True
        is_twin = self._pinned_twin != np.arange(len(tried))
        return np.asarray(~tried & (~is_twin | tried[self._pinned_twin]))

    def _places_of(self, configs: Iterable[TrainConfig]) -> Places:
        """Return where the configs stand that the space has, in the space's order."""
        found = (self._place_of.get(config) for config in configs)
        return np.array(sorted(place for place in found if place is not None), dtype=np.int64)

    def _fits_host(self, candidates: Sequence[TrialRecord]) -> Flags:
        configs, same = self._queues
        return np.asarray(fits_host(candidates, self._host, configs)[same])

    def _costs(self, records: Sequence[TrialRecord]) -> Floats:
        """Return the seconds that a trial of each config is taken to need: more where it compiles."""
        eager_s, compiled_s = durations_s(records)
        return np.where(self._columns.switches["compile"], compiled_s, eager_s)


def _changes(config: TrainConfig, baseline: TrainConfig) -> int:
    """Return how many knobs a config sets otherwise than the baseline."""
    return sum(getattr(config, knob) != getattr(baseline, knob) for knob in KNOBS)


class _CandidatePool(NamedTuple):
    """What may be proposed, one entry per config, and what the model expects of it."""

    places: Places
    chances: Floats
    costs: Floats
    rates: Prediction
    objective: Prediction
    """The rates, or those of the whole planned training where its finish counts."""
    best_log_rate: float
    """The objective's, of configs that were tried and may be chosen, or are pending, as the model has it."""


def all_configs(space: Sequence[KnobSpace]) -> tuple[TrainConfig, ...]:
    """Return every config of a space once, in order."""
    values = {entry.knob: entry.values for entry in space if entry.is_searched}
    chosen = (dict(zip(values, one, strict=True)) for one in itertools.product(*values.values()))
    return tuple(dict.fromkeys(config_from(one, space) for one in chosen))


def _as_one_trial_tells(prediction: Prediction) -> Prediction:
    """Return the prediction with the deviation that one trial can take off it, being noisy itself."""
    variance = prediction.deviation**2
    return replace(prediction, deviation=variance / np.sqrt(variance + STEP_NOISE**2))


def expected_improvement(prediction: Prediction, best: float) -> Floats:
    """Return by what share each config is expected to better the best rate, misses counted as nothing.

    Args:
        prediction: of the configs.
        best: natural logarithm of the best rate so far.
    """
    deviation = np.maximum(prediction.deviation, 1e-9)
    ahead = (prediction.log_rate - best) / deviation
    density = np.exp(-0.5 * ahead**2) / math.sqrt(2 * math.pi)
    below = 0.5 * np.array([math.erfc(-one / math.sqrt(2)) for one in ahead])
    return np.asarray((prediction.log_rate - best) * below + deviation * density)
