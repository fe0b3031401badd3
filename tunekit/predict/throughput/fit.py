"""Finds the maximum a posteriori parameters with the Levenberg-Marquardt algorithm."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tunekit.predict.throughput.observation import Floats

Residuals = Callable[[Floats], Floats]

_MAX_ROUNDS, _MAX_DAMPINGS = 40, 8
_FIRST_DAMPING = 1e-2
_DIFFERENCE = 1e-5
_ENOUGH = 1e-4


@dataclass(frozen=True)
class Fit:
    """Parameters with their uncertainty."""

    values: Floats
    covariance: Floats
    """(parameters, parameters)."""


@dataclass(frozen=True)
class Prior:
    """Independent normal priors of the parameters."""

    means: Floats
    deviations: Floats


def fit(residuals: Residuals, prior: Prior) -> Fit:
    """Return the maximum a posteriori parameters with their covariance.

    Args:
        residuals: returns the errors for a parameter vector, in standard deviations.
        prior: the parameters' prior.
    """

    def everything(values: Floats) -> Floats:
        return np.concatenate([residuals(values), (values - prior.means) / prior.deviations])

    moves = _DIFFERENCE * np.maximum(prior.deviations, 1e-3)
    values = prior.means
    off = everything(values)
    damping = _FIRST_DAMPING
    for _ in range(_MAX_ROUNDS):
        steepness = slopes(everything, values, off, moves)
        curvature, downhill = steepness.T @ steepness, -steepness.T @ off
        before = off @ off
        for _ in range(_MAX_DAMPINGS):
            tried = values + np.linalg.solve(curvature + damping * np.diag(np.diag(curvature)), downhill)
            off_there = everything(tried)
            if off_there @ off_there < before:
                break
            damping *= 6
        else:
            break
        values, off = tried, off_there
        damping = max(damping / 6, 1e-9)
        if before - off @ off < _ENOUGH * (1 + before):
            break
    steepness = slopes(everything, values, off, moves)
    return Fit(values, np.asarray(np.linalg.inv(steepness.T @ steepness), dtype=np.float64))


def slopes(of: Residuals, values: Floats, at: Floats, moves: Floats) -> Floats:
    """Return a function's Jacobian, (results, parameters), by finite differences.

    Args:
        of: the function of a parameter vector.
        values: the parameters.
        at: the function's result at these parameters.
        moves: the step for each parameter.
    """
    found = np.empty((len(at), len(values)))
    for place, move in enumerate(moves):
        moved = values.copy()
        moved[place] += move
        found[:, place] = (of(moved) - at) / move
    return found
