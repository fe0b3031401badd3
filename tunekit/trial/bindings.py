"""How a config reaches the training process."""

from collections.abc import Mapping

from tunekit.records.agent_messages import KnobsAsked
from tunekit.records.config import TrainConfig

INJECTED_KNOBS = (
    "batch_size",
    "num_workers",
    "prefetch_factor",
    "pin_memory",
    "persistent_workers",
    "compile",
    "precision",
    "channels_last",
)
"""Knobs that the agent can set inside the process."""

MODEL_KNOBS = ("compile", "precision", "channels_last")
"""Of these, the ones that are applied to the roots."""


def knobs_to_inject(config: TrainConfig, baseline: TrainConfig) -> KnobsAsked:
    """Return what the agent has to set: only what differs from the script as it is."""
    wanted: Mapping[str, object] = config.model_dump()
    present = baseline.model_dump()
    return KnobsAsked.model_validate(
        {name: wanted[name] for name in INJECTED_KNOBS if wanted[name] != present[name]}
    )
