"""Other batch sizes at which a trial looks at its training alone. Pure."""

import math
from collections.abc import Sequence

from tunekit.model.columns import Columns
from tunekit.records.config import TrainConfig
from tunekit.records.host import Host
from tunekit.records.run import KnobSpace
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.search.fitting import chances_to_fit, fits_host

LOOK_TRIALS = 3
"""Time that there should be for a trial which looks at other sizes, in usual trials."""
_FACTORS = (1, 2, 4, 8, 0.5)
_LEAST_CHANCE = 0.5
"""Of fitting in the device's memory."""


def sizes_to_look_at(
    config: TrainConfig, records: Sequence[TrialRecord], space: Sequence[KnobSpace], host: Host
) -> tuple[int, ...]:
    """Return the batch sizes for the first trial of each mode without compile; else none.

    Those of the space that are nearest to the trial's own, two, four and eight times it, and half of it, in
    this order, as far as they fit: a size that ends the script ends the look.

    Args:
        config: of the trial.
        records: the trials before it.
        space: the knobs and their values.
        host: the share of the machine that one rank can use.
    """
    sizes = next(entry for entry in space if entry.knob == "batch_size")
    if config.compile or not sizes.is_searched or _is_known_mode(config, records):
        return ()
    known = [size for size in sizes.values if isinstance(size, int)]
    wanted = [
        min(known, key=lambda size: abs(math.log(size / (config.batch_size * factor)))) for factor in _FACTORS
    ]
    too_large = _ran_out(config, records)
    configs = [config.changed(batch_size=size) for size in dict.fromkeys(wanted) if size < too_large]
    if not configs:
        return ()
    fits_device = chances_to_fit(records, Columns.of(configs)) >= _LEAST_CHANCE
    fits = fits_device & fits_host(records, host, configs)
    return tuple(one.batch_size for one, this_fits in zip(configs, fits, strict=True) if this_fits)


def _ran_out(config: TrainConfig, records: Sequence[TrialRecord]) -> float:
    """Return the smallest batch size that ran out of memory in the config's precision."""
    return min(
        (
            record.config.batch_size
            for record in records
            if record.failure is not None
            and record.failure.kind.is_memory
            and record.config is not None
            and record.config.precision is config.precision
        ),
        default=math.inf,
    )


def _is_known_mode(config: TrainConfig, records: Sequence[TrialRecord]) -> bool:
    """Return whether an earlier trial of the search was asked in the mode, whatever it could see."""
    return any(
        record.role is TrialRole.SEARCH
        and record.measurement is not None
        and record.measurement.details is not None
        and record.config is not None
        and not record.config.compile
        and (record.config.precision, record.config.channels_last) == (config.precision, config.channels_last)
        for record in records
    )
