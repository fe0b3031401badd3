"""A real trial below the rate that it has to beat is given up; one above it is measured as usual."""

from pathlib import Path

import pytest
from real_trials import LIMITS, zoo_target

from tunekit.records.details import Detail
from tunekit.records.trial import TrialRole
from tunekit.trial.executor import KnownTarget, ProcessExecutor, TrialSpec

# On a busy machine a loop may get faster by and by, and is then not given up.
pytestmark = [pytest.mark.real, pytest.mark.slow]


def test_a_slow_config_is_given_up_and_a_fast_one_is_measured(tmp_path: Path) -> None:
    # A batch of 16 takes 20 ms to make and 10 ms to train on: about 500 samples/s without workers.
    executor = ProcessExecutor(zoo_target("known_times.py"), tmp_path, LIMITS, window_s=1.5)
    first = executor.run(
        TrialSpec(0, TrialRole.BASELINE, None, rate_to_beat=100.0), None, lambda progress: None
    )
    assert first.measurement is not None
    assert first.discovery is not None
    assert first.config is not None
    fast = first.measurement.loop
    assert fast.stop_reason in ("interval", "time_cap")
    assert fast.boundaries_seen == 1

    spec = TrialSpec(1, TrialRole.SEARCH, first.config, details=(Detail.FLOORS,), rate_to_beat=5000.0)
    second = executor.run(spec, KnownTarget(first.discovery, first.config), lambda progress: None)
    assert second.measurement is not None
    slow = second.measurement.loop
    assert second.is_abandoned
    assert slow.rate_interval_relative is not None
    assert slow.steady_batches >= 12
    assert (slow.boundaries_seen, slow.boundary_s) == (0, None)
    assert second.measurement.details is None
