"""The trial's rate is the script's own."""

from pathlib import Path

import pytest
from real_trials import RealTrials, zoo_target

pytestmark = pytest.mark.real


def test_the_rate_is_what_the_script_prints_for_the_same_steps(tmp_path: Path) -> None:
    # One step more or less is over 1% in each; waiting for a core between the two clocks spoils some.
    ratios = (rate_over_printed(tmp_path / str(number)) for number in range(6))
    assert any(ratio == pytest.approx(1.0, rel=0.01) for ratio in ratios)


def rate_over_printed(folder: Path) -> float:
    """Return the rate of a trial over that of the clock which its script prints after each step."""
    trials = RealTrials(zoo_target("plain_with_validation.py"), folder, window_s=0.15)
    record = trials.run_baseline()
    assert record.measurement is not None
    loop = record.measurement.loop
    printed = [line.split() for line in trials.output(0).splitlines() if line.startswith("STEP")]
    clock_s = {int(step): float(seconds) for _, step, _, seconds in printed}
    samples = {int(step): int(count) for _, step, count, _ in printed}
    first, last = loop.discarded_batches, loop.discarded_batches + loop.steady_batches
    assert last < 100, "the window should lie within the first epoch, where steps follow each other"
    assert loop.steady_samples == samples[last] - samples[first]
    # An edge of the window lies after its step is printed and before the next one is.
    assert clock_s[last] - clock_s[first + 1] < loop.steady_time_s < clock_s[last + 1] - clock_s[first]
    return (clock_s[last] - clock_s[first]) / loop.steady_time_s
