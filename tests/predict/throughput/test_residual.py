"""The residual: what is left over is followed where it was seen, and forgotten far away."""

import numpy as np
import pytest
from build_records import config

from tunekit.predict.throughput.observation import Columns
from tunekit.predict.throughput.residual import Residual, Weights

HERE, NEAR, FAR = config(batch_size=32), config(batch_size=40), config(batch_size=32 * 64)


def weights(training: float, loader: float, count: int) -> Weights:
    return Weights(np.full(count, training), np.full(count, loader))


def left_at(config_seen, residuals: list[float], noise: float = 0.01) -> Residual:
    count = len(residuals)
    columns = Columns.of([config_seen] * count)
    return Residual(columns, weights(1.0, 0.0, count), np.array(residuals), np.full(count, noise))


def test_a_leftover_is_followed_at_its_config_fades_with_distance_and_grows_unsure():
    mean, variance = left_at(HERE, [0.2]).predict(Columns.of([HERE, NEAR, FAR]), weights(1.0, 0.0, 3))
    assert mean[0] == pytest.approx(0.2, abs=0.02)
    assert mean[0] > mean[1] > mean[2]
    assert mean[2] == pytest.approx(0.0, abs=0.01)
    assert variance[0] < variance[1] < variance[2]


def test_what_is_left_of_training_says_nothing_of_a_loader_bound_step():
    mean, _ = left_at(HERE, [0.2]).predict(Columns.of([NEAR]), weights(0.0, 1.0, 1))
    assert abs(mean[0]) < 0.02


def test_without_any_leftover_nothing_is_known():
    empty = Residual(Columns.of([]), weights(1.0, 0.0, 0), np.zeros(0), np.zeros(0))
    mean, variance = empty.predict(Columns.of([HERE]), weights(1.0, 1.0, 1))
    assert mean[0] == 0.0
    assert variance[0] > 0.01


def test_large_residuals_are_taken_for_large_amplitudes():
    assert max(left_at(HERE, [1.0, 1.0]).amplitudes) > max(left_at(HERE, [0.01, 0.01]).amplitudes)
