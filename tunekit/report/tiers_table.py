"""The tiers side by side with the baseline. Pure."""

from dataclasses import dataclass, replace

from tunekit.recommend.largest import peak_reserved_bytes
from tunekit.recommend.noise import mean_of_known
from tunekit.recommend.planned_training import planned_training
from tunekit.recommend.ram_buffer import RamBuffer, measured_sample, ram_buffer, tier_sample
from tunekit.recommend.tiers import base_ram_bytes
from tunekit.records.config import TrainConfig
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Objective, Run
from tunekit.report.table import Basis, Table, changed_cells, predicted_rows
from tunekit.report.text import config_text, factor_text, knob_rows, names_text, range_text
from tunekit.units import bytes_text, duration_text, rate_text


@dataclass(frozen=True)
class Column:
    """What the tier table shows of the baseline, or of a tier and of all those with the same config."""

    title: str
    config: TrainConfig | None
    samples_per_s: float | None
    it_per_s: float | None
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
    rows = list(knobs)
    speedup = "speed-up" if run.options.objective is Objective.RATE else "speed-up of run"
    rows += [
        ("samples/s", *(rate_text(column.samples_per_s) for column in columns)),
        ("it/s", *(rate_text(column.it_per_s) for column in columns)),
        (speedup, *(column.speedup for column in columns)),
        ("  95% range", *(column.speedup_range for column in columns)),
        ("epoch", *(duration_text(column.epoch_time_s) for column in columns)),
    ]
    if any(column.finish_time_s is not None for column in columns):
        rows.append(("planned run (predicted)", *(duration_text(column.finish_time_s) for column in columns)))
    rows.append(("buffer (predicted)", *(column.buffer for column in columns)))
    if any(column.reserved_bytes is not None for column in columns):
        rows.append(("VRAM reserved", *(bytes_text(column.reserved_bytes) for column in columns)))
    rows.append(("lr (predicted)", *(lr_text(column.lr) for column in columns)))
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
    columns = _columns(run)
    has_device = any(column.reserved_bytes is not None for column in columns)
    rows = []
    for column in columns:
        config = config_text(column.config)
        speedup = f"{column.speedup} ({column.speedup_range})" if column.speedup_range else column.speedup
        memory = (bytes_text(column.reserved_bytes),) if has_device else ()
        rows.append((column.title, config, rate_text(column.samples_per_s), speedup, *memory, column.buffer))
    device = ("VRAM reserved",) if has_device else ()
    titles = ("", "config", "samples/s", "speed-up (95% range)", *device, "buffer (predicted)")
    return Table("Tiers (measured)", titles, tuple(rows), tuple(range(2, len(titles))), Basis.MEASURED)


def _columns(run: Run) -> list[Column]:
    names: dict[Column, list[str]] = {}
    for tier in run.recommendations:
        names.setdefault(_tier_column(tier, run), []).append(tier.tier.value)
    return [baseline_column(run), *(replace(one, title=names_text(told)) for one, told in names.items())]


def ram_text(tier: Recommendation, run: Run) -> str:
    """Return a tier's RAM buffer with its verdict for this host."""
    return _tier_column(tier, run).buffer


def baseline_column(run: Run) -> Column:
    """The baseline by its fresh confirming processes, or by its one trial while there are none."""
    measured = [one.measurement for one in run.history.evidence(None)]
    loops = [one.loop for one in measured]
    rate = mean_of_known([loop.rate_samples_per_s for loop in loops])
    pace = mean_of_known([loop.epoch_it_per_s for loop in loops])
    epoch_samples = loops[0].epoch_samples_total if loops else None
    planned = planned_training(run.options, run.trials)
    config = run.baseline_config
    buffer = "n/a"
    if config and loops:
        base_bytes = max(base_ram_bytes(one) for one in measured)
        buffer = buffer_text(ram_buffer(config, measured_sample(config, measured), base_bytes, run.rank_host))
    return Column(
        title="baseline",
        config=config,
        samples_per_s=rate.value if rate else None,
        it_per_s=pace.value if pace else None,
        speedup="1" if loops else "n/a",
        speedup_range="",
        epoch_time_s=epoch_samples / rate.value if epoch_samples and rate else None,
        finish_time_s=planned.mean_finish_time_s(config, loops),
        buffer=buffer,
        reserved_bytes=max((peak_reserved_bytes(one) or 0 for one in measured), default=0) or None,
        lr=next((one.learning_rate.base_lr for one in run.recommendations if one.learning_rate), None),
    )


def _tier_column(tier: Recommendation, run: Run) -> Column:
    """Return a tier's figures, without a title: tiers with the same config have the same column."""
    buffer = ram_buffer(tier.config, tier_sample(tier, run), tier.base_ram_bytes, run.rank_host)
    own = tier.is_baseline and tier.speedup is not None
    return Column(
        title="",
        config=tier.config,
        samples_per_s=tier.rate_samples_per_s.value,
        it_per_s=tier.it_per_s.value,
        speedup="1" if own else factor_text(tier.speedup.value if tier.speedup else None),
        speedup_range="" if own else range_text(tier.speedup),
        epoch_time_s=tier.epoch_time_s,
        finish_time_s=tier.finish_time_s,
        buffer=buffer_text(buffer),
        reserved_bytes=tier.peak_reserved_bytes,
        lr=tier.learning_rate.value if tier.learning_rate else None,
    )


def buffer_text(buffer: RamBuffer) -> str:
    """Return the RAM buffer with its verdict for its host; 0 B needs none."""
    size = bytes_text(buffer.size_bytes)
    return size if buffer.verdict is None else f"{size} {buffer.verdict}"


def lr_text(lr: float | None) -> str:
    """Return a learning rate; "n/a" for None."""
    return "n/a" if lr is None else f"{lr:.4g}"
