"""What a measured loop says of itself."""

import pytest
from build_records import loop

from tunekit.recommend.diagnose.loop import loop_findings
from tunekit.records.finding import Severity


@pytest.mark.parametrize(
    ("trend", "message", "evidence"),
    [
        (0.12, "the loop got slower while it was measured", "batches took 12% longer at the end"),
        (-0.05, "the loop got faster while it was measured", "batches took 5% less time at the end"),
    ],
)
def test_a_loop_that_drifts_is_told(trend: float, message: str, evidence: str) -> None:
    (finding,) = loop_findings(loop(rate_trend_relative=trend))
    assert (finding.code, finding.severity) == ("rate-drifts", Severity.WARNING)
    assert finding.message == message
    assert finding.evidence is not None
    assert finding.evidence.startswith(evidence)
    assert finding.remedy is not None


@pytest.mark.parametrize("trend", [None, 0.0, 0.049, -0.049])
def test_a_loop_that_holds_its_rate_is_not(trend: float | None) -> None:
    assert loop_findings(loop(rate_trend_relative=trend)) == []
