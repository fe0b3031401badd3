"""Which part of a loop holds its rate, by what each part would allow alone."""

from tunekit.model.throughput import Ceilings
from tunekit.records.model_summary import Limit

_CLOSE = 0.1
"""Ceilings nearer than this, as a share, bind alike."""


def limit_of(ceilings: Ceilings, with_workers: bool) -> Limit | None:
    """Return what binds; None where loader or training are unknown.

    Args:
        ceilings: of the config.
        with_workers: whether it loads beside the training; else the two wait for each other.
    """
    loader, training = ceilings.loader_samples_per_s, ceilings.compute_samples_per_s
    if loader is None or training is None:
        return None
    lower = min(loader, training)
    slower = Limit.LOADER if loader < training else Limit.TRAINING
    if not with_workers:
        in_turns = 1 / (1 / loader + 1 / training)
        return slower if in_turns > (1 - _CLOSE) * lower else Limit.TURNS
    cores = ceilings.cores_samples_per_s
    # Training that keeps all cores busy leaves none to the loader: they bind a little wherever it binds.
    if cores is not None and cores < (1 - _CLOSE) * lower:
        return Limit.CORES
    return Limit.BOTH if lower > (1 - _CLOSE) * max(loader, training) else slower
