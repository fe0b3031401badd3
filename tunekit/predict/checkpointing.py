"""What gradient checkpointing of a model's blocks gives and costs, in words. Pure."""

from tunekit.records.prediction import CheckpointingPredicted
from tunekit.units import count_text

EXTRA_TIME = "a third"
"""Of its time, by which a step takes longer at most: one more forward, where backward is two of them."""
SOURCE = "Chen et al. 2016, arXiv 1604.06174"


def cost_text(extra_flops: float | None) -> str:
    """Return the cost of a step: of its time by the rule, of its arithmetic by the trace.

    Args:
        extra_flops: share by which a step was traced to have more; None where it was not.
    """
    traced = "" if extra_flops is None else f"; {extra_flops:.0%} more arithmetic by the trace"
    return f"for up to {EXTRA_TIME} more time a step (one more forward, {SOURCE}{traced})"


def blocks_text(of: CheckpointingPredicted) -> str:
    """Return what is checkpointed, such as "12 blocks (GptBlock)"."""
    names = f" ({', '.join(of.names)})" if of.names else ""
    return f"{count_text(of.blocks, 'block')}{names}"
