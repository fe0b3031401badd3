"""Real processes share a search and some are killed: nothing is lost, and nothing is done twice."""

from pathlib import Path

import pytest
from shared_workers import Work, search_with_kills

from tunekit.tune.shared.leases import Pace

pytestmark = pytest.mark.real

TRIALS, WORKERS, KILLS = 60, 4, 3
QUICK = Pace(beat_s=1.0, lease_s=6.0)
"""What a worker of a busy machine may lose, without harm: another then takes its trial."""


def test_no_trial_is_lost_or_doubled_where_workers_are_killed(place: str, tmp_path: Path) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    found = search_with_kills(Work(place, TRIALS, 0.5, QUICK, notes), WORKERS, KILLS)
    assert (found.kept, found.lost, found.doubled, found.killed) == (TRIALS, 0, 0, KILLS)
