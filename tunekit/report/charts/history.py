"""How the search went: each trial in its order, and the best so far. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.report.blocks import Basis, Chart, Point, Series
from tunekit.report.charts.trials import evenly, failure_series, samples_point, shown_trials, trial_note
from tunekit.units import count_text

_NAMES = {
    TrialRole.BASELINE: "baseline",
    TrialRole.SEARCH: "search",
    TrialRole.CONFIRM: "confirming",
    TrialRole.NUMERICS: "for its losses",
    TrialRole.TRACE: "traced",
}
_MOST_STEPS = 200


def history_chart(run: Run) -> Chart:
    """Return the rates of the trials in the order in which they ran; those that failed as crosses."""
    shown = shown_trials(run.trials)
    by_name: dict[str, list[Point]] = defaultdict(list)
    for record in shown.measured:
        name = "abandoned" if record.is_abandoned else _NAMES[record.role]
        if record.role is TrialRole.CONFIRM and record.is_baseline_config:
            name = f"{name} the baseline"
        by_name[name].append(
            samples_point(record.number, record.rate_samples_per_s or 0.0, trial_note(record))
        )
    steps = best_so_far(run.trials)
    series = (
        Series("best so far", Basis.MEASURED, tuple(evenly(steps, _MOST_STEPS)), "steps"),
        *(Series(name, Basis.MEASURED, tuple(points)) for name, points in by_name.items()),
        *failure_series(shown.failed, lambda record: record.number),
    )
    return Chart(
        id="history",
        title="The search, trial by trial",
        summary=f"{_summary(steps, len(run.trials))}{shown.left_out}",
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


def _summary(steps: Sequence[Point], trials: int) -> str:
    count = count_text(trials, "trial")
    if not steps:
        return f"{count}, none of the search's own measured."
    return f"{count}; the best of the search's own: {steps[-1].text} ({steps[-1].note})."
