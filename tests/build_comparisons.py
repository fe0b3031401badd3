"""Whole runs for tests of comparisons: searched, confirmed and assembled as a search does it."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from build_records import baseline_record, config, confirm_records, options, run, trial_record

from tunekit.diagnose.compare import compare_runs
from tunekit.diagnose.run_pair import Side
from tunekit.recommend.noise import noise_floor
from tunekit.recommend.recommendation import answer_of
from tunekit.records.attribution import StepParts
from tunekit.records.comparison import RunComparison
from tunekit.records.config import TrainConfig
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord
from tunekit.session.assemble import assemble

OWN = config()
TUNED = config(batch_size=512, num_workers=4)


def searched(
    rates: Sequence[float] = (980.0, 970.0, 990.0),
    own_rates: Sequence[float] = (500.0, 505.0, 495.0),
    tuned: TrainConfig = TUNED,
    loop: dict[str, Any] | None = None,
    **overrides: Any,
) -> Run:
    """A finished search whose Balanced is `tuned` at these rates, and its baseline at the others.

    `loop` overrides what every loop of it has; the other overrides are the run's.
    """
    more = loop or {}
    baselines = tuple(
        record.model_copy(update={"is_baseline_config": True})
        for record in confirm_records(list(own_rates), OWN, first_number=50, **more)
    )
    first = (baseline_record(rate=own_rates[0], of=OWN, **more), trial_record(1, rates[0], tuned, **more))
    again = confirm_records(list(rates), tuned, first_number=70, **more)
    asked = options(confirm_rounds=len(rates))
    return assemble(run(trials=(), **{"options": asked, **overrides}), (*first, *baselines, *again))


def measured_again(of: Run, own_rates: Sequence[float], rates: Sequence[float]) -> Run:
    """The run with these rates of its baseline and its Balanced, one of each in a round."""
    (balanced,) = [one for one in of.recommendations if one.tier == "balanced"]
    templates = (of.history.evidence(None)[0].record, of.history.evidence(balanced)[0].record)
    numbers = range(1000, 1000 + 2 * len(rates))
    trials = [
        _at_rate(template, rate).changed(number=number, round=number // 2 - 500)
        for number, template, rate in zip(
            numbers,
            templates * len(rates),
            chain.from_iterable(zip(own_rates, rates, strict=True)),
            strict=True,
        )
    ]
    again = balanced.changed(confirm_trials=tuple(numbers[1::2]))
    return of.changed(
        trials=tuple(trials), recommendations=(again,), noise_floor=noise_floor(own_rates), missing_tiers=()
    )


def _at_rate(record: TrialRecord, rate: float) -> TrialRecord:
    """The trial with all of its loop's times stretched alike."""
    assert record.measurement is not None
    loop = record.measurement.loop
    by = loop.rate_samples_per_s / rate
    parts = StepParts(**{part: seconds and seconds * by for part, seconds in loop.parts})
    ends_s = loop.boundary_s and loop.boundary_s * by
    stretched = loop.changed(steady_time_s=loop.steady_time_s * by, parts=parts, boundary_s=ends_s)
    return record.changed(measurement=record.measurement.changed(loop=stretched))


def slower(share: float, **overrides: Any) -> Run:
    """The same search where all of the tuned config's processes took that share longer: none, 0.25, ..."""
    return searched(rates=[rate / (1 + share) for rate in (980.0, 970.0, 990.0)], **overrides)


def side(name: str, of: Run, folder: str | None = None) -> Side:
    """A run with the config that its answer speaks of."""
    return Side(name, folder or f"reports/{name.lower()}", of, answer_of(of.recommendations))


def compared(*runs: Run, tolerance: float = 0.05) -> RunComparison:
    """These runs, the first as the reference, in folders named as they are."""
    sides = [side(name, one) for name, one in zip("ABCDEFGHIJKLMNOPQRST", runs, strict=False)]
    return compare_runs(sides, tolerance, "1.0.0")


def waiting(of: Run, wait_s: float) -> Run:
    """The run, each process of its tuned config waiting so many seconds more for 1,000 samples."""
    records = []
    for record in of.trials:
        measured = record.measurement
        if measured is None or record.is_baseline_config:
            records.append(record)
            continue
        loop = measured.loop
        more_s = wait_s * loop.steady_samples / 1000
        parts = loop.parts.changed(data_wait_s=loop.parts.data_wait_s + more_s)
        slow = loop.model_copy(update={"steady_time_s": loop.steady_time_s + more_s, "parts": parts})
        again = measured.model_copy(update={"loop": slow})
        records.append(record.model_copy(update={"measurement": again}))
    return assemble(of.model_copy(update={"trials": ()}), tuple(records))
