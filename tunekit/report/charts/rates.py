"""Samples/s of every trial: against batch size with loader and training alone, and in order. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean

from tunekit.records.config import TrainConfig
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import Measured, measured
from tunekit.report.blocks import Basis, Chart, Point, Series
from tunekit.report.charts.trials import (
    BASELINE,
    Marked,
    failure_series,
    marked_configs,
    rate_point,
    samples_point,
    trial_note,
)
from tunekit.report.text import UNKNOWN, config_text, interval_text
from tunekit.units import count_text

_FAR = 4.0
"""A ceiling this many times above every rate limits nothing and would flatten the rest of the chart."""


def throughput_chart(run: Run) -> Chart:
    """Return the rates of a run against the batch size per device; each rate is of all ranks together."""
    marked, trials = marked_configs(run), measured(run.trials)
    top = _FAR * max((one.measurement.rate_samples_per_s for one in trials), default=0.0)
    ceilings = (*_training_alone(trials), _loader_alone(trials))
    series = (
        _trial_series("trials", [one for one in trials if not one.record.is_abandoned]),
        _trial_series("abandoned", [one for one in trials if one.record.is_abandoned]),
        *(replace(one, points=tuple(p for p in one.points if p.y <= top)) for one in ceilings),
        *failure_series(run.trials, lambda one: one.config.batch_size if one.config else None),
        *(_marked_series(one) for one in marked),
    )
    rates = "; ".join(
        f"{one.name} {interval_text(one.rate, ' samples/s')} at batch {one.config.batch_size:,}"
        for one in marked
        if one.rate is not None
    )
    return Chart(
        id="throughput",
        title="Throughput against batch size",
        summary=f"Means of fresh processes with their 95% range: {rates or UNKNOWN}.",
        x_title="batch size per device" if run.world_size > 1 else "batch size",
        y_title="samples/s",
        series=tuple(one for one in series if one.points),
        x_is_log=True,
    )


def _trial_series(name: str, trials: Sequence[Measured]) -> Series:
    points = (
        samples_point(one.config.batch_size, one.measurement.rate_samples_per_s, trial_note(one.record))
        for one in trials
    )
    return Series(name, Basis.MEASURED, tuple(points))


def _marked_series(marked: Marked) -> Series:
    config, rate = marked.config, marked.rate
    points = () if rate is None else (rate_point(config.batch_size, rate, config_text(config)),)
    return Series(marked.name, Basis.MEASURED, points, stands_out=True)


def _training_alone(trials: Sequence[Measured]) -> Iterator[Series]:
    """Yield a line for each precision: training on one batch over and over, without the loader."""
    seen: dict[tuple[str, int], list[float]] = defaultdict(list)
    for _, config, measurement in trials:
        details = measurement.details
        sizes = details.sizes.sizes if details and details.sizes else ()
        steps = [(one.batch_size, one.step_s) for one in sizes]
        if compute_s := measurement.isolated.compute_step_s:
            steps.append((config.batch_size, compute_s))
        for size, step_s in steps:
            seen[_mode(config), size].append(measurement.loop.world_size * size / step_s)
    for mode in dict.fromkeys(mode for mode, _ in seen):
        means = sorted((size, fmean(rates)) for (each, size), rates in seen.items() if each == mode)
        points = tuple(samples_point(size, rate) for size, rate in means)
        yield Series(f"training alone {mode}", Basis.MEASURED, points, "line")


def _mode(config: TrainConfig) -> str:
    flags = [name for name in ("channels_last", "compile") if getattr(config, name)]
    return " ".join((config.precision.value, *flags))


def _loader_alone(trials: Sequence[Measured]) -> Series:
    points = []
    for _, config, measurement in trials:
        if loader_s := measurement.isolated.loader_step_s:
            rate = measurement.loop.world_size * config.batch_size / loader_s
            points.append(samples_point(config.batch_size, rate, config_text(config)))
    return Series("loader alone", Basis.MEASURED, tuple(points))


# --- trial by trial --------------------------------------------------------------------------


def history_chart(run: Run) -> Chart:
    """Return the rates of the trials in the order in which they ran; those that failed as crosses."""
    by_name: dict[str, list[Point]] = defaultdict(list)
    for record, _, measurement in measured(run.trials):
        role = BASELINE if record.is_baseline_config else record.role.value
        point = samples_point(record.number, measurement.rate_samples_per_s, trial_note(record))
        by_name["abandoned" if record.is_abandoned else role].append(point)
    steps = best_so_far(run.trials)
    series = (
        Series("best so far", Basis.MEASURED, tuple(steps), "steps"),
        *(Series(name, Basis.MEASURED, tuple(points)) for name, points in by_name.items()),
        *failure_series(run.trials, lambda record: record.number),
    )
    best = f"{steps[-1].text} ({steps[-1].note})" if steps else UNKNOWN
    return Chart(
        id="history",
        title="The search, trial by trial",
        summary=f"{count_text(len(run.trials), 'trial')}; best of the search: {best}.",
        x_title="trial",
        y_title="samples/s",
        series=tuple(one for one in series if one.points),
    )


def best_so_far(records: Sequence[TrialRecord]) -> list[Point]:
    """Return the best rate whenever a trial raised it, and at the last trial.

    Only baseline and search trials count: a confirming process repeats a known config, and the rate of an
    abandoned trial is not reliable.
    """
    points: list[Point] = []
    for record in records:
        rate = record.rate_samples_per_s or 0.0
        is_better = rate > (points[-1].y if points else 0.0)
        if record.role.is_candidate and not record.is_abandoned and is_better:
            points.append(samples_point(record.number, rate, trial_note(record)))
    if points and records[-1].number != points[-1].x:
        points.append(replace(points[-1], x=records[-1].number))
    return points
