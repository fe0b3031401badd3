"""Evidence: each seen time is one reading of what the equations predict for it."""

import numpy as np
import pytest
from build_records import config
from equation_worlds import EquationWorld, equation_worlds, observation, small_configs
from hypothesis import given
from hypothesis import strategies as st

from tunekit.predict.throughput.evidence import STEP_NOISE, Evidence, Reading


@given(equation_worlds(), st.lists(small_configs(), min_size=1, max_size=5))
def test_the_equations_own_times_are_not_off(world, several):
    evidence = Evidence([world.observe(one) for one in several])
    off = evidence.residuals(lambda columns: world.physics.times(world.values, columns))
    assert off == pytest.approx(np.zeros(len(off)), abs=1e-6)


def test_what_was_not_seen_is_no_reading():
    evidence = Evidence([observation(step_s=0.1, compute_s=None, fetch_s=0.2)])
    assert evidence.kinds.tolist() == [Reading.STEP]


def test_a_time_of_nothing_is_no_reading():
    assert Evidence([observation(step_s=0.1, compute_s=0.0)]).kinds.tolist() == [Reading.STEP]


def test_a_wide_interval_makes_a_step_tell_less_and_a_missing_one_too():
    """Never less than processes differ by, nor much more: a short window's interval says little of them."""
    narrow, wide, widest, disturbed, unknown = (
        Evidence([observation(step_spread=spread)]).noise[0] for spread in (0.01, 0.15, 0.4, 2.0, None)
    )
    assert narrow == STEP_NOISE
    assert wide == pytest.approx(0.15 / 1.96)
    assert widest == 0.10
    assert disturbed == pytest.approx(2.0 / 1.96)
    assert unknown > narrow


def test_repeated_readings_are_one_that_is_surer():
    evidence = Evidence([observation(step_s=seconds) for seconds in (0.099, 0.101, 0.1, 0.1)])
    assert np.exp(evidence.log_s) == pytest.approx([0.1], rel=1e-3)
    assert evidence.noise == pytest.approx([STEP_NOISE / 2])


def test_processes_that_contradict_one_another_tell_little():
    assert Evidence([observation(step_s=seconds) for seconds in (0.1, 0.4)]).noise[0] > 0.4


def test_without_workers_the_loader_alone_is_one_process_making_a_batch():
    world = EquationWorld(home=config(num_workers=0))
    evidence = Evidence([observation(world.home, None, loader_alone_s=0.5)])
    told = evidence.log_s_by(world.physics.times(world.values, evidence.columns))
    assert np.exp(told[0]) == pytest.approx(world.fetch_s)
