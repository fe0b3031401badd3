"""What each changed knob is worth in the recommended config. Pure."""

from tunekit.records.model_summary import KnobWorth
from tunekit.records.recommendation import Recommendation
from tunekit.records.run import Run
from tunekit.report.charts.chart import Chart, Point, Series
from tunekit.report.table import Basis
from tunekit.report.text import change_text, is_too_wide, speedup_text


def knobs_chart(run: Run, best: Recommendation | None) -> Chart:
    """Return by how much the recommended config would lose its lead with one knob as the baseline has it."""
    worths = run.model.knobs if run.model is not None and best is not None else ()
    ordered = sorted(worths, key=lambda one: one.factor.value, reverse=True)
    told = "; ".join(f"{_name(one)} {speedup_text(one.factor)}" for one in ordered)
    tier = best.tier.value if best is not None else ""
    return Chart(
        id="knobs",
        title="What each knob is worth (predicted)",
        summary=(
            f"Rate of the {tier} config over its rate with this one knob put back, with 95% range: {told}. "
            "Knobs that work together do not multiply to the whole speed-up."
        ),
        x_title="knob",
        y_title="faster by, %",
        series=(Series("worth", Basis.PREDICTED, tuple(_point(one) for one in ordered), "bars"),),
        is_horizontal=True,
    )


def _name(worth: KnobWorth) -> str:
    return change_text(worth.knob, worth.before, worth.after)


def _point(worth: KnobWorth) -> Point:
    factor = worth.factor
    has_range = factor.low < factor.high and not is_too_wide(factor)
    return Point(
        x=_name(worth),
        y=100 * (factor.value - 1),
        text=speedup_text(factor),
        low=100 * (factor.low - 1) if has_range else None,
        high=100 * (factor.high - 1) if has_range else None,
    )
