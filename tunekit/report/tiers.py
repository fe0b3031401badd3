"""The tiers side by side with the baseline, on one GPU and on several. Pure."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from tunekit.recommend.learning_rate import rule_of
from tunekit.records.config import TrainConfig
from tunekit.records.recommendation import (
    ConfigFigures,
    LearningRateRule,
    MemoryNeed,
    Recommendation,
    ScalingRow,
)
from tunekit.records.run import Objective, Run
from tunekit.report.blocks import Basis, Column, Table, field_text, side_by_side, table_of
from tunekit.report.text import UNKNOWN, config_text, factor_text, knob_rows, range_text
from tunekit.units import bytes_text, duration_text, percent_text, rate_text

_EFFICIENCY = ("tokens/s", "TFLOP/s per GPU", "MFU", "J/sample")
"""Rows of the tiers' table that only some runs know."""


class _Column(NamedTuple):
    """The baseline, or a config with the tiers that recommend it."""

    title: str
    config: TrainConfig | None
    of: ConfigFigures | None
    """None where nothing of it was measured."""
    lr: float | None
    speedup: str
    speedup_range: str = ""


def tiers_table(run: Run) -> Table:
    """Return the tiers side by side with the baseline, a row per knob or figure; equal tiers as one."""
    columns = _columns(run)
    knobs = knob_rows([column.config for column in columns])
    speedup = "speedup" if run.options.objective is Objective.RATE else "speedup of run"
    figures: dict[str, Callable[[_Column], str]] = {
        "samples/s": field_text("of.rate_samples_per_s.value", rate_text),
        speedup: lambda one: one.speedup,
        "  95% range": lambda one: one.speedup_range,
        "tokens/s": field_text("of.tokens_per_s", rate_text),
        "TFLOP/s per GPU": field_text("of.flops_per_s", lambda one: rate_text(one / 1e12)),
        "MFU": field_text("of.mfu", percent_text),
        "J/sample": field_text("of.joules_per_sample", rate_text),
        "epoch": field_text("of.epoch_time_s", duration_text),
        "planned run (predicted)": field_text("of.finish_time_s", duration_text),
        "buffer (predicted)": lambda one: buffer_text(one.of),
        "VRAM reserved": field_text("of.peak_reserved_bytes", bytes_text),
        "lr (predicted)": lambda one: lr_text(one.lr),
    }
    for label in ("planned run (predicted)", "VRAM reserved", *_EFFICIENCY):
        if all(figures[label](one) == UNKNOWN for one in columns):
            del figures[label]
    rows = [(label, *map(text, columns)) for label, text in figures.items()]
    table = side_by_side("Tiers (measured)", [column.title for column in columns], rows, knobs)
    return table if columns[0].config else replace(table, changed=())


def short_tiers_table(run: Run) -> Table:
    """Return a row for the baseline and for each tier, with what matters most; equal tiers as one."""
    figures = (
        Column[_Column]("", lambda one: one.title, is_numeric=False),
        Column[_Column]("config", lambda one: config_text(one.config), is_numeric=False),
        Column[_Column]("samples/s", field_text("of.rate_samples_per_s.value", rate_text)),
        Column[_Column](
            "speedup (95% range)",
            lambda one: one.speedup + (f" ({one.speedup_range})" if one.speedup_range else ""),
        ),
        Column[_Column]("VRAM reserved", field_text("of.peak_reserved_bytes", bytes_text), is_optional=True),
        Column[_Column]("buffer (predicted)", lambda one: buffer_text(one.of)),
    )
    return table_of("Tiers (measured)", figures, _columns(run), basis=Basis.MEASURED)


def _columns(run: Run) -> list[_Column]:
    names: dict[TrainConfig, list[str]] = {}
    first: dict[TrainConfig, Recommendation] = {}
    for tier in run.recommendations:
        names.setdefault(tier.config, []).append(tier.tier.value)
        first.setdefault(tier.config, tier)
    # The answer's column comes first: a narrow screen shows the baseline and one more.
    in_order = sorted(first.values(), key=lambda one: run.outcome.tier not in names[one.config])
    base_lr = next((one.learning_rate.base_lr for one in run.recommendations if one.learning_rate), None)
    own = run.baseline_figures
    baseline = _Column("baseline", run.baseline_config, own, base_lr, "1" if own else "n/a")
    return [baseline, *(_tier_column(one, " = ".join(names[one.config])) for one in in_order)]


def _tier_column(tier: Recommendation, title: str) -> _Column:
    lr = tier.learning_rate.value if tier.learning_rate else None
    if tier.is_baseline and tier.speedup is not None:
        return _Column(title, tier.config, tier, lr, "1")
    factor = factor_text(tier.speedup.value if tier.speedup else None)
    return _Column(title, tier.config, tier, lr, factor, range_text(tier.speedup))


def buffer_text(need: MemoryNeed | None) -> str:
    """Return a loader's buffer with its verdict; "n/a" for None."""
    if need is None:
        return UNKNOWN
    return " ".join(filter(None, (bytes_text(need.buffer_bytes), need.buffer_verdict)))


def lr_text(lr: float | None) -> str:
    """Return a learning rate; "n/a" for None."""
    return "n/a" if lr is None else f"{lr:.4g}"


def scaling_table(run: Run, best: Recommendation | None) -> Table:
    """Return the multi-GPU table of the tier that the answer speaks of."""
    rule = rule_of(run.discovery)
    starred = "; * the rule of your optimizer" if rule else ""
    linear = "lr linear" + " *" * (rule is LearningRateRule.LINEAR)
    sqrt = "lr sqrt" + " *" * (rule is LearningRateRule.SQRT)
    columns = (
        Column[ScalingRow]("GPUs", lambda row: str(row.gpus)),
        Column[ScalingRow]("batch", lambda row: f"{row.total_batch:,}"),
        Column[ScalingRow]("workers", lambda row: str(row.total_workers)),
        Column[ScalingRow]("RAM buffer", lambda row: bytes_text(row.buffer_bytes)),
        Column[ScalingRow]("RAM per host", lambda row: bytes_text(row.ram_bytes)),
        Column[ScalingRow](linear, lambda row: lr_text(row.lr_linear)),
        Column[ScalingRow](sqrt, lambda row: lr_text(row.lr_sqrt)),
    )
    title = f"Multi-GPU scaling, {best.tier.value if best else 'no tier'} (predicted{starred})"
    rows = [row for row in run.scaling if best is not None and row.tier is best.tier]
    return table_of(title, columns, rows, basis=Basis.PREDICTED)
