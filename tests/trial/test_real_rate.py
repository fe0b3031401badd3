"""The trial's rate is the script's own."""

from pathlib import Path

import pytest
from real_trials import RealTrials, zoo_target

from tunekit.records.agent_messages import LearntEvent
from tunekit.trial.events import EventReader

pytestmark = pytest.mark.real


def test_the_rate_is_what_the_script_prints_for_the_same_steps(tmp_path: Path) -> None:
    trials = RealTrials(zoo_target("plain_with_validation.py"), tmp_path, window_s=0.15)
    record = trials.run_baseline()
    assert record.measurement is not None
    loop = record.measurement.loop
    printed = [line.split() for line in trials.output(0).splitlines() if line.startswith("STEP")]
    clock_s = {int(step): float(seconds) for _, step, _, seconds in printed}
    samples = {int(step): int(count) for _, step, count, _ in printed}
    first, last = loop.discarded_batches, loop.discarded_batches + loop.steady_batches
    assert last <= 100, "the window should lie within the first epoch, where steps follow each other"
    own_rate = (samples[last] - samples[first]) / (clock_s[last] - clock_s[first])
    assert loop.steady_samples / loop.steady_time_s == pytest.approx(own_rate, rel=0.02)


def test_a_validation_keeps_its_loader_and_its_word_error_on_stderr_fails_nothing(tmp_path: Path) -> None:
    trials = RealTrials(zoo_target("plain_with_validation.py"), tmp_path, window_s=1.0)
    baseline = trials.run_baseline()
    assert "validation error" in trials.output(0)
    assert baseline.failure is None
    record = trials.run(batch_size=32, num_workers=2, prefetch_factor=4, persistent_workers=True)
    assert record.measurement is not None
    loop = record.measurement.loop
    assert (loop.batch_size, loop.num_workers, loop.prefetch_factor) == (32, 2, 4)
    told = [event for event in EventReader(tmp_path / "0001").read_new() if isinstance(event, LearntEvent)]
    others = [one for one in told[-1].discovery.loaders if not one.training]
    assert [(one.batch_size, one.num_workers) for one in others] == [(50, 0)]
