"""Whether the script's schedules and step limits adapt to another batch size. Pure.

A trial sees only seconds of a schedule, so the script's computed step counts are checked: one that covers
whole
epochs, or the whole training, must change in proportion to the steps that the same samples take.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from tunekit.records.config import TrainConfig
from tunekit.records.data_check import Difference, DifferenceCode
from tunekit.records.target import StepNumber
from tunekit.records.trial import TrialRecord
from tunekit.trial.knob_names import STEP_NAMES, WARM_UP_NAMES, plain_name

_MIN_EPOCH_STEPS = 8
"""Fewest steps per epoch to check; multiples of smaller numbers occur by chance."""
_MIN_FOLLOWING, _MAX_FOLLOWING = 0.5, 1.5
"""Accepted ratio of a number's change to the steps' change, both as logarithms; rounding makes it inexact."""
_MAX_DIFFERENCES = 16
_WARM_UPS = ("LinearLR", "ConstantLR")
"""Schedulers whose length covers only the warm-up."""


def schedule_differences(baseline: TrialRecord, trial: TrialRecord) -> tuple[Difference, ...]:
    """Return the script's step counts and loaders that don't adapt to the changed batch size.

    Args:
        baseline: a trial of the unchanged script.
        trial: a trial of another config; workers, prefetching and the like don't affect step counts.
    """
    before, now = baseline.config, trial.config
    if before is None or now is None:
        return ()
    by_batches = before.batch_size / now.batch_size
    by_steps = by_batches * before.accumulate_grad_batches / now.accumulate_grad_batches
    epoch_batches = baseline.measurement.loop.epoch_batches if baseline.measurement else None
    found: dict[Difference, None] = {}
    for one, other in _paired(baseline.step_numbers, trial.step_numbers):
        is_of_steps, is_of_batches = _unit_of(one, epoch_batches, before)
        factors = [by_steps] * is_of_steps + [by_batches] * is_of_batches
        if factors and not any(_follows(one.steps, other.steps, factor) for factor in factors):
            found[_difference(other, one.steps * factors[0])] = None
        ends = [_last_step(numbers) for numbers in (baseline.step_numbers, trial.step_numbers)]
        if plain_name(one.name) in WARM_UP_NAMES and one.steps < ends[0] and other.steps >= ends[1]:
            found[_difference(other, one.steps * by_steps)] = None
    return (*_of_loaders(baseline, trial, by_batches), *found)[:_MAX_DIFFERENCES]


def _of_loaders(baseline: TrialRecord, trial: TrialRecord, by_batches: float) -> Iterator[Difference]:
    """Yield a difference if other loaders keep their batch size, judged by the samples per epoch."""
    loaders = baseline.discovery.loaders if baseline.discovery else ()
    beside = sum(one.step_samples or 0.0 for one in loaders if not one.training)
    if not beside or by_batches == 1 or baseline.measurement is None or trial.measurement is None:
        return
    before, now = baseline.measurement.loop, trial.measurement.loop
    if None in (before.epoch_samples, now.epoch_samples, before.epoch_batches, now.epoch_batches):
        return
    changed = (now.epoch_samples or 0) - (before.epoch_samples or 0)
    if_kept = beside * ((now.epoch_batches or 0) - (before.epoch_batches or 0))
    if abs(changed - if_kept) < abs(changed):
        yield Difference(code=DifferenceCode.LOADER_RATIO, affected=beside / by_batches, of=beside)


def _last_step(numbers: Iterable[StepNumber]) -> float:
    return min((one.steps for one in numbers if plain_name(one.name) in STEP_NAMES), default=math.inf)


def _paired(
    before: Iterable[StepNumber], now: Iterable[StepNumber]
) -> Iterator[tuple[StepNumber, StepNumber]]:
    known = dict(_numbered(now))
    for place, one in _numbered(before):
        if place in known:
            yield one, known[place]


def _numbered(numbers: Iterable[StepNumber]) -> Iterator[tuple[tuple[str, str, int], StepNumber]]:
    seen: Counter[tuple[str, str]] = Counter()
    for one in numbers:
        place = one.source, one.name
        yield (*place, seen[place]), one
        seen[place] += 1


def _unit_of(one: StepNumber, epoch_batches: int | None, config: TrainConfig) -> tuple[bool, bool]:
    """Return whether a number counts optimizer steps, and whether it may count loop batches."""
    of_steps = of_batches = False
    if epoch_batches is not None:
        epoch_steps = epoch_batches / config.accumulate_grad_batches
        of_steps = any(_is_multiple(one.steps, round_(epoch_steps)) for round_ in (math.floor, math.ceil))
        of_batches = _is_multiple(one.steps, epoch_batches)
    is_whole = one.is_option or (plain_name(one.name) in STEP_NAMES and one.source not in _WARM_UPS)
    return of_steps or is_whole, of_batches or is_whole


def _is_multiple(number: int, of: int) -> bool:
    return of >= _MIN_EPOCH_STEPS and number % of == 0


def _follows(before: int, now: int, factor: float) -> bool:
    if math.isclose(factor, 1.0):
        return True
    return _MIN_FOLLOWING <= math.log(now / before) / math.log(factor) <= _MAX_FOLLOWING


def _difference(stayed: StepNumber, expected: float) -> Difference:
    code = DifferenceCode.STEPS if stayed.is_option else DifferenceCode.SCHEDULE
    is_flag = stayed.is_option or stayed.source.startswith("-")
    value = f" {stayed.steps}" if is_flag else f"({stayed.name}={stayed.steps})"
    return Difference(code=code, affected=round(expected), of=stayed.steps, example=f"{stayed.source}{value}")
