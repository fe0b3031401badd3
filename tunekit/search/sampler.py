"""Optuna's sampler of a search: the parameters of the throughput model's proposal."""

from collections.abc import Callable, Sequence
from typing import Any, cast

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FrozenTrial

from tunekit.records.config import WORKER_KNOBS, KnobValue, TrainConfig
from tunekit.records.run import KnobSpace
from tunekit.search.guided import Proposal


class ThroughputSampler(optuna.samplers.BaseSampler):
    """Samples what the model proposes. It keeps nothing from one trial to the next.

    Optuna's trials hold rates alone; the model learns from the parts of a step, which the trial records have.
    So it is asked through a function that knows the records.

    Args:
        space: the knobs and their values.
        propose: returns the proposal for the trials so far, None when there is none.

    Attributes:
        proposal: for the trial that was asked for last.
    """

    def __init__(self, space: Sequence[KnobSpace], propose: Callable[[], Proposal | None]) -> None:
        self._searched = [entry for entry in space if entry.is_searched]
        self._propose = propose
        self.proposal: Proposal | None = None

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Work out the proposal: a trial may be asked for and then left without any parameter."""
        self.proposal = self._propose()

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the searched knobs."""
        return {entry.knob: CategoricalDistribution(entry.values) for entry in self._searched}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the proposal's parameters; none where there is no proposal."""
        return parameters_of(self.proposal.config, self._searched) if self.proposal else {}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> KnobValue:
        """Return the first value: what is no searched knob, the model knows nothing of."""
        if not isinstance(param_distribution, CategoricalDistribution):
            raise ValueError(f"only knobs with listed values can be sampled, got {param_name!r}")
        return cast(KnobValue, param_distribution.choices[0])


def parameters_of(config: TrainConfig, space: Sequence[KnobSpace]) -> dict[str, KnobValue]:
    """Return the searched knobs of a config; without workers, those that mean something."""
    values = config.model_dump()
    return {
        entry.knob: values[entry.knob]
        for entry in space
        if entry.is_searched and not (entry.knob in WORKER_KNOBS and config.num_workers == 0)
    }
