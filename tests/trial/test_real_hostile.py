"""A catalogue of hostile scripts as real trials: measured all the same, or told for what they did."""

import pytest
from hostile_targets import HOSTILE
from real_trials import Ran, looking_at, processes_with

pytestmark = pytest.mark.real


@looking_at(*HOSTILE)
def test_a_hostile_script_is_measured_or_told_for_what_it_did(ran: Ran) -> None:
    failure = ran.baseline.failure
    assert (failure and failure.kind) == ran.plan.outcome, failure
    if failure is not None:
        assert ran.plan.said in failure.message
        assert failure.remedy
        assert failure.message.isprintable()
        assert "http" not in failure.message
    assert processes_with(str(ran.trials)) == []
