"""The tiers side by side with the baseline, on one GPU and on several. Pure."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from tunekit.recommend.learning_rate import rule_of
from tunekit.recommend.memory import RamBuffer, measured_sample, peak_reserved_bytes, ram_buffer, tier_sample
from tunekit.recommend.noise import mean_of_known
from tunekit.recommend.planned_training import planned_training
from tunekit.recommend.tiers import base_ram_bytes
from tunekit.records.config import TrainConfig
from tunekit.records.measurement import samples_of_epoch
from tunekit.records.recommendation import (
    LearningRateRule,
    Recommendation,
    ScalingRow,
)
from tunekit.records.run import Objective, Run
from tunekit.report.blocks import Basis, Column, Table, changed_cells, predicted_rows, table_of
from tunekit.report.text import config_text, factor_text, knob_rows, range_text
from tunekit.units import bytes_text, duration_text, rate_text


@dataclass(frozen=True)
class TierColumn:
    """What the tier table shows of the baseline, or of a tier and of all those with the same config."""

    title: str
    config: TrainConfig | None
    samples_per_s: float | None
    speedup: str
    speedup_range: str
    epoch_time_s: float | None
    finish_time_s: float | None
    buffer: str
    reserved_bytes: int | None
    lr: float | None


def tiers_table(run: Run) -> Table:
    """Return the tiers side by side with the baseline, a row per knob or figure; equal tiers as one."""
    columns = _columns(run)
    knobs = knob_rows([column.config for column in columns])
    speedup = "speedup" if run.options.objective is Objective.RATE else "speedup of run"
    figures: dict[str, Callable[[TierColumn], str]] = {
        "samples/s": lambda one: rate_text(one.samples_per_s),
        speedup: lambda one: one.speedup,
        "  95% range": lambda one: one.speedup_range,
        "epoch": lambda one: duration_text(one.epoch_time_s),
        "planned run (predicted)": lambda one: duration_text(one.finish_time_s),
        "buffer (predicted)": lambda one: one.buffer,
        "VRAM reserved": lambda one: bytes_text(one.reserved_bytes),
        "lr (predicted)": lambda one: lr_text(one.lr),
    }
    if all(one.finish_time_s is None for one in columns):
        del figures["planned run (predicted)"]
    if all(one.reserved_bytes is None for one in columns):
        del figures["VRAM reserved"]
    rows = [*knobs, *((label, *map(text, columns)) for label, text in figures.items())]
    titles = ("", *(column.title for column in columns))
    return Table(
        "Tiers (measured)",
        titles,
        tuple(rows),
        tuple(range(1, len(titles))),
        Basis.MEASURED,
        predicted_rows=predicted_rows(rows),
        changed=changed_cells(knobs) if columns[0].config else (),
    )


def short_tiers_table(run: Run) -> Table:
    """Return a row for the baseline and for each tier, with what matters most; equal tiers as one."""
    figures = (
        Column[TierColumn]("", lambda one: one.title, is_numeric=False),
        Column[TierColumn]("config", lambda one: config_text(one.config), is_numeric=False),
        Column[TierColumn]("samples/s", lambda one: rate_text(one.samples_per_s)),
        Column[TierColumn](
            "speedup (95% range)",
            lambda one: one.speedup + (f" ({one.speedup_range})" if one.speedup_range else ""),
        ),
        Column[TierColumn]("VRAM reserved", lambda one: bytes_text(one.reserved_bytes), is_optional=True),
        Column[TierColumn]("buffer (predicted)", lambda one: one.buffer),
    )
    return table_of("Tiers (measured)", figures, _columns(run), basis=Basis.MEASURED)


def _columns(run: Run) -> list[TierColumn]:
    names: dict[TierColumn, list[str]] = {}
    for tier in run.recommendations:
        names.setdefault(tier_column(tier, run), []).append(tier.tier.value)
    # The answer's column comes first: a narrow screen shows the baseline and one more.
    answering = run.outcome.tier or ""
    in_order = sorted(names.items(), key=lambda item: answering not in item[1])
    return [baseline_column(run), *(replace(one, title=" = ".join(titles)) for one, titles in in_order)]


def baseline_column(run: Run) -> TierColumn:
    """Return the baseline by its fresh confirming processes, or by its one trial while there are none."""
    measured = [one.measurement for one in run.history.evidence(None)]
    loops = [one.loop for one in measured]
    rate = mean_of_known([loop.rate_samples_per_s for loop in loops])
    epoch_samples = samples_of_epoch(loops)
    config = run.baseline_config
    buffer = "n/a"
    if config and loops:
        base_bytes = max(base_ram_bytes(one) for one in measured)
        buffer = _buffer_text(
            ram_buffer(config, measured_sample(config, measured), base_bytes, run.rank_host)
        )
    return TierColumn(
        title="baseline",
        config=config,
        samples_per_s=rate.value if rate else None,
        speedup="1" if loops else "n/a",
        speedup_range="",
        epoch_time_s=epoch_samples / rate.value if epoch_samples and rate else None,
        finish_time_s=planned_training(run.options, run.trials).mean_finish_time_s(config, loops),
        buffer=buffer,
        reserved_bytes=max((peak_reserved_bytes(one) or 0 for one in measured), default=0) or None,
        lr=next((one.learning_rate.base_lr for one in run.recommendations if one.learning_rate), None),
    )


def tier_column(tier: Recommendation, run: Run) -> TierColumn:
    """Return a tier's figures, without a title: tiers with the same config have the same column."""
    is_own = tier.is_baseline and tier.speedup is not None
    return TierColumn(
        title="",
        config=tier.config,
        samples_per_s=tier.rate_samples_per_s.value,
        speedup="1" if is_own else factor_text(tier.speedup.value if tier.speedup else None),
        speedup_range="" if is_own else range_text(tier.speedup),
        epoch_time_s=tier.epoch_time_s,
        finish_time_s=tier.finish_time_s,
        buffer=_buffer_text(
            ram_buffer(tier.config, tier_sample(tier, run), tier.base_ram_bytes, run.rank_host)
        ),
        reserved_bytes=tier.peak_reserved_bytes,
        lr=tier.learning_rate.value if tier.learning_rate else None,
    )


def _buffer_text(buffer: RamBuffer) -> str:
    size = bytes_text(buffer.size_bytes)
    return size if buffer.verdict is None else f"{size} {buffer.verdict}"


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
