"""What the machine did over the time of a trial of the baseline and of one of the answer's tier. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Literal

from tunekit.machine.telemetry.series import Series, is_used, measured_window
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.records.trials import Measured
from tunekit.report.blocks import Basis, Panel, Table, Timeline, Trace, Window
from tunekit.report.charts.trials import BASELINE
from tunekit.report.text import UNKNOWN
from tunekit.units import GIB, rate_text

MOST_POINTS = 160
"""Of one figure of one trial: more could not be told apart in a page's width."""
_GPU = "gpu"


@dataclass(frozen=True)
class _Figure:
    """What a panel shows."""

    title: str
    """With the unit."""
    series: Literal["host", "loop", "gpu"]
    columns: tuple[str, ...]
    """The first of them that is known."""
    scale: float | None = 1.0
    """None for the samples of a batch."""
    is_counter: bool = False
    """Whether the column counts up: what is shown is how fast."""


_FIGURES = (
    _Figure("GPU busy, %", "gpu", ("graphics_activity_percent", "utilization_percent")),
    _Figure("power, W", "gpu", ("power_w",)),
    _Figure("SM clock, MHz", "gpu", ("sm_clock_mhz",)),
    _Figure("GPU memory, GiB", "gpu", ("tree_bytes", "used_bytes"), 1 / GIB),
    _Figure("CPU, cores", "host", ("cpu_s",), is_counter=True),
    _Figure("RAM, GiB", "host", ("pss_bytes",), 1 / GIB),
    _Figure("storage reads, MB/s", "host", ("read_bytes",), 1e-6, is_counter=True),
    _Figure("data wait, %", "loop", ("wait_s",), 100.0, is_counter=True),
    _Figure("samples/s", "loop", ("batches",), None, is_counter=True),
)

_Points = Sequence[tuple[float, float | None]]
"""A figure at moments of a trial, in seconds since it started; None where there was no answer."""

Saved = Callable[[int], Sequence[Series]]
"""Returns what was sampled of a trial, by its number; nothing where nothing is left of it."""


def telemetry_chart(run: Run, best: Recommendation | None, saved: Saved) -> tuple[Timeline, ...]:
    """Return what GPU, CPU and storage did; nothing where no trial of either config has left its series.

    Of each config the first of the trials that its figures come from.
    """
    tiers = [None] if best is None or best.is_baseline else [None, best]
    sampled: dict[str, Mapping[str, Series]] = {}
    chosen: dict[str, Measured] = {}
    for tier in tiers:
        name = BASELINE if tier is None else tier.tier.value
        for one in run.history.evidence(tier):
            series = {each.name: each for each in saved(one.record.number)}
            if all(_is_whole(series.get(each)) for each in ("host", "loop")):
                sampled[name], chosen[name] = series, one
                break
    if not sampled:
        return ()
    stretches = {name: measured_window(series["loop"]) for name, series in sampled.items()}
    steady = [Window(name, start, end) for name, (start, end, is_steady) in stretches.items() if is_steady]
    drawn: dict[_Figure, Panel] = {}
    measured: dict[_Figure, Mapping[str, _Points]] = {}
    for figure in _FIGURES:
        known = {name: _points(figure, series, chosen[name].loop) for name, series in sampled.items()}
        if _has_figures(panel := _panel(figure, known)):
            drawn[figure], measured[figure] = panel, known
    trials = ", ".join(f"{name} by trial {one.record.number}" for name, one in chosen.items())
    chart = Timeline(
        id="telemetry",
        title="GPU, CPU and storage over a trial's time (measured)",
        summary=f"Seconds since each trial's start: {trials}. Shaded: the windows that were measured.",
        names=tuple(sampled),
        panels=tuple(drawn.values()),
        windows=tuple(steady),
        table=_table(measured, {name: (start, end) for name, (start, end, _) in stretches.items()}),
    )
    return (chart,)


def _is_whole(series: Series | None) -> bool:
    """Return whether there is a series of two samples or more with the time of each."""
    return series is not None and len(series.known("t_s")) == len(series.rows) > 1


def _panel(figure: _Figure, known: Mapping[str, _Points]) -> Panel:
    traces = []
    for name, each in known.items():
        points = _thinned(each, figure)
        if any(value is not None for _, value in points):
            times, values = zip(*points, strict=True)
            traces.append(Trace(name, times, values))
    return Panel(figure.title, tuple(traces))


