"""Where the loop's time goes before and after, and what each changed knob is worth. Pure."""

from collections.abc import Mapping

from tunekit.recommend.time_breakdown import (
    DEVICE_PARTS,
    HOST_PARTS,
    SAMPLES,
    Seconds,
    boundary_s,
    have_device_parts,
    mean_s,
)
from tunekit.records.recommendation import KnobGain, Recommendation
from tunekit.records.run import Run
from tunekit.report.blocks import Basis, Chart, Point, Series, stacked_bars
from tunekit.report.charts.trials import BASELINE
from tunekit.report.text import change_text, is_too_wide, speedup_text
from tunekit.units import duration_text


def time_breakdown_chart(run: Run, best: Recommendation | None) -> Chart:
    """Return the parts of the baseline's time and of the recommended config's, per thousand samples.

    By the device's clock where both have it: the host only queues work for a GPU, and waits wherever the
    queue is full. Else by the host's. With each epoch's boundary, so that a bar is as long as its rate says.
    """
    loops = {BASELINE: [one.loop for one in run.history.evidence(None)]}
    if best is not None and not best.is_baseline:
        loops[best.tier.value] = [one.loop for one in run.history.evidence(best)]
    known = {name: each for name, each in loops.items() if each}
    by_device = have_device_parts([loop for each in known.values() for loop in each])
    clock = DEVICE_PARTS if by_device else HOST_PARTS
    parts: Mapping[str, Seconds] = {**clock, "epoch boundary": boundary_s}
    # Boundaries that vary may add up to less than nothing.
    seconds = {
        label: {name: max(0.0, mean_s(each, part)) for name, each in known.items()}
        for label, part in parts.items()
    }
    totals = {name: sum(each[name] for each in seconds.values()) for name in known}
    texts = ", ".join(f"{name} {duration_text(total_s)}" for name, total_s in totals.items())
    return stacked_bars(
        "time_breakdown",
        f"Time breakdown per {SAMPLES:,} samples (measured)",
        f"By the {'device' if by_device else 'host'}'s clock: {texts}.",
        ("config", f"seconds per {SAMPLES:,} samples"),
        [Series(label, Basis.MEASURED, _points(each), "bars") for label, each in seconds.items()],
        [Series("total", Basis.MEASURED, _points(totals), "totals")],
    )


def _points(seconds: Mapping[str, float]) -> tuple[Point, ...]:
    return tuple(Point(x=name, y=each_s, text=duration_text(each_s)) for name, each_s in seconds.items())


def knobs_chart(run: Run, best: Recommendation | None) -> Chart:
    """Return how much slower the recommended config is with one knob set back to the baseline's value."""
    ordered = sorted(run.knob_gains, key=lambda one: one.factor.value, reverse=True)
    points = tuple(map(_knob_point, ordered))
    summary = "; ".join(f"{point.x} {point.text}" for point in points)
    tier = best.tier.value if best is not None else ""
    return Chart(
        id="knobs",
        title="What each knob is worth (measured)",
        summary=f"Rate of the {tier} config over its rate with this one knob put back: {summary}.",
        x_title="knob",
        y_title="faster by, %",
        series=(Series("worth", Basis.MEASURED, points, "bars"),),
        is_horizontal=True,
    )


def _knob_point(gain: KnobGain) -> Point:
    factor = gain.factor
    low, high = (None, None) if is_too_wide(factor) else (100 * (factor.low - 1), 100 * (factor.high - 1))
    return Point(
        x=change_text(gain.knob, gain.before, gain.after),
        y=100 * (factor.value - 1),
        text=speedup_text(factor),
        low=low,
        high=high,
    )
