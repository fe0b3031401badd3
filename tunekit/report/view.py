"""Every number and sentence that a report shows, computed once from the run. Pure.

Terminal and files draw this view; none of them computes a figure of its own.
"""

import shlex
from dataclasses import dataclass

from tunekit.memory.ram import buffer_bytes, ram_verdict
from tunekit.recommend.largest import largest_line, largest_of, peak_reserved_bytes
from tunekit.recommend.learning_rate import global_batch, rule_of
from tunekit.recommend.loss_guard import guarded_modes, losses_line
from tunekit.recommend.noise import mean_interval, verdict
from tunekit.recommend.planned_training import planned_training
from tunekit.recommend.tiers import base_ram_bytes
from tunekit.records.config import LOADER_KNOBS, MODEL_KNOBS, TrainConfig
from tunekit.records.finding import Severity
from tunekit.records.host import Host
from tunekit.records.measurement import Interval
from tunekit.records.recommendation import LearningRateRule, Recommendation, Tier
from tunekit.records.run import Objective, Run, RunStatus
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord, TrialRole
from tunekit.report.ceilings import ceilings_passage
from tunekit.report.commands import command_text
from tunekit.report.findings import FindingView, finding_view
from tunekit.report.table import Passage, Table
from tunekit.report.telemetry import telemetry_table
from tunekit.report.text import (
    Note,
    interval_text,
    is_too_wide,
    printable,
    speedup_text,
    target_text,
    value_text,
)
from tunekit.units import bytes_text, count_text, duration_text, rate_text

_ACCUMULATION = "accumulate_grad_batches"
_SHOWN_KNOBS = (*LOADER_KNOBS, *MODEL_KNOBS, _ACCUMULATION)
_LABELS = {_ACCUMULATION: "accumulate"}
"""Shorter names, for tables."""


@dataclass(frozen=True)
class RunView:
    """What a report shows, in its order."""

    answer: str
    """The result in one or two sentences."""
    how_measured: str
    losses: str
    """What other arithmetic did to the losses, in one line; empty where none was run."""
    largest: str
    """What the data set's largest samples mean for the tiers, in one line; empty where sizes do not vary."""
    changes: tuple[str, ...]
    """What to change, "knob: before -> after"."""
    tiers: Table
    ceilings: Passage
    """What holds the rate of the baseline and of the best config; without lines where nothing tells."""
    telemetry: Table
    scaling: Table
    findings: tuple[FindingView, ...]
    """Of the machine, the loop and the search."""
    notes: tuple[Note, ...]
    """What failed."""
    next_steps: tuple[str, ...]


def view(run: Run, folder: str = "FOLDER") -> RunView:
    """Return everything that a report of this run shows.

    Args:
        run: the saved run.
        folder: where it lies, for the commands that come next.
    """
    best = best_recommendation(run)
    return RunView(
        answer=_answer(run, best),
        how_measured=_how_measured(run),
        losses=losses_line(guarded_modes(run.trials)),
        largest=largest_line(run.recommendations),
        changes=_changes(run, best),
        tiers=_tiers(run),
        ceilings=ceilings_passage(run, best),
        telemetry=telemetry_table(run, best),
        scaling=_scaling(run, best),
        findings=tuple(finding_view(finding) for finding in run.findings),
        notes=tuple(Note(Severity.INFO, line) for line in _failures(run)),
        next_steps=_next_steps(run, best, folder),
    )


def best_recommendation(run: Run) -> Recommendation | None:
    """Return the recommendation that the answer speaks of: Balanced, else the nearest tier."""
    by_tier = {recommendation.tier: recommendation for recommendation in run.recommendations}
    order = (Tier.BALANCED, Tier.CONSERVATIVE, Tier.AGGRESSIVE)
    return next((by_tier[tier] for tier in order if tier in by_tier), None)


