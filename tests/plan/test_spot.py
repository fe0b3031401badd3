"""Interruptions: closed forms against a simulation, numeric minimisation and their limits."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tunekit.plan.interruptions import (
    daly_interval_s,
    spot_time_s,
    time_without_checkpoints_s,
)

H = 3600.0
work = st.floats(1.0, 1000 * H)
costs = st.none() | st.floats(0.1, 600.0)
every = st.floats(0.5 * H, 1000 * H)
restarts = st.floats(0.0, 1800.0)


def simulated_training_s(
    dice: random.Random,
    work_s: float,
    interval_s: float,
    checkpoint_s: float,
    every_s: float,
    restart_s: float,
) -> float:
    """Time of one training on machines that are taken away: what a checkpoint holds is not done again."""
    total_s, saved_s, left_s = 0.0, 0.0, dice.expovariate(1 / every_s)
    while saved_s < work_s:
        piece_s = min(interval_s, work_s - saved_s)
        needed_s = piece_s + checkpoint_s
        while left_s < needed_s:
            total_s += left_s
            left_s, needed_s = dice.expovariate(1 / every_s), restart_s + piece_s + checkpoint_s
        left_s -= needed_s
        total_s += needed_s
        saved_s += piece_s
    return total_s


@given(work, costs, every, restarts)
def test_interruptions_never_save_time(work_s: float, cost_s: float | None, every_s: float, restart_s: float):
    assert spot_time_s(work_s, cost_s, every_s, restart_s) >= work_s * (1 - 1e-12)


@pytest.mark.parametrize(
    ("work_h", "checkpoint_s", "every_h", "restart_s"),
    [(20, 30.0, 4, 300.0), (48, 120.0, 2, 600.0), (6, None, 8, 300.0)],
    ids=["the defaults", "often preempted", "without checkpoints"],
)
def test_10_000_preempted_runs_take_what_the_formula_says(
    work_h: float, checkpoint_s: float | None, every_h: float, restart_s: float
):
    work_s, every_s = work_h * H, every_h * H
    interval_s = work_s if checkpoint_s is None else daly_interval_s(checkpoint_s, every_s)
    dice = random.Random(20_261_123)
    runs = [
        simulated_training_s(dice, work_s, interval_s, checkpoint_s or 0.0, every_s, restart_s)
        for _ in range(10_000)
    ]
    expected_s = spot_time_s(work_s, checkpoint_s, every_s, restart_s)
    assert sum(runs) / len(runs) == pytest.approx(expected_s, rel=0.02)
    assert max(runs) > work_s + restart_s


def test_figures_by_hand():
    """C = 50 s and M = 10,000 s: 2CM is a million."""
    assert daly_interval_s(50.0, 10_000.0) == 950.0
    assert daly_interval_s(5_000.0, 10_000.0) == 10_000.0
    # A hundred pieces of 950 s and 50 s each: M (e^0.1 - 1) = 1051.709 s apiece.
    assert spot_time_s(95_000.0, 50.0, 10_000.0, 0.0) == pytest.approx(105_170.9, abs=0.1)
    # One piece as long as the mean time between interruptions: M (e - 1).
    assert time_without_checkpoints_s(10_000.0, 10_000.0, 0.0) == pytest.approx(17_182.8, abs=0.1)


def test_what_can_not_be_written_as_a_number_is_infinite():
    assert time_without_checkpoints_s(1e9, 1.0, 0.0) == math.inf
    assert spot_time_s(1e6, 100.0, 0.1, 300.0) == math.inf


def test_a_training_shorter_than_the_interval_writes_no_checkpoint():
    assert spot_time_s(900.0, 50.0, 10_000.0, 60.0) == time_without_checkpoints_s(900.0, 10_000.0, 60.0)
