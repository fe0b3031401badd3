"""Where the loop's time goes before and after, and what each changed knob is worth. Pure."""

from collections.abc import Mapping, Sequence

from tunekit.recommend.time_breakdown import (
    DEVICE_PARTS,
    HOST_PARTS,
    SAMPLES,
    Seconds,
    boundary_s,
    have_device_parts,
    mean_s,
)
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.recommendation import KnobGain, Recommendation
from tunekit.records.run import Run
from tunekit.report.blocks import Basis, Chart, Point, Series, stacked_bars
from tunekit.report.charts.trials import BASELINE
from tunekit.report.text import change_text, is_too_wide, speedup_text
from tunekit.units import duration_text

_BOUNDARY = "epoch boundary"
"""Workers that end and start anew, and the refill of their queue."""


def time_breakdown_chart(run: Run, best: Recommendation | None) -> Chart:
    """Return the parts of the baseline's time and of the recommended config's, per thousand samples.

    By the device's clock where both have it: the host only queues work for a GPU, and waits wherever the
    queue is full. Else by the host's. With each epoch's boundary, so that a bar is as long as its rate says.
    """
    loops = [(BASELINE, [one.loop for one in run.history.evidence(None)])]
    if best is not None and not best.is_baseline:
        loops.append((best.tier.value, [one.loop for one in run.history.evidence(best)]))
    known = [(name, each) for name, each in loops if each]
    by_device = have_device_parts([loop for _, each in known for loop in each])
    parts: Mapping[str, Seconds] = {**(DEVICE_PARTS if by_device else HOST_PARTS), _BOUNDARY: boundary_s}
    totals = tuple(_total(name, each, parts) for name, each in known)
    clock = "the device's" if by_device else "the host's"
    has_boundaries = any(loop.boundary_s is not None for _, each in known for loop in each)
    boundaries = "epoch boundaries included" if has_boundaries else "without epoch boundaries (n/a)"
    return stacked_bars(
        "time_breakdown",
        f"Time breakdown per {SAMPLES:,} samples (measured)",
        f"Time for {SAMPLES:,} samples by {clock} clock, {boundaries}: "
        f"{', '.join(f'{one.x} {one.text}' for one in totals)}.",
        ("config", f"seconds per {SAMPLES:,} samples"),
        [
            Series(label, Basis.MEASURED, tuple(_point(*one, seconds) for one in known), "bars")
            for label, seconds in parts.items()
        ],
        [Series("total", Basis.MEASURED, totals, "totals")],
    )


def _point(name: str, loops: Sequence[LoopMeasurement], seconds: Seconds) -> Point:
    taken_s = max(0.0, mean_s(loops, seconds))  # boundaries that vary may add up to less than nothing
    return Point(x=name, y=taken_s, text=duration_text(taken_s))


def _total(name: str, loops: Sequence[LoopMeasurement], parts: Mapping[str, Seconds]) -> Point:
    total_s = sum(_point(name, loops, seconds).y for seconds in parts.values())
    return Point(x=name, y=total_s, text=duration_text(total_s))


def knobs_chart(run: Run, best: Recommendation | None) -> Chart:
    """Return by how much the recommended config would lose its lead with one knob as the baseline has it."""
    ordered = sorted(run.knob_gains, key=lambda one: one.factor.value, reverse=True)
    summary = "; ".join(f"{_name(one)} {speedup_text(one.factor)}" for one in ordered)
    tier = best.tier.value if best is not None else ""
    return Chart(
        id="knobs",
        title="What each knob is worth (measured)",
        summary=(
            f"Rate of the {tier} config over its rate with this one knob put back, with 95% range: "
            f"{summary}. Knobs that work together do not multiply to the whole speedup."
        ),
        x_title="knob",
        y_title="faster by, %",
        series=(Series("worth", Basis.MEASURED, tuple(_knob_point(one) for one in ordered), "bars"),),
        is_horizontal=True,
    )


def _name(gain: KnobGain) -> str:
    return change_text(gain.knob, gain.before, gain.after)


def _knob_point(gain: KnobGain) -> Point:
    factor = gain.factor
    has_range = factor.low < factor.high and not is_too_wide(factor)
    return Point(
        x=_name(gain),
        y=100 * (factor.value - 1),
        text=speedup_text(factor),
        low=100 * (factor.low - 1) if has_range else None,
        high=100 * (factor.high - 1) if has_range else None,
    )
