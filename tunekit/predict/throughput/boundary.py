"""Models the time of an epoch boundary: restarting workers and filling their queue."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tunekit.predict.throughput.observation import Columns, Floats, Observation

_BELIEVED_S, _BELIEVED_SPREAD_S = (0.02, 0.06), (0.1, 0.1)
"""Prior means and standard deviations of the fixed part and of each worker's start."""
_MIN_NOISE_S, _NOISE_SHARE = 0.05, 0.2
"""Noise of a boundary, absolute and relative."""


@dataclass(frozen=True)
class Boundary:
    """The time of an epoch boundary: a fixed part, and a part per worker that restarts."""

    always_s: float
    per_worker_s: float
    covariance: Floats
    """(2, 2), of the two parts in this order, in s^2."""

    def predict(self, columns: Columns) -> tuple[Floats, Floats]:
        """Return the seconds of one boundary for each config, and their standard deviations."""
        terms = boundary_terms(columns)
        seconds = terms @ np.array([self.always_s, self.per_worker_s])
        variance = ((terms @ self.covariance) * terms).sum(1)
        return seconds, np.sqrt(np.maximum(variance, 0.0))


def fit_boundary(observations: Sequence[Observation]) -> Boundary:
    """Fit the boundary to observations: least squares around the prior, with nonnegative parts."""
    seen = [(one.config, one.boundary_s) for one in observations if one.boundary_s is not None]
    boundaries_s = np.array([seconds for _, seconds in seen])
    noise = np.maximum(_MIN_NOISE_S, _NOISE_SHARE * np.abs(boundaries_s))
    terms = boundary_terms(Columns.of([config for config, _ in seen])) / noise[:, None]
    believed, precision = np.array(_BELIEVED_S), np.diag(1 / np.square(_BELIEVED_SPREAD_S))
    curvature = terms.T @ terms + precision
    wanted = terms.T @ (boundaries_s / noise) + precision @ believed
    found = np.linalg.solve(curvature, wanted)
    if found.min() < 0:
        # One part is set to 0; the other then has to explain everything.
        other = int(found.argmax())
        found = np.zeros(2)
        found[other] = max(0.0, wanted[other] / curvature[other, other])
    return Boundary(float(found[0]), float(found[1]), np.linalg.inv(curvature))


def boundary_terms(columns: Columns) -> Floats:
    """Return (configs, 2): a constant 1, and the number of workers that restart."""
    started = np.where(columns.switches["persistent_workers"], 0.0, columns.workers)
    return np.stack([np.ones(len(columns)), started], axis=1)
