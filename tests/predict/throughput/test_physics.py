"""The equations: times of every legal config, and which way they move."""

from dataclasses import replace

import numpy as np
import pytest
from build_records import config, configs
from equation_worlds import EquationWorld, equation_worlds
from hypothesis import given
from hypothesis import strategies as st

from tunekit.predict.throughput.observation import Columns
from tunekit.predict.throughput.physics import parameters

BATCHES = [1, 2, 8, 32, 100, 512, 4096]
WORKERS = [1, 2, 3, 4, 8, 16, 32]


def with_value(world: EquationWorld, name: str, value: float) -> np.ndarray:
    values = world.values
    values[[one.name for one in world.physics.parameters].index(name)] = value
    return values


@given(equation_worlds(), st.lists(configs(), min_size=1, max_size=6))
def test_times_are_positive_and_finite_for_every_legal_config(world, several):
    for seconds in vars(world.times(*several)).values():
        assert np.all(seconds > 0) and np.all(np.isfinite(seconds))


@given(equation_worlds(), configs())
def test_the_loader_is_faster_with_more_workers_until_it_no_longer_gains(world, knobs):
    several = [config(batch_size=knobs.batch_size, num_workers=workers) for workers in WORKERS]
    assert np.all(np.diff(world.times(*several).loader_s) <= 1e-12)


def test_workers_that_lose_all_to_one_another_are_one_worker_and_not_less():
    world = EquationWorld()
    values = with_value(world, "worker_loss", 2.0)
    times = world.physics.times(values, Columns.of([config(num_workers=1), config(num_workers=8)]))
    assert times.loader_s[1] == pytest.approx(times.loader_s[0])


@given(equation_worlds(), configs())
def test_samples_per_second_of_training_grow_with_the_batch(world, knobs):
    several = [knobs.model_copy(update={"batch_size": batch}) for batch in BATCHES]
    assert np.all(np.diff(np.array(BATCHES) / world.times(*several).compute_s) >= -1e-9)


@given(equation_worlds(), configs())
def test_a_step_is_no_shorter_than_any_part_and_no_longer_than_all(world, knobs):
    for sharpness in (-3.0, 2.0, 6.0):
        values = with_value(world, "sharpness", sharpness)
        times = world.physics.times(values, Columns.of([knobs]))
        hand_over = values[[one.name for one in world.physics.parameters].index("hand_over")]
        hand_over_s = float(np.exp(hand_over)) * (1 + knobs.batch_size / world.home.batch_size) / 2
        parts = (times.compute_s[0], times.loader_s[0], times.shared_s[0])
        if knobs.num_workers == 0:
            assert times.step_s[0] == pytest.approx(times.compute_s[0] + times.fetch_s[0])
            continue
        assert times.step_s[0] >= max(parts) * (1 - 1e-9)
        assert times.step_s[0] <= (sum(parts) + hand_over_s) * (1 + 1e-9)


def test_one_cpu_is_shared_by_training_and_loader():
    world = EquationWorld(cpus=1, on_cpu=True, compute_s=0.1, fetch_s=0.1, fetch_cpu_share=1.0)
    one, eight = world.times(config(num_workers=1), config(num_workers=8)).step_s
    assert one >= 0.2 and eight >= 0.2


def test_a_fetch_that_was_not_seen_is_believed_loosely():
    by_name = {
        known: {one.name: one for one in parameters(4, False, fetch_is_known=known)}
        for known in (True, False)
    }
    assert by_name[False]["fetch"].deviation > 3 * by_name[True]["fetch"].deviation


def test_modes_scale_training_alone():
    world = EquationWorld()
    plain = world.times(config())
    compiled = replace(world, moved={"compile_samples": -1.0}).times(config(compile=True))
    assert compiled.compute_s[0] < plain.compute_s[0]
    assert compiled.fetch_s[0] == plain.fetch_s[0]
