"""What an epoch's end costs: starting workers anew, and filling their queue."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tunekit.model.columns import Columns, Floats
from tunekit.model.observation import Observation

_START_PRIOR_S, _PER_WORKER_PRIOR_S = 0.02, 0.06
_PRIOR_WEIGHT = 0.25


@dataclass(frozen=True)
class Boundary:
    """Seconds of one epoch boundary: a share that always is there, and one per worker that starts anew."""

    always_s: float
    per_worker_s: float

    def predict(self, columns: Columns) -> Floats:
        """Return the seconds of one boundary for some configs."""
        started = np.where(columns.persistent, 0.0, columns.workers)
        return np.asarray(self.always_s + self.per_worker_s * started)


def fit_boundary(observations: Sequence[Observation]) -> Boundary:
    """Return the boundary that was seen, least squares around what is believed without any."""
    rows = [
        (1.0, 0.0 if one.config.persistent_workers else float(one.config.num_workers), one.boundary_s)
        for one in observations
        if one.boundary_s is not None
    ]
    believed = np.array([_START_PRIOR_S, _PER_WORKER_PRIOR_S])
    if not rows:
        return Boundary(*map(float, believed))
    terms, seen = np.array([row[:2] for row in rows]), np.array([row[2] for row in rows])
    curvature = terms.T @ terms + _PRIOR_WEIGHT * np.eye(2)
    found = believed + np.linalg.solve(curvature, terms.T @ (seen - terms @ believed))
    return Boundary(max(0.0, float(found[0])), max(0.0, float(found[1])))
