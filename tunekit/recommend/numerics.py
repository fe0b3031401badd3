"""Whether a change of precision or compile leaves the losses intact. Pure.

Two runs are comparable if they differ in nothing else: other batches or workers change the order of the data
and so every loss.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, linear_regression, median, stdev
from typing import ClassVar, NamedTuple

from tunekit.recommend.noise import t_quantile
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.recommendation import LossCheck, LossOutcome
from tunekit.records.trial import OutcomeKind, TrialRecord
from tunekit.records.trials import Trials

MIN_STEPS = 16
"""Fewest common backward passes for a verdict."""

FALL_SHARE = 0.05
"""A loss that ends higher by less than this share of the baseline's own decrease counts as equal in the few
observed steps: another seed changes it as much."""

LEVEL_SHARE = 0.05
"""The same as a share of the loss itself, for a loss that doesn't decrease: bf16 keeps 8 bits, so a loss may
be off by 0.4%, and sums of many such roundings by a few times that."""

CONFIDENCE = 0.99
"""Confidence level of the two ranges, within and between processes, that a final loss must exceed."""

_LARGEST = 1e100
"""No training recovers from a larger loss, and its square may overflow to infinity."""

_BLOCKS = 8
"""Parts of a loss curve: long enough to average out single batches, short enough to show slow swings."""
_END_BLOCKS = 2
_START_BLOCKS = 1
_MIN_DEGREES = 3
"""With two or three baseline processes Student's t would require unrealistically large differences; the noise
within the processes, which must be exceeded too, makes up for the missing ones."""
_LONE_FACTOR = 1.5
"""One baseline process doesn't show how much seeds differ, so both shares are multiplied by this."""


@dataclass(frozen=True)
class LossVerdict:
    """A candidate's losses compared with the baseline's."""

    outcome: LossOutcome
    steps: int = 0
    """Number of backward passes that were compared."""
    end_steps: int = 0
    """Number of final passes that the two means cover."""
    baseline_end: float | None = None
    """Mean loss over the final passes of the baseline's processes."""
    candidate_end: float | None = None
    spread: float | None = None
    """Standard deviation of the final loss between baseline processes; None with one process."""
    why: str = ""
    """Why the outcome is unknown."""


def judge_losses(
    baseline: Sequence[Sequence[float | None]], candidate: Sequence[float | None]
) -> LossVerdict:
    """Return how a candidate's losses compare with those of the unchanged script.

    A loss is divergent if it ends higher than the baseline's by more than chance (of the batches within a
    process, and of the seeds between processes) and by more than a share of the baseline's decrease. This
    includes a loss that stays where it started.

    Args:
        baseline: the losses of each fresh process of the unchanged script, in order; None for a NaN or
            infinite one.
        candidate: the same for the run with another precision or compile setting.
    """
    longest = max((len(one) for one in baseline), default=0)
    usable = [one for one in baseline if len(one) >= max(MIN_STEPS, longest / 2)]
    steps = min((len(one) for one in (*usable, candidate)), default=0) if usable else 0
    # More non-finite losses than in any run of the unchanged script.
    if _missing(candidate) > max(map(_missing, baseline), default=0):
        return LossVerdict(LossOutcome.NONFINITE, steps=len(candidate))
    if not usable:
        return LossVerdict(LossOutcome.UNKNOWN, why=f"the baseline reported {longest} losses")
    if steps < MIN_STEPS:
        return LossVerdict(LossOutcome.UNKNOWN, steps=steps, why=f"only {steps} losses can be compared")
    theirs = [_block_means(one[:steps]) for one in usable]
    ours = _block_means(candidate[:steps])
    if ours is None or any(one is None for one in theirs):
        return LossVerdict(LossOutcome.UNKNOWN, steps=steps, why="too few of the losses are finite")
    return _compared([one for one in theirs if one is not None], ours, steps)


def _finite(losses: Sequence[float | None]) -> list[float]:
    return [loss for loss in losses if loss is not None and abs(loss) < _LARGEST]


def _missing(losses: Sequence[float | None]) -> int:
    return len(losses) - len(_finite(losses))


def _block_means(losses: Sequence[float | None]) -> list[float] | None:
    """Return the mean of each eighth of a curve; None if one has no finite loss."""
    borders = [round(index * len(losses) / _BLOCKS) for index in range(_BLOCKS + 1)]
    blocks = [_finite(losses[first:end]) for first, end in pairwise(borders)]
    return [fmean(block) for block in blocks] if all(blocks) else None


