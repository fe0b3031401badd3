"""Describes the cost of gradient checkpointing and the checkpointed blocks. Pure."""

from tunekit.records.prediction import CheckpointingPredicted
from tunekit.units import count_text

EXTRA_TIME = "a third"
"""Maximum growth of a step's time: one more forward pass, where backward takes as long as two."""
SOURCE = "Chen et al. 2016, arXiv 1604.06174"


def cost_text(extra_flops: float | None) -> str:
    """Return the cost per step: the time by a rule of thumb, the arithmetic from the trace.

    Args:
        extra_flops: the traced growth of a step's arithmetic, as a share; None if it was not traced.
    """
    traced = "" if extra_flops is None else f"; {extra_flops:.0%} more arithmetic in the trace"
    return f"for up to {EXTRA_TIME} more time a step (one more forward, {SOURCE}{traced})"


def blocks_text(of: CheckpointingPredicted) -> str:
    """Return what is checkpointed, such as "12 blocks (GptBlock)"."""
    names = f" ({', '.join(of.names)})" if of.names else ""
    return f"{count_text(of.blocks, 'block')}{names}"
