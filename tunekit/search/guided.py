"""Which config to try next: the one whose trial is expected to gain most per second that it costs."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tunekit.model.columns import Columns, Floats
from tunekit.model.device_memory import DeviceMemoryModel, peaks_seen
from tunekit.model.observation import observations
from tunekit.model.throughput import Prediction, ThroughputModel
from tunekit.recommend.tiers import POLICIES
from tunekit.records.config import TrainConfig
from tunekit.records.host import Host
from tunekit.records.recommendation import Tier
from tunekit.records.run import KnobSpace, KnobValue
from tunekit.records.trial import TrialRecord
from tunekit.search.confirm import expected_duration_s
from tunekit.search.space import config_from

_MOST_LOOKED_AT = 2000
"""Configs whose prediction is worked out in full."""
_SURE_OF_BEST = 0.01


@dataclass(frozen=True)
class Proposal:
    """A config to try, and why."""

    config: TrainConfig
    expected_rate_samples_per_s: float
    """Of all ranks; predicted."""
    gain: float
    """Expected improvement of the best rate by this trial, as a share."""
    cost_s: float


class Guided:
    """Proposes configs by a throughput model; the same records always give the same proposal.

    Args:
        space: the knobs and their values.
        host: the share of the machine that one rank can use.
        is_refused: whether a config would not fit by what is known.
    """

    def __init__(
        self,
        space: Sequence[KnobSpace],
        host: Host,
        is_refused: Callable[[TrainConfig], bool] = lambda config: False,
    ) -> None:
        self._space = tuple(space)
        self._host = host
        self._is_refused = is_refused

    @cached_property
    def _configs(self) -> tuple[TrainConfig, ...]:
        return all_configs(self._space)

    @cached_property
    def _columns(self) -> Columns:
        return Columns.of(self._configs)

    def propose(
        self, records: Sequence[TrialRecord], accept: Callable[[TrainConfig], bool] = lambda config: True
    ) -> Proposal | None:
        """Return the config to try next; None when there is none.

        Args:
            records: all trials so far; the first measured one sets the scale.
            accept: whether a config may be proposed at this time.
        """
        seen = observations(records)
        if not seen:
            return None
        first = next(record for record in records if record.measurement)
        assert first.measurement is not None
        loop = first.measurement.loop
        model = ThroughputModel(seen, self._host.cpus, loop.device.type == "cpu", loop.epoch_samples)
        whole = [one.config for one in seen if one.step_s is not None] or [seen[0].config]
        best = float(np.max(model.predict(whole).log_rate))
        places, told = self._looked_at(model)
        gains = expected_improvement(told, best) * self._chances_to_fit(records, loop.device.memory_bytes)
        costs = np.array([expected_duration_s(records, self._configs[place]) for place in places])
        tried = {record.config for record in records if record.role.is_candidate}
        for order in np.argsort(-gains / np.maximum(costs, 1e-3), kind="stable"):
            config = self._configs[places[order]]
            if config in tried or not accept(config) or self._is_refused(config):
                continue
            rate = loop.world_size * math.exp(min(float(told.log_rate[order]), 700.0))
            return Proposal(config, rate, float(gains[order]), float(costs[order]))
        return None

    def _chances_to_fit(self, records: Sequence[TrialRecord], capacity_bytes: int | None) -> Floats:
        seen = peaks_seen(records)
        if capacity_bytes is None or all(one.reserved_bytes is None for one in seen):
            return np.ones(len(self._configs))
        share = POLICIES[Tier.AGGRESSIVE].vram_share
        return DeviceMemoryModel(seen, capacity_bytes).chance_to_fit(self._columns, share)

    def _looked_at(self, model: ThroughputModel) -> tuple[np.ndarray, Prediction]:
        return np.arange(len(self._configs)), model.predict_columns(self._columns)


def all_configs(space: Sequence[KnobSpace]) -> tuple[TrainConfig, ...]:
    """Return every config of a space once, in order."""
    searched = [entry for entry in space if entry.is_searched]
    chosen = itertools.product(*(entry.values for entry in searched))
    names = [entry.knob for entry in searched]
    configs: dict[TrainConfig, None] = {}
    for one in chosen:
        values: dict[str, KnobValue] = dict(zip(names, one, strict=True))
        configs[config_from(values, space)] = None
    return tuple(configs)


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
    return np.maximum((prediction.log_rate - best) * below + deviation * density, 0.0)