def _has_figures(panel: Panel) -> bool:
    """Return whether there is more to see than a line at nothing."""
    return any(any(trace.values) for trace in panel.traces)


def _points(figure: _Figure, series: Mapping[str, Series], loop: LoopMeasurement) -> _Points:
    """Return all that was sampled of a figure, a counter as it stood; the mean of the GPUs that were used."""
    scale = figure.scale or loop.world_size * loop.steady_samples / loop.steady_batches
    if figure.series != _GPU:
        points = _column(series[figure.series], figure.columns, scale)
        if figure.is_counter:
            points = [point for point in points if point[1] is not None]
        if figure.series == "loop":
            points = _changed(points)
        return _as_it_went_by(points, scale) if figure.columns == ("wait_s",) else points
    used = [one for name, one in series.items() if name.startswith(_GPU) and is_used(one)]
    each = [dict(_column(one, figure.columns, scale)) for one in used]
    times = sorted({t_s for one in each for t_s in one})
    means = []
    for t_s in times:
        known = [value for one in each if (value := one.get(t_s)) is not None]
        means.append((t_s, fmean(known) if known else None))
    return means


def _column(series: Series, columns: Sequence[str], scale: float) -> _Points:
    """Return the first of the columns that anything is known of."""
    for name in columns:
        if series.known(name):
            pairs = zip(series.column("t_s"), series.column(name), strict=True)
            return [
                (t_s, None if value is None else value * scale) for t_s, value in pairs if t_s is not None
            ]
    return []


def _changed(points: _Points) -> _Points:
    """Return the points at which the loop told something new: between two it only seems to rest."""
    return [point for place, point in enumerate(points) if not place or point[1] != points[place - 1][1]]


def _as_it_went_by(points: _Points, most_per_s: float) -> _Points:
    """Return a counted wait as it passed: the loop tells it once its batch has come."""
    passed = list(points)
    for place in range(len(passed) - 1, 0, -1):
        (t_s, value), (next_s, total) = passed[place - 1], passed[place]
        passed[place - 1] = t_s, max(value or 0.0, (total or 0.0) - most_per_s * (next_s - t_s))
    return passed


def _thinned(points: _Points, figure: _Figure) -> _Points:
    """Return at most MOST_POINTS: of each stretch of the time the mean, or how fast a counter grew in it."""
    stride = -(-len(points) // MOST_POINTS) or 1
    if figure.is_counter:
        return _growth([*points[::stride], *points[-1:]])
    return [_mean_point(points[start : start + stride]) for start in range(0, len(points), stride)]


def _growth(counted: _Points) -> _Points:
    """Return how fast a counter grew between each two of its points."""
    return [
        ((first_s + last_s) / 2, max(0.0, (last or 0.0) - (first or 0.0)) / (last_s - first_s))
        for (first_s, first), (last_s, last) in pairwise(counted)
        if last_s > first_s
    ]


def _mean_point(group: _Points) -> tuple[float, float | None]:
    known = [value for _, value in group if value is not None]
    return fmean(t_s for t_s, _ in group), fmean(known) if known else None


def _table(
    measured: Mapping[_Figure, Mapping[str, _Points]], windows: Mapping[str, tuple[float, float]]
) -> Table:
    """Return each figure's mean in the window and the highest of the whole trial, by all that was sampled."""
    rows = [
        (
            figure.title,
            *(text for name, window in windows.items() for text in _cells(figure, known[name], *window)),
        )
        for figure, known in measured.items()
    ]
    titles = [f"{name}, {what}" for name in windows for what in ("mean of the window", "highest sampled")]
    return Table("Telemetry", ("", *titles), tuple(rows), tuple(range(1, len(titles) + 1)), Basis.MEASURED)


def _cells(figure: _Figure, points: _Points, start_s: float, end_s: float) -> tuple[str, str]:
    inside = [point for point in points if start_s <= point[0] <= end_s]
    # Of a counter one stretch from end to end: its points need not stand evenly.
    in_window = _growth([*inside[:1], *inside[-1:]]) if figure.is_counter else inside
    mean, highest = _known(in_window), _known(_growth(points) if figure.is_counter else points)
    return rate_text(fmean(mean)) if mean else UNKNOWN, rate_text(max(highest, default=None))


def _known(points: _Points) -> list[float]:
    return [value for _, value in points if value is not None]
