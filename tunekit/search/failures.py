"""How likely a config runs at all, by what failed for reasons other than memory. Pure."""

from collections.abc import Sequence

import numpy as np

from tunekit.model.columns import PRECISIONS, Columns, Flags, Floats
from tunekit.records.trial import TrialRecord

_BROKEN = 0.1
"""Share of targets on which a trait that they don't have yet never runs."""
_BY_CHANCE = 0.02
"""Share of trials that fail by chance."""


def chances_to_run(records: Sequence[TrialRecord], columns: Columns) -> Floats:
    """Return for each config how likely it runs, memory aside.

    A failure speaks against every trait of its config that no measured trial had: a mode, workers,
    page-locked memory, a batch size other than the script's own. What once ran is not suspected again.

    Args:
        records: of candidates, the baseline's first.
        columns: the configs.
    """
    tried = [record for record in records if record.config is not None]
    failed = [one for one in tried if one.failure is not None and not one.failure.kind.is_memory]
    if not failed:
        return np.ones(len(columns))
    own_batch = tried[0].config.batch_size if tried[0].config else 0
    ran = _traits([one for one in tried if one.measurement is not None], own_batch)
    fell = _traits(failed, own_batch)
    chances = np.ones(len(columns))
    for has, ran_with, fell_with in zip(_of(columns, own_batch), ran, fell, strict=True):
        failures = 0 if ran_with.any() else int(fell_with.sum())
        works = (1 - _BROKEN) * _BY_CHANCE**failures
        chances[has] *= works / (works + _BROKEN) if failures else 1.0
    return chances


def _traits(records: Sequence[TrialRecord], own_batch: int) -> list[Flags]:
    return _of(Columns.of([record.config for record in records if record.config is not None]), own_batch)


def _of(columns: Columns, own_batch: int) -> list[Flags]:
    """Return for each trait which configs have it."""
    return [
        *(np.asarray(columns.precision == place) for place in range(len(PRECISIONS))),
        columns.compiled,
        columns.channels_last,
        columns.pinned,
        np.asarray(columns.workers > 0),
        np.asarray(columns.batch_size != own_batch),
    ]
