"""Finds the parameters that the evidence asks for: maximum a posteriori, by Levenberg and Marquardt."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tunekit.model.columns import Floats

Misfits = Callable[[Floats], Floats]

_MOST_ROUNDS, _MOST_DAMPINGS = 40, 8
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
class Beliefs:
    """What is believed of parameters before any trial: independent normal distributions."""

    means: Floats
    deviations: Floats


def fit(misfits: Misfits, beliefs: Beliefs) -> Fit:
    """Return the parameters that are most likely after the evidence.

    Args:
        misfits: of a parameter vector, how far what was seen is off, in deviations.
        beliefs: what is believed of the parameters before.
    """

    def everything(values: Floats) -> Floats:
        return np.concatenate([misfits(values), (values - beliefs.means) / beliefs.deviations])

    values = beliefs.means
    off = everything(values)
    damping = _FIRST_DAMPING
    for _ in range(_MOST_ROUNDS):
        slopes = _slopes(everything, values, off, beliefs.deviations)
        curvature, downhill = slopes.T @ slopes, -slopes.T @ off
        before = off @ off
        for _ in range(_MOST_DAMPINGS):
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
    slopes = _slopes(everything, values, off, beliefs.deviations)
    return Fit(values, np.asarray(np.linalg.inv(slopes.T @ slopes), dtype=np.float64))


def _slopes(everything: Misfits, values: Floats, off: Floats, deviations: Floats) -> Floats:
    """Return (misfits, parameters): how each misfit moves with each parameter."""
    slopes = np.empty((len(off), len(values)))
    for place, deviation in enumerate(deviations):
        moved = values.copy()
        move = _DIFFERENCE * max(float(deviation), 1e-3)
        moved[place] += move
        slopes[:, place] = (everything(moved) - off) / move
    return slopes
