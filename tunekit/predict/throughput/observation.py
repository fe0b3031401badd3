"""The throughput model's input: configs as columns, and each trial's times per loop batch."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tunekit.records.config import SWITCH_KNOBS, Precision, TrainConfig
from tunekit.records.details import IsolatedRates
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.records.trials import Measured, measured

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

PRECISIONS = tuple(Precision)
_MIN_CPU_SHARE = 0.02
_SHARED_SPREAD = 1.0
"""Relative spread of a step while another process was on the GPU, which may have taken half of the time."""


@dataclass(frozen=True)
class Columns:
    """One entry per config in each array."""

    batch_size: Floats
    workers: Floats
    prefetch: Floats
    """0 without workers."""
    precision: NDArray[np.int64]
    """Index into PRECISIONS."""
    switches: dict[str, Flags]
    """For each switch knob, whether it is on."""

    @classmethod
    def of(cls, configs: Sequence[TrainConfig]) -> "Columns":
        """Return the columns of some configs, in their order."""
        return cls(
            batch_size=np.array([config.batch_size for config in configs], dtype=float),
            workers=np.array([config.num_workers for config in configs], dtype=float),
            prefetch=np.array([config.prefetch_factor or 0 for config in configs], dtype=float),
            precision=np.array([PRECISIONS.index(config.precision) for config in configs], dtype=np.int64),
            switches={
                knob: np.array([getattr(config, knob) for config in configs], dtype=bool)
                for knob in SWITCH_KNOBS
            },
        )

    def __len__(self) -> int:
        return len(self.batch_size)

    def take(self, places: NDArray[np.int64]) -> "Columns":
        """Return the columns of the configs at some indexes."""
        arrays = {name: values[places] for name, values in vars(self).items() if name != "switches"}
        return Columns(**arrays, switches={knob: on[places] for knob, on in self.switches.items()})


@dataclass(frozen=True)
class Observation:
    """The times of a measured trial, or of one half of its loop with another batch size or number of workers.

    Every time is in seconds per loop batch unless stated otherwise; None if it was not measured.
    """

    config: TrainConfig
    step_s: float | None = None
    """Over the steady window."""
    compute_s: float | None = None
    """The step without the wait for data, while the workers were busy."""
    fetch_s: float | None = None
    """Time one process takes to make a batch."""
    fetch_cpu_s: float | None = None
    """CPU time that one process takes to make a batch."""
    loader_alone_s: float | None = None
    """Time between batches of the loader alone."""
    compute_alone_s: float | None = None
    """Time between steps of the training alone."""
    boundary_s: float | None = None
    """Seconds per epoch boundary, in excess of steady steps."""
    step_spread: float | None = None
    """Half width of the 95% interval of step_s, or its drift if larger, as a share of step_s."""


def observations(records: Iterable[TrialRecord]) -> tuple[Observation, ...]:
    """Return the observations of measured trials in their order, except those that only check losses.

    Each trial's observation is followed by those of its sweeps: of training alone at other batch sizes, and
    of the loader alone with other numbers of workers.
    """
    return tuple(
        one
        for trial in measured(records)
        if trial.record.role is not TrialRole.NUMERICS
        for one in (_observed(trial), *_sweep_observations(trial))
    )


def _sweep_observations(trial: Measured) -> tuple[Observation, ...]:
    config, details = trial.config, trial.measurement.details
    if trial.record.neighbours:
        return ()
    sizes = details.sizes.sizes if details and details.sizes else ()
    return (
        *(
            Observation(config.changed(batch_size=one.batch_size), compute_alone_s=one.step_s)
            for one in sizes
        ),
        *(
            Observation(config.changed(num_workers=one.num_workers), loader_alone_s=one.step_s)
            for one in trial.measurement.isolated.workers
        ),
    )


def _observed(trial: Measured) -> Observation:
    config, loop = trial.config, trial.loop
    isolated = IsolatedRates() if trial.record.neighbours else trial.measurement.isolated
    work = loop.loader_work
    fetch_s = work.batch_s if work else None
    share = work.cpu_share if work else None
    interval, on_device = loop.rate_interval_relative, loop.device_parts
    interval = _SHARED_SPREAD if trial.record.neighbours else interval
    if on_device is not None:
        compute_s = (on_device.time_s - on_device.stall_s) / on_device.batches
    else:
        compute_s = (loop.steady_time_s - loop.parts.data_wait_s) / loop.steady_batches
    # An epoch's last batch may be smaller, so times are scaled to full batches.
    full = config.batch_size * loop.steady_batches / loop.steady_samples
    # Workers that load a whole epoch at once deliver it in a burst, which says nothing about step time.
    in_burst = 0 < (loop.epoch_samples or 0) <= config.num_workers * config.batch_size
    return Observation(
        config=config,
        step_s=None if in_burst else full * loop.step_time_s,
        compute_s=full * compute_s if compute_s > 0 else None,
        fetch_s=fetch_s if fetch_s and fetch_s > 0 else None,
        fetch_cpu_s=fetch_s * min(1.0, max(share, _MIN_CPU_SHARE)) if fetch_s and share else None,
        loader_alone_s=isolated.loader_step_s,
        compute_alone_s=isolated.compute_step_s,
        boundary_s=None if in_burst else loop.boundary_s,
        step_spread=None if interval is None else max(interval, abs(loop.rate_trend_relative or 0.0)),
    )
