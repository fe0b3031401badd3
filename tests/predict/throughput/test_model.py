"""The throughput model: what it was shown it says again, and it stays sane whatever it is shown."""

import math
from dataclasses import replace

import numpy as np
import pytest
from build_records import config, configs
from equation_worlds import EquationWorld, equation_worlds, small_configs, wild_observations
from hypothesis import given, settings
from hypothesis import strategies as st

from tunekit.predict.throughput.evidence import STEP_NOISE
from tunekit.predict.throughput.model import ThroughputModel
from tunekit.predict.throughput.observation import Columns

same_worlds = settings(derandomize=True)
"""For what holds of nearly all worlds: in a few of a thousand the fit ends in another optimum."""
several_small = st.lists(small_configs(), min_size=1, max_size=8, unique=True)


def model_of(world: EquationWorld, shown, **more) -> ThroughputModel:
    return ThroughputModel([world.observe(one) for one in shown], world.cpus, world.on_cpu, **more)


@same_worlds
@given(
    st.lists(wild_observations().filter(lambda one: one.step_s), min_size=1, max_size=6),
    st.lists(configs(), min_size=1, max_size=6),
    st.sampled_from([1, 2, 64]),
    st.booleans(),
    st.none() | st.integers(1, 10**9),
)
def test_whatever_was_seen_every_legal_config_has_a_finite_rate_and_deviation(
    seen, asked, cpus, on_cpu, samples
):
    model = ThroughputModel(seen, cpus, on_cpu, samples)
    told = model.predict(asked)
    assert np.all(np.isfinite(told.log_rate))
    assert np.all(np.isfinite(told.deviation)) and np.all(told.deviation >= 0)
    for one in asked:
        ceilings = model.ceilings(one)
        for rate in vars(ceilings).values():
            assert rate is None or 0 < rate < math.inf


@same_worlds
@given(equation_worlds(), several_small)
def test_a_config_that_ran_is_predicted_as_it_was_measured(world, shown):
    told = model_of(world, [world.home, *shown]).predict(shown)
    assert told.log_rate == pytest.approx(world.log_rates(shown), abs=3 * STEP_NOISE)


@same_worlds
@given(equation_worlds(), several_small, several_small)
def test_worlds_made_by_the_equations_are_found_within_the_stated_deviations(world, shown, asked):
    told = model_of(world, [world.home, *shown]).predict(asked)
    off = np.abs(told.log_rate - world.log_rates(asked))
    assert np.all(off <= 4 * told.deviation + 0.02)


@same_worlds
@given(equation_worlds(), several_small, st.randoms(use_true_random=False))
def test_trials_in_another_order_say_the_same(world, shown, chance):
    shuffled = list(shown)
    chance.shuffle(shuffled)
    one, other = (model_of(world, [world.home, *these]).predict(shown) for these in (shown, shuffled))
    assert one.log_rate == pytest.approx(other.log_rate, abs=0.01)
    assert one.deviation == pytest.approx(other.deviation, abs=0.01)


@same_worlds
@given(equation_worlds(), several_small, several_small, several_small)
def test_what_is_believed_of_pending_trials_makes_all_surer_and_moves_no_rate(world, shown, pending, asked):
    model, columns = model_of(world, [world.home, *shown]), Columns.of(asked)
    before, after = (model.predict_columns(columns, Columns.of(these)) for these in ((), pending))
    assert np.array_equal(after.log_rate, before.log_rate)
    assert np.all(after.deviation <= before.deviation)
    more = model.predict_columns(columns, Columns.of([*pending, *asked]))
    assert np.all(more.deviation <= after.deviation + 1e-9)


@same_worlds
@given(equation_worlds(), several_small, small_configs(), st.integers(1, 3))
def test_a_pending_trial_tells_of_its_config_what_one_measurement_would(world, shown, asked, times):
    model, columns = model_of(world, [world.home, *shown]), Columns.of([asked])
    before = model.predict_columns(columns).deviation[0]
    after = model.predict_columns(columns, Columns.of([asked] * times)).deviation[0]
    assert after == pytest.approx((before**-2 + times * STEP_NOISE**-2) ** -0.5, rel=1e-6)


@same_worlds
@given(equation_worlds(), several_small)
def test_ceilings_grow_with_workers_and_with_the_batch(world, shown):
    """But for what the equations leave to the residual, which may go down a little again."""
    model = model_of(world, [world.home, *shown])
    loaders = [model.ceilings(config(num_workers=count)).loader_samples_per_s for count in range(1, 17)]
    assert np.all(np.diff(loaders) >= -0.03 * np.array(loaders[1:]))
    trained = [model.ceilings(config(batch_size=size)).compute_samples_per_s for size in (1, 8, 64, 4096)]
    assert np.all(np.diff(trained) >= -0.03 * np.array(trained[1:]))


def test_ceilings_of_a_known_world_are_those_of_its_halves():
    world = EquationWorld(compute_s=0.04, fetch_s=0.2)
    shown = [config(batch_size=b, num_workers=w) for b in (64, 128, 256) for w in (0, 1, 2, 4)]
    found = model_of(world, [world.home, *shown]).ceilings(config(num_workers=4))
    times = world.times(config(num_workers=4))
    assert found.compute_samples_per_s == pytest.approx(128 / times.compute_s[0], rel=0.05)
    assert found.loader_samples_per_s == pytest.approx(128 / times.loader_s[0], rel=0.08)


def test_a_loader_that_could_not_be_looked_into_is_still_learnt_from():
    """Its workers' times were taken to be a nanosecond, so that no worker could ever help."""
    world = EquationWorld(compute_s=0.02, fetch_s=0.4)
    shown = [config(num_workers=workers) for workers in (1, 2, 4)]
    seen = [world.observe(one, all_parts=False) for one in shown]
    told = ThroughputModel(seen, world.cpus, False).predict([config(num_workers=8)])
    off = told.log_rate[0] - world.log_rates([config(num_workers=8)])[0]
    assert abs(off) < 0.25
    assert abs(off) < 2.5 * told.deviation[0]


def test_a_first_trial_far_too_slow_does_not_set_the_scale():
    world = EquationWorld()
    shown = [config(batch_size=b, num_workers=w) for b in (64, 128, 256) for w in (1, 2, 4)]
    first = world.observe(world.home, noise=math.log(4))
    first = replace(first, compute_s=4 * first.compute_s, compute_alone_s=None, loader_alone_s=None)
    told = ThroughputModel([first, *map(world.observe, shown)], world.cpus, False).predict(shown)
    assert told.log_rate == pytest.approx(world.log_rates(shown), abs=0.15)


def test_a_short_epoch_makes_starting_workers_count():
    world = EquationWorld()
    kept, anew = config(num_workers=8), config(num_workers=8, persistent_workers=False)
    model = model_of(world, [world.home], epoch_samples=1280)
    told = model.predict([kept, anew])
    assert told.log_rate[0] > told.log_rate[1]
    assert told.deviation[1] > told.deviation[0], "what no trial saw of starting workers is unsure"
