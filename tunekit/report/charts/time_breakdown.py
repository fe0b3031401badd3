"""Where the loop's time goes, before and after. Pure."""

from collections.abc import Mapping, Sequence

from tunekit.recommend.time_breakdown import (
    DEVICE_PARTS,
    HOST_PARTS,
    SAMPLES,
    Seconds,
    have_device_parts,
    mean_s,
)
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.report.charts.chart import Chart, Point, Series
from tunekit.report.charts.marked import BASELINE
from tunekit.report.table import Basis
from tunekit.units import duration_text


def time_breakdown_chart(run: Run, best: Recommendation | None) -> Chart:
    """Return the parts of the baseline's time and of the recommended config's, per thousand samples.

    By the device's clock where both have it: the host only queues work for a GPU, and waits wherever the
    queue is full. Else by the host's.
    """
    loops = [(BASELINE, [one.loop for one in run.history.evidence(None)])]
    if best is not None and not best.is_baseline:
        loops.append((best.tier.value, [one.loop for one in run.history.evidence(best)]))
    known = [(name, each) for name, each in loops if each]
    by_device = have_device_parts([loop for _, each in known for loop in each])
    parts = DEVICE_PARTS if by_device else HOST_PARTS
    series = [
        Series(label, Basis.MEASURED, tuple(_point(name, each, seconds) for name, each in known), "bars")
        for label, seconds in parts.items()
    ]
    totals = tuple(_total(name, each, parts) for name, each in known)
    clock = "the device's" if by_device else "the host's"
    return Chart(
        id="time_breakdown",
        title=f"Time breakdown per {SAMPLES:,} samples (measured)",
        summary=(
            f"Steady time for {SAMPLES:,} samples by {clock} clock, epoch boundaries left out: "
            f"{', '.join(f'{one.x} {one.text}' for one in totals)}."
        ),
        x_title="config",
        y_title=f"seconds per {SAMPLES:,} samples",
        series=(*series, Series("total", Basis.MEASURED, totals, "totals")),
        is_horizontal=True,
        is_stacked=True,
    )


def _point(name: str, loops: Sequence[LoopMeasurement], seconds: Seconds) -> Point:
    taken_s = mean_s(loops, seconds)
    return Point(x=name, y=taken_s, text=duration_text(taken_s))


def _total(name: str, loops: Sequence[LoopMeasurement], parts: Mapping[str, Seconds]) -> Point:
    total_s = sum(_point(name, loops, seconds).y for seconds in parts.values())
    return Point(x=name, y=total_s, text=duration_text(total_s))