def _answer(run: Run, best: Recommendation | None) -> str:
    if best is None:
        failed = sum(record.failure is not None for record in run.trials)
        trials = f"{count_text(len(run.trials), 'trial')}, {failed} of them failed"
        return f"No recommendation yet: {trials} (status: {run.status})."
    name = best.tier.value.capitalize()
    rate = interval_text(best.rate_samples_per_s, " samples/s")
    if best.is_baseline:
        tried = sum(
            record.role is TrialRole.SEARCH and record.measurement is not None for record in run.trials
        )
        if not tried and any(_searched_and_failed(record) for record in run.trials):
            return f"No other config could be measured: every one that was tried failed. Your own: {rate}."
        if not tried:
            return f"No other config was measured in this budget; give a longer --budget. Your own: {rate}."
        return f"Keep what you have: no measured config beats your own beyond the noise. {name}: {rate}."
    if best.speedup is None:
        if run.baseline is not None and run.baseline.measurement is not None:
            return (
                f"{name}: {rate}; speed-up n/a: too few rounds to compare with your baseline (--confirm 3)."
            )
        return f"{name}: {rate}; speed-up n/a, because the baseline could not be measured here."
    judged = verdict(best.speedup, run.noise_floor)
    if run.options.objective is Objective.FINISH_TIME:
        return _finish_answer(run, best, name, judged)
    if judged == "faster":
        return f"{name} is {speedup_text(best.speedup)} as fast as your baseline: {rate}."
    if judged == "slower":
        return f"{name} is slower than your baseline, {speedup_text(best.speedup)} as fast: {rate}."
    return f"{name}: {judged} from your baseline, {speedup_text(best.speedup)}: {rate}."


def _finish_answer(run: Run, best: Recommendation, name: str, judged: str) -> str:
    """Return the answer of a search for the shortest planned training."""
    assert best.speedup is not None
    times = (
        f"{duration_text(best.finish_time_s)} instead of {duration_text(_baseline_column(run).finish_time_s)}"
    )
    factor = speedup_text(best.speedup)
    if judged == "faster":
        return f"{name} finishes the planned training {factor} as fast as your baseline: {times}."
    if judged == "slower":
        return f"{name} finishes the planned training later than your baseline, {factor} as fast: {times}."
    return f"{name}: {judged} from your baseline in the planned training, {factor}: {times}."


def _searched_and_failed(record: TrialRecord) -> bool:
    """Return whether a config of the search was run and failed; one that was refused was not run."""
    refused = record.failure is not None and record.failure.kind is OutcomeKind.REFUSED
    return record.role is TrialRole.SEARCH and record.failure is not None and not refused


def _failures(run: Run) -> tuple[str, ...]:
    """Return what failed, a line for each kind, with its first message and remedy."""
    by_kind: dict[OutcomeKind, list[Failure]] = {}
    for record in run.trials:
        if record.failure is not None and record.failure.kind is not OutcomeKind.REFUSED:
            by_kind.setdefault(record.failure.kind, []).append(record.failure)
    lines = []
    for kind, failures in by_kind.items():
        first = failures[0]
        trials = count_text(len(failures), "trial")
        remedy = f"; {first.remedy}" if first.remedy else ""
        lines.append(printable(f"{trials} of {len(run.trials)} ended as {kind}: {first.message}{remedy}"))
    return tuple(lines)


def _how_measured(run: Run) -> str:
    device = printable(run.measured_on)
    noise = run.noise_floor
    floor = (
        f"A/A noise floor {noise.relative:.1%} over {noise.processes} fresh baseline processes"
        if noise
        else "A/A noise floor n/a"
    )
    best = best_recommendation(run)
    rounds = count_text(len(best.confirm_trials) if best else 0, "interleaved round")
    trials = count_text(len(run.trials), "trial")
    abandoned = sum(record.is_abandoned for record in run.trials)
    if abandoned:
        trials += f" ({abandoned} abandoned early as too slow)"
    return (
        f"Measured on {device} in {trials}, {duration_text(run.search_time_s)}; rates and speed-ups from "
        f"{rounds} of fresh processes (95% intervals); {floor}."
    )


def _changes(run: Run, best: Recommendation | None) -> tuple[str, ...]:
    baseline = run.baseline_config
    if best is None or baseline is None:
        return ()
    before, after = baseline.model_dump(), best.config.model_dump()
    return tuple(
        f"{knob}: {value_text(before[knob])} -> {value_text(after[knob])}"
        for knob in _SHOWN_KNOBS
        if before[knob] != after[knob]
    )


