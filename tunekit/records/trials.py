"""The trials of one run, grouped by role, and those that were measured in a known config."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from tunekit.records.config import TrainConfig
from tunekit.records.measurement import LoopMeasurement, Measurement
from tunekit.records.recommendation import Recommendation
from tunekit.records.target import Discovery
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole


class Measured(NamedTuple):
    """A trial of a known config that gave a measurement."""

    record: TrialRecord
    config: TrainConfig
    measurement: Measurement

    @property
    def loop(self) -> LoopMeasurement:
        """The training loop, as the agent saw it."""
        return self.measurement.loop


def measured(records: Iterable[TrialRecord]) -> list[Measured]:
    """Return the measured trials of known configs in their order, typed so that neither is optional."""
    return [
        Measured(record, record.config, record.measurement)
        for record in records
        if record.config is not None and record.measurement is not None
    ]


def rates_by_round(records: Iterable[TrialRecord]) -> dict[int, float]:
    """Return samples/s by round, of the measured trials that no other process disturbed."""
    return {
        record.round: record.measurement.rate_samples_per_s
        for record in records
        if record.round is not None and record.measurement and not record.neighbours
    }


def rates_by_config(records: Iterable[TrialRecord]) -> dict[TrainConfig, list[float]]:
    """Return samples/s by config, of the trials that were run for their rate and not given up early."""
    rates: dict[TrainConfig, list[float]] = {}
    for one in measured(records):
        if one.record.role is not TrialRole.NUMERICS and not one.record.is_abandoned:
            rates.setdefault(one.config, []).append(one.measurement.rate_samples_per_s)
    return {config: each for config, each in rates.items() if min(each) > 0}


@dataclass(frozen=True)
class Trials:
    """The trial records of one run, grouped by role."""

    records: tuple[TrialRecord, ...]

    @property
    def baseline(self) -> TrialRecord | None:
        """The first baseline trial; it may have failed."""
        return next((record for record in self.records if record.role is TrialRole.BASELINE), None)

    @property
    def discovery(self) -> Discovery | None:
        """What was learned about the target: the first complete discovery, else the last partial one."""
        seen = [record.discovery for record in self.records if record.discovery is not None]
        return next((one for one in seen if one.complete), seen[-1] if seen else None)

    @property
    def candidates(self) -> tuple[TrialRecord, ...]:
        """Measured baseline and search trials whose config didn't fail in confirmation.

        Excluded are configs that need at least as much device memory as one that ran out of it on the data
        set's largest samples, and trials that were given up early, whose rate says only that they are too
        slow. Of two trials of one config the more certain one counts.
        """
        unfit = {r.config for r in self.confirming if r.failure and r.failure.kind is not OutcomeKind.REFUSED}
        sure = without_superseded(self.records)
        measured = (r for r in sure if r.role.is_candidate and r.measurement and not r.is_abandoned)
        fit = (record for record in measured if record.config not in unfit)
        return tuple(r for r in fit if r.config is None or not self._is_too_much(r.config))

    @property
    def confirmed(self) -> tuple[TrialRecord, ...]:
        """The candidates that fresh processes confirmed.

        A finished search chooses among these. The noise floor, known only after confirmation, could otherwise
        make an unconfirmed config the smallest that is close enough, with no time left to confirm it.
        """
        confirmed = {record.config for record in self.confirming if record.measurement}
        return tuple(record for record in self.candidates if record.config in confirmed)

    @property
    def searched(self) -> tuple[TrialRecord, ...]:
        """Search trials, failed ones included."""
        return tuple(record for record in self.records if record.role is TrialRole.SEARCH)

    @property
    def confirming(self) -> tuple[TrialRecord, ...]:
        """Fresh interleaved processes that no other process on their GPU disturbed."""
        return tuple(r for r in self.records if r.role is TrialRole.CONFIRM and not r.neighbours)

    @property
    def ablating(self) -> tuple[TrialRecord, ...]:
        """Fresh interleaved processes of the answer's config, with and without one knob reset."""
        return tuple(record for record in self.records if record.role is TrialRole.ABLATION)

    @property
    def baseline_confirm(self) -> tuple[TrialRecord, ...]:
        """Fresh processes of the baseline."""
        return tuple(record for record in self.confirming if record.is_baseline_config)

    def confirm_of(self, config: TrainConfig) -> tuple[TrialRecord, ...]:
        """Return the fresh processes of one config."""
        return tuple(record for record in self.confirming if record.config == config)

    def evidence(self, tier: Recommendation | None) -> list[Measured]:
        """Return the trials that a tier's figures come from, or the baseline's for None.

        These are its fresh processes, else the trial that found it.
        """
        if tier is None:
            baselines = (one for one in self.records if one.is_baseline_config)
            return measured(self.baseline_confirm) or measured(baselines)[:1]
        confirming = measured(one for one in self.records if one.number in tier.confirm_trials)
        return confirming or measured(one for one in self.records if one.number == tier.search_trial)

    def _is_too_much(self, config: TrainConfig) -> bool:
        """Return whether a config needs at least as much memory as one that failed in confirmation.

        That one ran out of device memory on a batch of the largest samples; need depends on batch, precision,
        compile and channels_last. A config that was itself measured in confirmation is not too much.
        """
        if any(record.config == config and record.measurement for record in self.confirming):
            return False
        failed = (
            record.config
            for record in self.confirming
            if record.failure and record.failure.largest and record.failure.kind is OutcomeKind.DEVICE_OOM
        )
        return any(
            one is not None
            and one.batch_size <= config.batch_size
            and _memory_mode(one) == _memory_mode(config)
            for one in failed
        )


def _memory_mode(config: TrainConfig) -> tuple[object, ...]:
    return config.precision, config.compile, config.channels_last


def without_superseded(records: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Return the records without search trials whose config another one measured with more certainty.

    A disturbed trial is run again, and one that was given up early may be run to its end; the more certain
    of the two represents the config.
    """
    kept = list(records)
    surest: dict[TrainConfig | None, TrialRecord] = {}
    for record in filter(_is_measured_search, kept):
        known = surest.setdefault(record.config, record)
        if _uncertainty(record) < _uncertainty(known):
            surest[record.config] = record
    return [one for one in kept if not _is_measured_search(one) or surest[one.config] is one]


def _is_measured_search(record: TrialRecord) -> bool:
    return record.role is TrialRole.SEARCH and record.measurement is not None


def _uncertainty(record: TrialRecord) -> tuple[bool, float]:
    interval = record.measurement.loop.rate_interval_relative if record.measurement else None
    return record.is_abandoned, math.inf if interval is None else interval
