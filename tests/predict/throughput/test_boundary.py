"""Epoch boundaries: learnt from those that were seen, believed where none was, never below nothing."""

import numpy as np
import pytest
from build_records import config, configs
from equation_worlds import observation, wild_observations
from hypothesis import given
from hypothesis import strategies as st

from tunekit.predict.throughput.boundary import fit_boundary
from tunekit.predict.throughput.observation import Columns


def seen(seconds: float, **knobs: object):
    return observation(config(**({"persistent_workers": False} | knobs)), boundary_s=seconds)


@given(st.lists(wild_observations(), max_size=8), st.lists(configs(), min_size=1, max_size=8))
def test_a_boundary_is_never_negative_and_its_deviation_is_a_number(several, asked):
    seconds, deviation = fit_boundary(several).predict(Columns.of(asked))
    assert np.all(seconds >= 0) and np.all(np.isfinite(seconds))
    assert np.all(deviation >= 0) and np.all(np.isfinite(deviation))


def test_both_parts_are_found_again():
    several = [seen(0.2 + 0.5 * workers, num_workers=workers) for workers in (0, 2, 4, 8)] * 5
    found = fit_boundary(several)
    assert found.always_s == pytest.approx(0.2, abs=0.05)
    assert found.per_worker_s == pytest.approx(0.5, rel=0.1)


def test_workers_that_persist_are_not_started_anew():
    found = fit_boundary([seen(3.0, num_workers=4), seen(0.1, num_workers=4, persistent_workers=True)])
    kept, anew = found.predict(
        Columns.of([config(num_workers=8), config(num_workers=8, persistent_workers=False)])
    )[0]
    assert anew > kept + 1.0


def test_where_one_part_would_be_negative_the_other_explains_all():
    several = [seen(max(0.0, 0.1 * workers - 0.3), num_workers=workers) for workers in (1, 2, 3, 4, 8)] * 20
    found = fit_boundary(several)
    assert found.always_s == 0.0
    told = found.per_worker_s * 8
    assert told < 0.6, "with the negative part cut off and no new fit it was 0.68"
