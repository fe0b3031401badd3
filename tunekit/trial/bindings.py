"""How a config reaches the training process."""

from collections.abc import Mapping

from tunekit.records.agent_messages import KnobsAsked
from tunekit.records.config import LOADER_KNOBS, MODEL_KNOBS, TrainConfig

INJECTED_KNOBS = (*LOADER_KNOBS, *MODEL_KNOBS)
"""Knobs that the agent can set inside the process."""


def knobs_to_inject(config: TrainConfig, baseline: TrainConfig) -> KnobsAsked:
    """Return what the agent has to set: only what differs from the script as it is."""
    wanted: Mapping[str, object] = config.model_dump()
    present = baseline.model_dump()
    return KnobsAsked.model_validate(
        {name: wanted[name] for name in INJECTED_KNOBS if wanted[name] != present[name]}
    )