@dataclass(frozen=True)
class _Column:
    """What the tier table shows of the baseline or of one tier."""

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
    same_as: str


def _tiers(run: Run) -> Table:
    """The tiers side by side with the baseline, a row per knob or figure."""
    columns = [_baseline_column(run), *(_tier_column(one, run) for one in run.recommendations)]
    knobs = [column.config.model_dump() if column.config else {} for column in columns]
    accumulates = any(values.get(_ACCUMULATION, 1) != 1 for values in knobs)
    rows = [
        (_LABELS.get(knob, knob), *(value_text(values.get(knob)) for values in knobs))
        for knob in _SHOWN_KNOBS
        if knob != _ACCUMULATION or accumulates
    ]
    speedup = "speed-up" if run.options.objective is Objective.RATE else "speed-up of run"
    rows += [
        ("samples/s", *(rate_text(column.samples_per_s) for column in columns)),
        ("it/s", *(rate_text(column.it_per_s) for column in columns)),
        (speedup, *(column.speedup for column in columns)),
        ("  95% range", *(column.speedup_range for column in columns)),
        ("epoch", *(duration_text(column.epoch_time_s) for column in columns)),
    ]
    if any(column.finish_time_s is not None for column in columns):
        rows.append(("planned run", *(duration_text(column.finish_time_s) for column in columns)))
    rows.append(("buffer (predicted)", *(column.buffer for column in columns)))
    if any(column.reserved_bytes is not None for column in columns):
        rows.append(("VRAM reserved", *(bytes_text(column.reserved_bytes) for column in columns)))
    rows.append(("lr (by rule)", *(_lr_text(column.lr) for column in columns)))
    if any(column.same_as for column in columns):
        rows.append(("same as", *(column.same_as for column in columns)))
    titles = ("", *(column.title for column in columns))
    return Table("Tiers (measured)", titles, tuple(rows), tuple(range(1, len(titles))))


def _baseline_column(run: Run) -> _Column:
    """The baseline by its fresh confirming processes, or by its one trial while there are none."""
    confirm = [
        record.measurement
        for record in run.trials
        if record.round is not None and record.is_baseline_config and record.measurement
    ]
    first = run.baseline.measurement if run.baseline else None
    measured = confirm or ([first] if first else [])
    loops = [one.loop for one in measured]
    rate = mean_interval([loop.rate_samples_per_s for loop in loops]).value if loops else None
    epoch_samples = loops[0].epoch_samples_total if loops else None
    planned = planned_training(run.options, run.trials)
    config = run.baseline_config
    buffer = "n/a"
    if config and loops:
        base_bytes = base_ram_bytes(first) if first else 0
        largest, usual = largest_of(measured), loops[0].bytes_per_sample
        per_sample = max(usual, (largest.batch_bytes or 0) / config.batch_size if largest else 0.0)
        shared = loops[0].shared_bytes_per_sample * per_sample / usual if usual else 0.0
        buffer = _buffer_text(config, per_sample, base_bytes, run.rank_host, shared)
    return _Column(
        title="baseline",
        config=config,
        samples_per_s=rate,
        it_per_s=mean_interval([loop.epoch_it_per_s for loop in loops]).value if loops else None,
        speedup="1" if loops else "n/a",
        speedup_range="",
        epoch_time_s=epoch_samples / rate if epoch_samples and rate else None,
        finish_time_s=planned.mean_finish_time_s(config, loops),
        buffer=buffer,
        reserved_bytes=max((peak_reserved_bytes(one) or 0 for one in measured), default=0) or None,
        lr=next((one.learning_rate.base_lr for one in run.recommendations if one.learning_rate), None),
        same_as="",
    )