def _compared(theirs: list[list[float]], ours: list[float], steps: int) -> LossVerdict:
    ends = [fmean(one[-_END_BLOCKS:]) for one in theirs]
    end, our_end = fmean(ends), fmean(ours[-_END_BLOCKS:])
    fall = median(fmean(one[:_START_BLOCKS]) for one in theirs) - end
    spread = stdev(ends) if len(ends) > 1 else None
    usual = [fmean(values) for values in zip(*theirs, strict=True)]
    chance = _chance_within([own - other for own, other in zip(ours, usual, strict=True)])
    if spread is not None:
        chance = max(chance, _chance_between(spread, len(ends)))
    share = _LONE_FACTOR if spread is None else 1.0
    least = share * max(FALL_SHARE * fall, LEVEL_SHARE * abs(end))
    is_divergent = our_end - end > max(chance, least)
    return LossVerdict(
        LossOutcome.DIVERGENT if is_divergent else LossOutcome.OK,
        steps=steps,
        end_steps=round(steps * _END_BLOCKS / _BLOCKS),
        baseline_end=end,
        candidate_end=our_end,
        spread=spread,
    )


def _chance_within(differences: list[float]) -> float:
    """Return how far the final difference may be off by step noise only.

    The noise is the residual of the parts' differences around a straight line, so that a loss that drifts
    away isn't mistaken for a noisy one.
    """
    count = len(differences)
    slope, start = linear_regression(range(count), differences)
    left = math.fsum((value - start - slope * index) ** 2 for index, value in enumerate(differences))
    return t_quantile(count - 2, CONFIDENCE) * math.sqrt(left / (count - 2) / _END_BLOCKS)


def _chance_between(spread: float, processes: int) -> float:
    """Return how far another baseline process could end from the mean of the observed ones."""
    degrees = max(processes - 1, _MIN_DEGREES)
    return t_quantile(degrees, CONFIDENCE) * spread * math.sqrt(1 + 1 / processes)


class Mode(NamedTuple):
    """The knobs that change only the arithmetic."""

    precision: Precision
    compile: bool

    @classmethod
    def of(cls, config: TrainConfig) -> "Mode":
        """Return the mode of a config."""
        return cls(config.precision, config.compile)

    def applied_to(self, config: TrainConfig) -> TrainConfig:
        """Return the config with its mode changed."""
        return config.changed(**self._asdict())


@dataclass(frozen=True)
class GuardedMode:
    """A mode and the verdict on its losses."""

    called: ClassVar = "another precision or compile"
    mode: Mode
    name: str
    """What it changes, such as "bf16 + compile"."""
    remedy: str
    """The flags that keep it out of a search."""
    verdict: LossVerdict
    trial: int | None = None
    """The trial whose losses were compared with the baseline's; None without one."""


def guard_trials(records: Sequence[TrialRecord]) -> dict[Mode, list[TrialRecord]]:
    """Return the guarding trials of each mode, which run the baseline's config with only the mode changed."""
    baseline_config = _baseline_config(records)
    applied: dict[Mode, TrainConfig] = {}
    found: dict[Mode, list[TrialRecord]] = {}
    for record in records:
        if baseline_config is None or record.config is None or _has_too_few_losses(record):
            continue
        mode = Mode.of(record.config)
        if mode not in applied:  # building a config validates it, which is slow for thousands of trials
            applied[mode] = mode.applied_to(baseline_config)
        if mode != Mode.of(baseline_config) and record.config == applied[mode]:
            found.setdefault(mode, []).append(record)
    return found


def _has_too_few_losses(record: TrialRecord) -> bool:
    """Return whether a trial was given up before it had enough losses for a verdict."""
    loop = record.measurement.loop if record.measurement else None
    return loop is not None and loop.is_abandoned and len(loop.losses) < MIN_STEPS


def guarded_modes(records: Sequence[TrialRecord], picks: Iterable[TrialRecord] = ()) -> list[GuardedMode]:
    """Return every mode with a guarding trial, and the modes of the picks.

    Args:
        records: trial records of the run.
        picks: trials that were chosen.
    """
    baseline_config = _baseline_config(records)
    if baseline_config is None:
        return []
    trials = guard_trials(records)
    modes = dict.fromkeys([*trials, *(Mode.of(pick.config) for pick in picks if pick.config)])
    baseline = _baseline_losses(records)
    return [
        _judged(mode, baseline_config, baseline, trials.get(mode, []))
        for mode in modes
        if mode != Mode.of(baseline_config)
    ]


