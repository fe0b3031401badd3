"""What a measured training loop says of itself."""

from tunekit.records.finding import Finding, Severity
from tunekit.records.measurement import LoopMeasurement

_DRIFT = 0.05
"""A loop that changes less within its window is steady enough for its rate."""


def loop_findings(loop: LoopMeasurement) -> list[Finding]:
    """Return what is wrong with a measured loop, or with its measurement."""
    drift = _drifting(loop)
    return [] if drift is None else [drift]


def _drifting(loop: LoopMeasurement) -> Finding | None:
    trend = loop.rate_trend_relative
    if trend is None or abs(trend) < _DRIFT:
        return None
    slower = trend > 0
    return Finding(
        code="rate-drifts",
        severity=Severity.WARNING,
        message=f"the loop got {'slower' if slower else 'faster'} while it was measured",
        evidence=(
            f"batches took {abs(trend):.0%} {'longer' if slower else 'less time'} at the end of a window of "
            f"{loop.steady_time_s:.1f} s than at its start"
        ),
        remedy=(
            "heat, a filling memory or another program may slow it down: measure longer with --window 30"
            if slower
            else "caches were still warming up: measure longer with --window 30"
        ),
        value=abs(trend),
    )
