"""Samples/s of every trial: against batch size, beside what either half allows, and in their order. Pure."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import fmean

from tunekit.records.config import TrainConfig
from tunekit.records.measurement import Measurement
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.report.blocks import Basis, Chart, Point, Series
from tunekit.report.charts.trials import (
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
"""A ceiling so many times above every rate binds nothing, and would press all else to the floor."""


def throughput_chart(run: Run) -> Chart:
    """Return the rates of a run against the batch size per device; all of them of all ranks together."""
    marked = marked_configs(run)
    rates = [one.rate_samples_per_s or 0.0 for one in run.trials]
    top = _FAR * max((rate for rate in rates if math.isfinite(rate)), default=0.0)
    drawn, far = _up_to([*_training_alone(run), _loader_alone(run), _loader_limits(run, marked)], top)
    measured = [one for one in run.trials if one.measurement is not None]
    kept = [one for one in measured if not one.is_abandoned]
    given_up = [one for one in measured if one.is_abandoned]
    series = [
        Series("trials", Basis.MEASURED, tuple(map(_trial_point, kept))),
        Series("abandoned", Basis.MEASURED, tuple(map(_trial_point, given_up))),
        *drawn,
        *failure_series(run.trials, lambda one: one.config.batch_size if one.config else None),
        *(_marked_series(one) for one in marked),
    ]
    return Chart(
        id="throughput",
        title="Throughput against batch size",
        summary=f"{_rates_text(marked)}{far}",
        x_title="batch size per device" if run.world_size > 1 else "batch size",
        y_title="samples/s",
        series=tuple(one for one in series if one.points),
        x_is_log=True,
    )


def _rates_text(marked: Sequence[Marked]) -> str:
    rates = [
        f"{one.name} {interval_text(one.rate, ' samples/s')} at batch {one.config.batch_size:,}"
        for one in marked
        if one.rate is not None
    ]
    return f"Means of fresh processes with their 95% range: {'; '.join(rates) or UNKNOWN}."


def _trial_point(record: TrialRecord) -> Point:
    size = record.config.batch_size if record.config else math.nan
    return samples_point(size, record.rate_samples_per_s or 0.0, trial_note(record))


def _marked_series(marked: Marked) -> Series:
    if marked.rate is None:
        return Series(marked.name, Basis.MEASURED, ())
    point = rate_point(marked.config.batch_size, marked.rate, config_text(marked.config))
    return Series(marked.name, Basis.MEASURED, (point,), stands_out=True)


def _training_alone(run: Run) -> list[Series]:
    """Return a line for each arithmetic: the training on one batch over and over, without its loader."""
    seen: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for config, measurement in _measured(run):
        details, ranks = measurement.details, measurement.loop.world_size
        sizes = details.sizes.sizes if details and details.sizes else ()
        for one in sizes:
            seen[_mode(config)][one.batch_size].append(ranks * one.batch_size / one.step_s)
        if compute_s := measurement.isolated.compute_step_s:
            seen[_mode(config)][config.batch_size].append(ranks * config.batch_size / compute_s)
    return [
        Series(
            f"training alone {mode}",
            Basis.MEASURED,
            tuple(samples_point(size, fmean(rates)) for size, rates in sorted(by_size.items())),
            "line",
        )
        for mode, by_size in seen.items()
    ]


def _loader_alone(run: Run) -> Series:
    points = []
    for config, measurement in _measured(run):
        if loader_s := measurement.isolated.loader_step_s:
            rate = measurement.loop.world_size * config.batch_size / loader_s
            points.append(samples_point(config.batch_size, rate, config_text(config)))
    return Series("loader alone", Basis.MEASURED, tuple(points))


def _loader_limits(run: Run, marked: Iterable[Marked]) -> Series:
    """Return what the model says that the loader of the baseline and of each tier allows.

    Left out is what the measured rate refutes.
    """
    rates = {
        one.tier.value if one.tier else "baseline": one.loader_samples_per_s
        for one in (run.model.limits if run.model else ())
        if (one.loader_samples_per_s or 0.0) >= one.measured_samples_per_s
    }
    points = []
    for one in marked:
        rate = next((rates[name] for name in one.names if rates.get(name) is not None), None)
        if rate is not None:
            points.append(samples_point(one.config.batch_size, rate, f"of {one.name}"))
    return Series("loader ceiling", Basis.PREDICTED, tuple(points))


def _measured(run: Run) -> list[tuple[TrainConfig, Measurement]]:
    return [(one.config, one.measurement) for one in run.trials if one.config and one.measurement]


def _mode(config: TrainConfig) -> str:
    flags = [name for name in ("channels_last", "compile") if getattr(config, name)]
    return " ".join((config.precision.value, *flags))


def _up_to(ceilings: Iterable[Series], top: float) -> tuple[list[Series], str]:
    """Return the ceilings that are near the rates, and a sentence on those that are not."""
    near, far = [], []
    for one in ceilings:
        near.append(
            Series(one.name, one.basis, tuple(point for point in one.points if point.y <= top), one.mark)
        )
        above = [point for point in one.points if point.y > top]
        texts = [f"{point.text} at batch {point.x:,}" for point in above if not isinstance(point.x, str)]
        far += [f"{one.name} ({one.basis.value}) {', '.join(texts)}"] if texts else []
    return near, f" Far above and not drawn: {'; '.join(far)}." if far else ""


# --- trial by trial --------------------------------------------------------------------------

_NAMES = {
    TrialRole.BASELINE: "baseline",
    TrialRole.SEARCH: "search",
    TrialRole.CONFIRM: "confirmation",
    TrialRole.NUMERICS: "loss check",
    TrialRole.TRACE: "traced",
    TrialRole.ABLATION: "with a knob put back",
}


def history_chart(run: Run) -> Chart:
    """Return the rates of the trials in the order in which they ran; those that failed as crosses."""
    by_name: dict[str, list[Point]] = defaultdict(list)
    for record in (one for one in run.trials if one.measurement is not None):
        name = "abandoned" if record.is_abandoned else _NAMES[record.role]
        if record.role is TrialRole.CONFIRM and record.is_baseline_config:
            name = _NAMES[TrialRole.BASELINE]
        by_name[name].append(
            samples_point(record.number, record.rate_samples_per_s or 0.0, trial_note(record))
        )
    steps = best_so_far(run.trials)
    series = (
        Series("best so far", Basis.MEASURED, tuple(steps), "steps"),
        *(Series(name, Basis.MEASURED, tuple(points)) for name, points in by_name.items()),
        *failure_series(run.trials, lambda record: record.number),
    )
    return Chart(
        id="history",
        title="The search, trial by trial",
        summary=_history_text(steps, len(run.trials)),
        x_title="trial",
        y_title="samples/s",
        series=tuple(one for one in series if one.points),
    )


def best_so_far(records: Sequence[TrialRecord]) -> list[Point]:
    """Return the best rate whenever a trial raised it, and at the last trial.

    Of the baseline and the search's own trials: a confirming process is another draw of a known config, and
    one that was abandoned no rate to choose by.
    """
    points: list[Point] = []
    best = 0.0
    for record in records:
        rate = record.rate_samples_per_s or 0.0
        if record.role.is_candidate and not record.is_abandoned and rate > best:
            best = rate
            points.append(samples_point(record.number, rate, trial_note(record)))
    if points and records[-1].number != points[-1].x:
        points.append(replace(points[-1], x=records[-1].number))
    return points


def _history_text(steps: Sequence[Point], trials: int) -> str:
    count = count_text(trials, "trial")
    if not steps:
        return f"{count}, none of the search measured."
    return f"{count}; best of the search: {steps[-1].text} ({steps[-1].note})."
