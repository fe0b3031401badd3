"""Models device memory by batch size and mode: which configs fit, and with what probability.

    peak = fixed + per sample x batch size x factors of precision and compile

A config that ran gives its peak; one that ran out of memory shows that its peak exceeds the device's memory.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tunekit.predict.throughput.fit import Prior, fit
from tunekit.predict.throughput.observation import PRECISIONS, Columns, Floats
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.measurement import Measurement
from tunekit.records.trial import OutcomeKind, TrialRecord

_PEAK_NOISE = 0.04
_PREDICTED_NOISE = 0.15
"""Noise of peaks predicted from a trace and corrected by a measured peak."""
_FACTORS = {
    Precision.FP32: (0.0, 1e-6),
    Precision.TF32: (0.0, 0.03),
    Precision.BF16: (-0.4, 0.2),
    Precision.FP16: (-0.4, 0.2),
}
"""Prior mean and deviation of the log factor on the bytes per sample."""
_SCALE, _SHARE, _COMPILED, _FIRST_PRECISION = range(4)
_DRAWS = 64
_NORMAL_AS_LOGISTIC = 1.702


@dataclass(frozen=True)
class PeakSeen:
    """The reserved memory of one trial, or of one batch size that it tried; or that it ran out of memory."""

    config: TrainConfig
    reserved_bytes: float | None
    """None for a trial that ran out of device memory."""
    is_predicted: bool = False
    """Whether it was predicted from the trial's traced steps, corrected by its measured peak."""


def peaks_seen(records: Sequence[TrialRecord]) -> tuple[PeakSeen, ...]:
    """Return the peaks known from trials; empty on a CPU.

    Predicted peaks come first, so that measured ones of the same config follow them.
    """
    seen = [peak for record in records for peak in _peaks_predicted(record)]
    for record in records:
        if record.config is None:
            continue
        if record.measurement is not None and record.measurement.loop.peak_reserved_bytes:
            seen.append(PeakSeen(record.config, float(record.measurement.loop.peak_reserved_bytes)))
        elif record.failure and record.failure.kind is OutcomeKind.DEVICE_OOM and not record.neighbours:
            seen.append(PeakSeen(record.config, None))
        seen += _compute_sweep_peaks(record.config, record.measurement)
    return tuple(seen)


def _compute_sweep_peaks(config: TrainConfig, measurement: Measurement | None) -> list[PeakSeen]:
    sizes = measurement.details.sizes if measurement and measurement.details else None
    return [
        PeakSeen(config.changed(batch_size=one.batch_size), float(one.peak_reserved_bytes))
        for one in (sizes.sizes if sizes else ())
        if one.peak_reserved_bytes
    ]


def _peaks_predicted(record: TrialRecord) -> list[PeakSeen]:
    """Return peaks of other batch sizes predicted from a trial's steps, corrected by its own peak."""
    config, loop = record.config, record.measurement.loop if record.measurement else None
    if config is None or loop is None or not loop.peak_reserved_bytes:
        return []
    own = (config.precision, config.batch_size)
    predicted = {(one.precision, one.batch_size): one.reserved_bytes for one in record.predicted_peaks}
    if own not in predicted:
        return []
    factor = loop.peak_reserved_bytes / predicted.pop(own)
    return [
        PeakSeen(
            config.changed(precision=precision, batch_size=batch_size),
            factor * reserved_bytes,
            is_predicted=True,
        )
        for (precision, batch_size), reserved_bytes in predicted.items()
    ]


class DeviceMemoryModel:
    """Predicts the device memory that configs need from the trials so far.

    Args:
        seen: the trials' peaks, at least one of them measured.
        capacity_bytes: device memory available to torch.
    """

    def __init__(self, seen: Sequence[PeakSeen], capacity_bytes: float) -> None:
        first = next(one for one in seen if one.reserved_bytes is not None and not one.is_predicted)
        assert first.reserved_bytes is not None
        self._home, self._home_bytes = Columns.of([first.config]), first.reserved_bytes
        self._capacity = math.log(capacity_bytes)
        columns = Columns.of([one.config for one in seen])
        log_bytes = np.array(
            [math.log(one.reserved_bytes) if one.reserved_bytes else math.nan for one in seen]
        )
        noise = np.array([_PREDICTED_NOISE if one.is_predicted else _PEAK_NOISE for one in seen])
        ran_out = np.isnan(log_bytes)
        target = np.where(ran_out, self._capacity, log_bytes)

        def residuals(values: Floats) -> Floats:
            off = (self._log_bytes(values, columns) - target) / noise
            return np.asarray(np.where(ran_out, np.minimum(off, 0.0), off))

        factors = [_FACTORS[precision] for precision in PRECISIONS]
        means = np.array([0.0, -0.5, -0.1, *(mean for mean, _ in factors)])
        deviations = np.array([0.1, 1.0, 0.12, *(deviation for _, deviation in factors)])
        found = fit(residuals, Prior(means, deviations))
        # In each draw memory grows with the batch, so the chance to fit falls; slopes can't ensure that.
        chance = np.random.default_rng(0).standard_normal((_DRAWS // 2, len(means)))
        spread = np.linalg.cholesky(found.covariance)
        self._draws = found.values + np.concatenate([chance, -chance]) @ spread.T

    def chance_to_fit(self, columns: Columns, share: float) -> Floats:
        """Return the probability for each config to need at most a share of the device's memory."""
        room = self._capacity + math.log(share)
        chances = np.zeros(len(columns))
        for values in self._draws:
            chances += _below((room - self._log_bytes(values, columns)) / _PEAK_NOISE)
        return chances / len(self._draws)

    def _log_bytes(self, values: Floats, columns: Columns) -> Floats:
        share = 1 / (1 + np.exp(-np.clip(values[_SHARE], -300, 300)))
        grown = columns.batch_size / self._home.batch_size
        relative = np.exp(self._log_factor(values, columns) - self._log_factor(values, self._home))
        return np.asarray(
            math.log(self._home_bytes) + values[_SCALE] + np.log(share + (1 - share) * grown * relative)
        )

    def _log_factor(self, values: Floats, columns: Columns) -> Floats:
        return np.asarray(
            values[_FIRST_PRECISION + columns.precision] + columns.switches["compile"] * values[_COMPILED]
        )


def _below(deviations: Floats) -> Floats:
    """Return the normal distribution function within 0.01, by the logistic curve, which is faster."""
    return np.asarray(1 / (1 + np.exp(-_NORMAL_AS_LOGISTIC * np.clip(deviations, -300, 300))))
