"""How the search went: each trial in its order, and the best so far. Pure."""

from collections import defaultdict
from collections.abc import Sequence

from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.report.charts.chart import Chart, Point, Series
from tunekit.report.charts.shown_trials import evenly, shown_trials
from tunekit.report.charts.texts import failure_text, is_refused, trial_note
from tunekit.report.table import Basis
from tunekit.units import count_text, rate_text

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
        by_name[name].append(_point(record, record.rate_samples_per_s or 0.0))
    crosses: dict[bool, list[Point]] = {False: [], True: []}
    for record in shown.failed:
        point = Point(x=record.number, y=0.0, text=failure_text(record), note=trial_note(record))
        crosses[is_refused(record)].append(point)
    steps = best_so_far(run.trials)
    series = (
        Series("best so far", Basis.MEASURED, tuple(evenly(steps, _MOST_STEPS)), "steps"),
        *(Series(name, Basis.MEASURED, tuple(points)) for name, points in by_name.items()),
        Series("failed", Basis.MEASURED, tuple(crosses[False]), "failures"),
        Series("refused", Basis.PREDICTED, tuple(crosses[True]), "failures"),
    )
    return Chart(
        id="history",
        title="The search, trial by trial",
        summary=f"{_told(steps, len(run.trials))}{shown.left_out}",
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
            points.append(_point(record, rate))
    if points and records[-1].number != points[-1].x:
        last = points[-1]
        points.append(Point(x=records[-1].number, y=last.y, text=last.text, note=last.note))
    return points


def _point(record: TrialRecord, rate: float) -> Point:
    return Point(x=record.number, y=rate, text=f"{rate_text(rate)} samples/s", note=trial_note(record))


def _told(steps: Sequence[Point], trials: int) -> str:
    if not steps:
        return f"{count_text(trials, 'trial')}, none of the search's own measured."
    return (
        f"{count_text(trials, 'trial')}; the best of the search's own: {steps[-1].text} ({steps[-1].note})."
    )
