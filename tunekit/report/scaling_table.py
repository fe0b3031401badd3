"""The multi-GPU table. Pure."""

from tunekit.recommend.learning_rate import rule_of
from tunekit.records.recommendation import LearningRateRule, Recommendation
from tunekit.records.run import Run
from tunekit.report.table import Basis, Table
from tunekit.report.tiers_table import lr_text
from tunekit.units import bytes_text


def scaling_table(run: Run, best: Recommendation | None) -> Table:
    """The multi-GPU table of the tier that the answer speaks of."""
    rule = rule_of(run.discovery)
    linear = "lr linear" + (" *" if rule is LearningRateRule.LINEAR else "")
    sqrt = "lr sqrt" + (" *" if rule is LearningRateRule.SQRT else "")
    rows = [
        (
            str(row.gpus),
            f"{row.total_batch:,}",
            str(row.total_workers),
            bytes_text(row.buffer_bytes),
            bytes_text(row.ram_bytes),
            lr_text(row.lr_linear),
            lr_text(row.lr_sqrt),
        )
        for row in run.scaling
        if best is not None and row.tier is best.tier
    ]
    starred = "; * the rule of your optimizer" if rule else ""
    tier = best.tier.value if best else "no tier"
    return Table(
        f"On several GPUs, {tier} (predicted{starred})",
        ("GPUs", "batch", "workers", "RAM buffer", "RAM per host", linear, sqrt),
        tuple(rows),
        tuple(range(7)),
        Basis.PREDICTED,
    )
