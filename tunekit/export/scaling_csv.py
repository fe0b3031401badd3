"""The multi-GPU table of all tiers as `scaling.csv`."""

import csv
import io

from tunekit.recommend.learning_rate import rule_of
from tunekit.records.recommendation import LearningRateRule, Tier
from tunekit.records.run import Run

COLUMNS = (
    "tier",
    "gpus",
    "total_batch",
    "total_workers",
    "ram_buffer_bytes",
    "ram_needed_bytes",
    "lr_linear",
    "lr_sqrt",
    "recommended_rule",
)


def scaling_csv(run: Run) -> str:
    """Return the scaling rows of all tiers as CSV with a header; what is unknown stays empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for row in run.scaling:
        rule = recommended_rule(run, row.tier)
        writer.writerow(
            (
                row.tier.value,
                row.gpus,
                row.total_batch,
                row.total_workers,
                row.buffer_bytes,
                row.ram_bytes,
                row.lr_linear,
                row.lr_sqrt,
                rule.value if rule else None,
            )
        )
    return text.getvalue()


def scaling_files(run: Run) -> dict[str, str]:
    """Return `scaling.csv`."""
    return {"scaling.csv": scaling_csv(run)}


def recommended_rule(run: Run, tier: Tier) -> LearningRateRule | None:
    """Return which learning-rate column the tier goes by, None when the optimizer has no published rule."""
    for recommendation in run.recommendations:
        if recommendation.tier is tier and recommendation.learning_rate is not None:
            return recommendation.learning_rate.rule
    return rule_of(run.discovery)