def excluded_modes(records: Sequence[TrialRecord]) -> frozenset[Mode]:
    """Return the modes with divergent or non-finite losses, which Conservative and Balanced don't take."""
    bad = (LossOutcome.NONFINITE, LossOutcome.DIVERGENT)
    return frozenset(one.mode for one in guarded_modes(records) if one.verdict.outcome in bad)


def modes_due(records: Sequence[TrialRecord], picks: Iterable[TrialRecord]) -> list[Mode]:
    """Return the picks' modes that no trial guards yet; none if the baseline had too few losses."""
    baseline_config = _baseline_config(records)
    if baseline_config is None or max(map(len, _baseline_losses(records)), default=0) < MIN_STEPS:
        return []
    known = {Mode.of(baseline_config), *guard_trials(records)}
    modes = dict.fromkeys(Mode.of(pick.config) for pick in picks if pick.config)
    return [mode for mode in modes if mode not in known]


def unchecked_modes(records: Sequence[TrialRecord], picks: Iterable[TrialRecord]) -> frozenset[Mode]:
    """Return the picks' modes whose losses could be compared with the baseline's but were not."""
    if max(map(len, _baseline_losses(records)), default=0) < MIN_STEPS:
        return frozenset()
    unknown = (one for one in guarded_modes(records, picks) if one.verdict.outcome is LossOutcome.UNKNOWN)
    return frozenset(one.mode for one in unknown)


def mode_name(mode: Mode, baseline_config: TrainConfig) -> str:
    """Return how a mode differs from the baseline's, such as "bf16 + compile"."""
    names = (str(mode.precision), "compile" if mode.compile else "no compile")
    return " + ".join(_of_changed(mode, Mode.of(baseline_config), names))


def loss_checks(records: Sequence[TrialRecord]) -> tuple[LossCheck, ...]:
    """Return the loss check of each mode that has a guarding trial."""
    return tuple(
        LossCheck(name=one.name, outcome=one.verdict.outcome, steps=one.verdict.steps)
        for one in guarded_modes(records)
        if one.trial is not None
    )


def _baseline_config(records: Sequence[TrialRecord]) -> TrainConfig | None:
    baseline = Trials(tuple(records)).baseline
    return baseline.config if baseline else None


def _baseline_losses(records: Sequence[TrialRecord]) -> list[tuple[float | None, ...]]:
    return [r.measurement.loop.losses for r in records if r.is_baseline_config and r.measurement]


def _judged(
    mode: Mode,
    baseline_config: TrainConfig,
    baseline: Sequence[Sequence[float | None]],
    trials: Sequence[TrialRecord],
) -> GuardedMode:
    wrong = [r for r in trials if r.failure and r.failure.kind is OutcomeKind.NONFINITE_LOSS]
    deciding = next(iter((*wrong, *(r for r in trials if r.measurement), *trials)), None)
    return GuardedMode(
        mode=mode,
        name=mode_name(mode, baseline_config),
        remedy=_remedy(mode, baseline_config),
        verdict=_verdict(baseline, deciding),
        trial=deciding.number if deciding else None,
    )


def _verdict(baseline: Sequence[Sequence[float | None]], trial: TrialRecord | None) -> LossVerdict:
    failure, measurement = (trial.failure, trial.measurement) if trial else (None, None)
    if failure is not None and failure.kind is OutcomeKind.NONFINITE_LOSS:
        return LossVerdict(LossOutcome.NONFINITE, why=failure.message)
    if measurement is not None and baseline:
        return judge_losses(baseline, measurement.loop.losses)
    why = "no time was left in the budget to run it"
    if failure is not None:
        why = f"its run ended as {failure.kind}: {failure.message}"
    elif not baseline:
        why = "the baseline was not measured"
    elif (most := max(map(len, baseline))) < MIN_STEPS:
        why = f"the baseline reported {most} losses"
    return LossVerdict(LossOutcome.UNKNOWN, why=why)


def _remedy(mode: Mode, baseline_config: TrainConfig) -> str:
    own = Mode.of(baseline_config)
    flags = (f"--fix precision={own.precision}", f"--fix compile={str(own.compile).lower()}")
    return " or ".join(_of_changed(mode, own, flags))


def _of_changed(mode: Mode, own: Mode, texts: tuple[str, str]) -> list[str]:
    """Return those of the two texts (precision, compile) that a mode changes."""
    return [text for text, now, before in zip(texts, mode, own, strict=True) if now != before]
