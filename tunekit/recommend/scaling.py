"""One tier on 1, 2, 4 and 8 GPUs of one host: batch, workers, RAM and learning rate. All predicted."""

from tunekit.recommend.learning_rate import BaseLearningRate, global_batch
from tunekit.records.recommendation import LearningRateRule, Recommendation, ScalingRow

GPU_COUNTS = (1, 2, 4, 8)

MAX_LINEAR_BATCH = 8192
"""Global batch up to which the linear rule was shown to hold: ResNet-50, Goyal et al. 2017."""

MAX_SQRT_FACTOR = 10
"""Growth of the batch at which k x (1 - beta1) reaches 1 for Adam's usual beta1 of 0.9."""


def scaling_rows(of: Recommendation, base: BaseLearningRate | None) -> tuple[ScalingRow, ...]:
    """Return the tier's config on 1, 2, 4 and 8 GPUs of one host, one training process per GPU.

    Args:
        of: the tier's recommendation, with the memory of one device's processes.
        base: learning rate that scaling starts from, None if unknown.
    """
    rows = []
    for gpus in GPU_COUNTS:
        total_batch = global_batch(of.config, gpus)
        rows.append(
            ScalingRow(
                tier=of.tier,
                gpus=gpus,
                total_batch=total_batch,
                total_workers=gpus * of.config.num_workers,
                buffer_bytes=gpus * of.buffer_bytes,
                ram_bytes=gpus * of.ram_bytes,
                lr_linear=base.scaled(total_batch, LearningRateRule.LINEAR) if base else None,
                lr_sqrt=base.scaled(total_batch, LearningRateRule.SQRT) if base else None,
            )
        )
    return tuple(rows)


def batch_warnings(total_batch: int, base_batch: int | None, rule: LearningRateRule | None) -> list[str]:
    """Return warnings if the learning-rate rule isn't known to hold for a global batch."""
    if rule is LearningRateRule.LINEAR and total_batch > MAX_LINEAR_BATCH:
        return [
            f"global batch {total_batch} is above {MAX_LINEAR_BATCH}, "
            "beyond what the source of the linear rule shows"
        ]
    if rule is LearningRateRule.SQRT and base_batch and total_batch >= MAX_SQRT_FACTOR * base_batch:
        return [
            f"global batch {total_batch} is {total_batch / base_batch:.3g} times the base of {base_batch}; "
            f"the square-root rule fails as this nears 1 / (1 - beta1), {MAX_SQRT_FACTOR} at beta1 0.9"
        ]
    return []
