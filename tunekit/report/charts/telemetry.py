"""The machine's load over a baseline trial and a trial of the answering tier. Pure."""

from collections import defaultdict
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
from tunekit.units import GIB, rate_text

MAX_POINTS = 160
"""Points per figure and trial: a page's width can't show more."""


@dataclass(frozen=True)
class _Figure:
    """What a panel shows."""

    title: str
    """What is shown, with its unit."""
    series: Literal["host", "loop", "gpu"]
    columns: tuple[str, ...]
    """The first known one is shown."""
    scale: float | None = 1.0
    """None for the samples of a batch."""
    is_counter: bool = False
    """Whether the column is a counter, which is shown as a rate."""


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

_Span = tuple[float, float, float]
"""Start and end of an interval, in seconds since the trial started, and the figure's value in it."""

Saved = Callable[[int], Sequence[Series]]
"""Returns a trial's saved samples by its number; none where they are gone."""


def telemetry_chart(run: Run, best: Recommendation | None, saved: Saved) -> tuple[Timeline, ...]:
    """Return GPU, CPU and storage over time; nothing where no trial of either config saved its series.

    Of each config it shows the first trial that its figures come from.
    """
    sampled: dict[str, tuple[Measured, Mapping[str, Series]]] = {}
    for tier in [None] if best is None or best.is_baseline else [None, best]:
        for one in run.history.evidence(tier):
            series = {each.name: each for each in saved(one.record.number)}
            if all(_is_whole(series.get(each)) for each in ("host", "loop")):
                sampled[BASELINE if tier is None else tier.tier.value] = one, series
                break
    windows = {name: measured_window(series["loop"]) for name, (_, series) in sampled.items()}
    spans = {
        figure: {name: _spans(figure, series, one.loop) for name, (one, series) in sampled.items()}
        for figure in _FIGURES
    }
    shown = {
        figure: of for figure, of in spans.items() if any(value for one in of.values() for *_, value in one)
    }
    trials = ", ".join(f"{name} by trial {one.record.number}" for name, (one, _) in sampled.items())
    chart = Timeline(
        id="telemetry",
        title="GPU, CPU and storage over a trial's time (measured)",
        summary=f"Seconds since each trial's start: {trials}. Shaded: the windows that were measured.",
        names=tuple(sampled),
        panels=tuple(_panel(figure, of) for figure, of in shown.items()),
        windows=tuple(
            Window(name, start, end) for name, (start, end, is_steady) in windows.items() if is_steady
        ),
        table=_table(shown, windows),
    )
    return (chart,) if sampled else ()


def _is_whole(series: Series | None) -> bool:
    """Return whether a series has two samples or more, each with its time."""
    return series is not None and len(series.known("t_s")) == len(series.rows) > 1


def _spans(figure: _Figure, series: Mapping[str, Series], loop: LoopMeasurement) -> list[_Span]:
    """Return the samples of a figure; the mean over the GPUs that were used."""
    scale = figure.scale or loop.world_size * loop.steady_samples / loop.steady_batches
    if figure.series != "gpu":
        return _of_series(figure, series[figure.series], scale)
    values: dict[tuple[float, float], list[float]] = defaultdict(list)
    for name, one in series.items():
        if name.startswith("gpu") and is_used(one):
            for start_s, end_s, value in _of_series(figure, one, scale):
                values[start_s, end_s].append(value)
    return [(*stretch, fmean(each)) for stretch, each in sorted(values.items())]


def _of_series(figure: _Figure, series: Series, scale: float) -> list[_Span]:
    """Return the first known column; a counter as its rate of growth."""
    column = next((name for name in figure.columns if series.known(name)), None)
    if column is None:
        return []
    pairs = zip(series.column("t_s"), series.column(column), strict=True)
    points = [(t_s, value * scale) for t_s, value in pairs if t_s is not None and value is not None]
    if not figure.is_counter:
        return [(t_s, t_s, value) for t_s, value in points]
    if figure.series == "loop":  # between two of its reports it only seems to rest
        points = [
            point for place, point in enumerate(points) if not place or point[1] != points[place - 1][1]
        ]
    if column == "wait_s":  # which the loop reports once its batch has come
        for place in range(len(points) - 1, 0, -1):
            (t_s, value), (next_s, total) = points[place - 1], points[place]
            points[place - 1] = t_s, max(value, total - scale * (next_s - t_s))
    return [
        (first_s, last_s, max(0.0, last - first) / (last_s - first_s))
        for (first_s, first), (last_s, last) in pairwise(points)
        if last_s > first_s
    ]


def _mean(spans: Sequence[_Span]) -> float | None:
    """Return the mean over time; of samples without a duration, their plain mean."""
    weights = [end_s - start_s or 1.0 for start_s, end_s, _ in spans]
    values = (weight * value for weight, (*_, value) in zip(weights, spans, strict=True))
    return sum(values) / sum(weights) if spans else None


def _panel(figure: _Figure, known: Mapping[str, Sequence[_Span]]) -> Panel:
    """Return at most MAX_POINTS per trial, each the mean of an interval."""
    traces = []
    for name, spans in known.items():
        stride = -(-len(spans) // MAX_POINTS) or 1
        groups = [spans[start : start + stride] for start in range(0, len(spans), stride)]
        times = tuple((group[0][0] + group[-1][1]) / 2 for group in groups)
        traces += [Trace(name, times, tuple(map(_mean, groups)))] if groups else []
    return Panel(figure.title, tuple(traces))


def _table(
    shown: Mapping[_Figure, Mapping[str, Sequence[_Span]]], windows: Mapping[str, tuple[float, float, bool]]
) -> Table:
    """Return each figure's mean in the window and its maximum over the whole trial, from all samples."""
    rows = []
    for figure, known in shown.items():
        row = [figure.title]
        for name, (from_s, to_s, _) in windows.items():
            inside = [span for span in known[name] if from_s <= span[0] and span[1] <= to_s]
            row += [rate_text(_mean(inside)), rate_text(max((span[2] for span in known[name]), default=None))]
        rows.append(tuple(row))
    titles = [f"{name}, {what}" for name in windows for what in ("mean of the window", "highest sampled")]
    return Table("Telemetry", ("", *titles), tuple(rows), tuple(range(1, len(titles) + 1)), Basis.MEASURED)