def _tier_column(tier: Recommendation, run: Run) -> _Column:
    per_sample = tier.buffered_bytes_per_sample or 0.0
    loops = (r.measurement.loop for r in run.trials if r.measurement and r.number == tier.search_trial)
    loop = next((loop for loop in loops if loop.batch), None)
    shared = loop.shared_bytes_per_sample if loop else None
    if loop and shared is not None and tier.largest and per_sample > loop.bytes_per_sample > 0:
        shared *= per_sample / loop.bytes_per_sample
    own = tier.is_baseline and tier.speedup is not None
    return _Column(
        title=tier.tier.value,
        config=tier.config,
        samples_per_s=tier.rate_samples_per_s.value,
        it_per_s=tier.it_per_s.value,
        speedup="1" if own else (f"{tier.speedup.value:.2f}x" if tier.speedup else "n/a"),
        speedup_range="" if own else _range_text(tier.speedup),
        epoch_time_s=tier.epoch_time_s,
        finish_time_s=tier.finish_time_s,
        buffer=_buffer_text(tier.config, per_sample, tier.base_ram_bytes, run.rank_host, shared),
        reserved_bytes=tier.peak_reserved_bytes,
        lr=tier.learning_rate.value if tier.learning_rate else None,
        same_as=tier.same_as.value if tier.same_as else "",
    )


def _buffer_text(
    config: TrainConfig, bytes_per_sample: float, base_bytes: int, host: Host, shared_per_sample: float | None
) -> str:
    """Return the RAM buffer with its verdict for this host; 0 B needs none."""
    buffered_bytes = buffer_bytes(config, config.batch_bytes(bytes_per_sample))
    if not buffered_bytes:
        return bytes_text(0)
    verdict_here = ram_verdict(config, bytes_per_sample, base_bytes, host, shared_per_sample)
    return f"{bytes_text(buffered_bytes)} {verdict_here}"


def _range_text(interval: Interval | None) -> str:
    if interval is None:
        return "n/a"
    return "too wide" if is_too_wide(interval) else f"{interval.low:.2f} to {interval.high:.2f}"


def _lr_text(lr: float | None) -> str:
    return "n/a" if lr is None else f"{lr:.4g}"


def _scaling(run: Run, best: Recommendation | None) -> Table:
    """The multi-GPU table of the tier that the answer speaks of."""
    discovery = next((record.discovery for record in run.trials if record.discovery), None)
    rule = rule_of(discovery)
    linear = "lr linear" + (" *" if rule is LearningRateRule.LINEAR else "")
    sqrt = "lr sqrt" + (" *" if rule is LearningRateRule.SQRT else "")
    rows = [
        (
            str(row.gpus),
            f"{row.total_batch:,}",
            str(row.total_workers),
            bytes_text(row.buffer_bytes),
            bytes_text(row.ram_bytes),
            _lr_text(row.lr_linear),
            _lr_text(row.lr_sqrt),
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
    )


def _next_steps(run: Run, best: Recommendation | None, folder: str) -> tuple[str, ...]:
    if best is None or run.status is not RunStatus.FINISHED:
        return (f"tunekit search --resume {shlex.quote(folder)}",)
    steps = []
    if run.is_emulated:
        steps.append(f"on a machine with {run.profile.device_names[0]}: {_again(run)}")
    if run.target.builtin:
        steps.append("on your own script: tunekit search -- python train.py")
    else:
        steps += _training_steps(run, best, f"{folder}/{best.tier.value}.yaml")
    return tuple(steps)


def _again(run: Run) -> str:
    """Return the command of the same search."""
    asked = run.options
    flags = []
    for one in asked.ranges:
        flags += ["--range", f"{one.knob}={one.low}..{one.high}"]
    if asked.global_batch is not None:
        flags += ["--global-batch", str(asked.global_batch)]
    if asked.objective is not Objective.RATE:
        flags += ["--objective", asked.objective.value]
    if asked.planned_steps is not None:
        flags += ["--planned-steps", str(asked.planned_steps)]
    if asked.epochs_given:
        flags += ["--epochs", str(asked.epochs)]
    return command_text("search", run.target, asked.gpu, flags, asked.fixed)


def _training_steps(run: Run, best: Recommendation, config: str) -> list[str]:
    """Return how to train with the best config."""
    if best.is_baseline:
        return [f"train as before: {target_text(run.target)}"]
    command = f"tunekit run {shlex.quote(config)}"
    baseline = run.baseline_config
    if baseline is None or global_batch(best.config) == global_batch(baseline) or run.target.is_bound("lr"):
        return [command]
    lr = f"set lr to {best.learning_rate.value:.4g}" if best.learning_rate else "choose an lr"
    return [f"{lr} in your script for the new batch, or bind it (--bind), then:", f"{command} --keep-lr"]
