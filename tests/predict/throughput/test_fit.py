"""The fit: what a straight line asks for is known in closed form."""

import numpy as np
import pytest

from tunekit.predict.throughput.fit import Prior, fit

BELIEFS = Prior(np.zeros(2), np.ones(2))


def test_a_linear_problem_has_its_known_answer_and_uncertainty():
    terms, seen = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]]), np.array([1.0, 3.0, 5.5])
    found = fit(lambda values: (terms @ values - seen) / 0.1, BELIEFS)
    curvature = terms.T @ terms / 0.01 + np.eye(2)
    assert found.values == pytest.approx(np.linalg.solve(curvature, terms.T @ seen / 0.01), rel=1e-4)
    assert found.covariance == pytest.approx(np.linalg.inv(curvature), rel=1e-4)


def test_a_bent_problem_is_solved_from_far_away():
    found = fit(lambda values: np.array([(np.exp(values[0]) - 20.0) / 0.01, 0.0]), BELIEFS)
    assert np.exp(found.values[0]) == pytest.approx(20.0, rel=1e-3)
