"""Whether a change of precision or of compile left the losses as they were. Pure.

Two runs are comparable when they differ in nothing else: other batches and other workers change the order of
the data, and with it every loss.
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
"""Common backward passes below which nothing is said."""

FALL_SHARE = 0.05
"""A loss that ends higher by less than this share of the baseline's own fall trains as well, in the few steps
that are seen: another seed moves it as much."""

LEVEL_SHARE = 0.05
"""The same as a share of the loss itself, where it does not fall: bf16 keeps 8 bits, so a loss may be off by
0.4%, and the sums of many such roundings by a few times that."""

CONFIDENCE = 0.99
"""Of each of the two ranges, within processes and between them, that an end must lie above."""

_LARGEST = 1e100
"""No training comes back from there, and its squares can't be distinguished from infinity."""

_BLOCKS = 8
"""Parts of a curve: long enough for the noise of single batches, short enough to see slow swings."""
_END_BLOCKS = 2
_START_BLOCKS = 1
_MIN_DEGREES = 3
"""With two or three baseline processes Student's t asks for differences that no training shows; the noise
within the processes, which must be exceeded too, stands in for the missing ones."""
_LONE_FACTOR = 1.5
"""One baseline process does not show how far another seed's would end: both shares are this much larger."""


@dataclass(frozen=True)
class LossVerdict:
    """A candidate's losses held against the baseline's."""

    outcome: LossOutcome
    steps: int = 0
    """Backward passes that were compared."""
    end_steps: int = 0
    """Of these, the last ones that the two means are of."""
    baseline_end: float | None = None
    """Mean loss of the last part, over the baseline's processes."""
    candidate_end: float | None = None
    spread: float | None = None
    """Standard deviation of the baseline's processes' own ends; None with one process."""
    why: str = ""
    """Why it is unknown."""


def judge_losses(
    baseline: Sequence[Sequence[float | None]], candidate: Sequence[float | None]
) -> LossVerdict:
    """Return what a candidate's losses say beside those of the unchanged script.

    Divergent is a loss that ends higher than the baseline's by more than chance (of the batches within a
    process, and of the seeds between processes) and by more than a share of what training achieved. A loss
    that stays where it started is one that ends higher by all of that.

    Args:
        baseline: of each fresh process of the unchanged script, the losses in order; None for one that is
            NaN or infinite.
        candidate: the same of the run that changed precision or compile.
    """
    longest = max((len(one) for one in baseline), default=0)
    usable = [one for one in baseline if len(one) >= max(MIN_STEPS, longest / 2)]
    steps = min((len(one) for one in (*usable, candidate)), default=0) if usable else 0
    # More losses that are none than any run of the unchanged script has.
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
    """Return the mean of each eighth of a curve; None where one has no finite loss."""
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
    """Return how far the end's difference may be off by the noise of the steps alone.

    The noise is what is left of the differences of the parts once a straight line is taken out: a loss that
    drifts away must not be taken for a noisy one.
    """
    count = len(differences)
    slope, start = linear_regression(range(count), differences)
    left = math.fsum((value - start - slope * index) ** 2 for index, value in enumerate(differences))
    return t_quantile(count - 2, CONFIDENCE) * math.sqrt(left / (count - 2) / _END_BLOCKS)


def _chance_between(spread: float, processes: int) -> float:
    """Return how far one more process of the baseline itself could end from the mean of those seen."""
    degrees = max(processes - 1, _MIN_DEGREES)
    return t_quantile(degrees, CONFIDENCE) * spread * math.sqrt(1 + 1 / processes)


class Mode(NamedTuple):
    """What changes the arithmetic and nothing else."""

    precision: Precision
    compile: bool

    @classmethod
    def of(cls, config: TrainConfig) -> "Mode":
        """Return a config's."""
        return cls(config.precision, config.compile)

    def applied_to(self, config: TrainConfig) -> TrainConfig:
        """Return the config with its mode changed."""
        return config.changed(**self._asdict())


@dataclass(frozen=True)
class GuardedMode:
    """A mode and what its losses say."""

    called: ClassVar = "another precision or compile"
    mode: Mode
    name: str
    """What it changes, such as "bf16 + compile"."""
    remedy: str
    """The flags that keep it out of a search."""
    verdict: LossVerdict
    trial: int | None = None
    """Whose losses were held against the baseline's; None without such a run."""


def guard_trials(records: Sequence[TrialRecord]) -> dict[Mode, list[TrialRecord]]:
    """Return the trials that guard each mode: of the baseline's config with only the mode changed."""
    baseline_config = _baseline_config(records)
    applied: dict[Mode, TrainConfig] = {}
    found: dict[Mode, list[TrialRecord]] = {}
    for record in records:
        if baseline_config is None or record.config is None or _has_too_few_losses(record):
            continue
        mode = Mode.of(record.config)
        if mode not in applied:  # building a config checks it, which takes long for thousands of trials
            applied[mode] = mode.applied_to(baseline_config)
        if mode != Mode.of(baseline_config) and record.config == applied[mode]:
            found.setdefault(mode, []).append(record)
    return found


def _has_too_few_losses(record: TrialRecord) -> bool:
    """Return whether a trial was given up before its losses could say anything: another one has to."""
    loop = record.measurement.loop if record.measurement else None
    return loop is not None and loop.is_abandoned and len(loop.losses) < MIN_STEPS


def guarded_modes(records: Sequence[TrialRecord], picks: Iterable[TrialRecord] = ()) -> list[GuardedMode]:
    """Return every mode that has a guarding trial, and every other that a pick has.

    Args:
        records: of the run.
        picks: what was chosen.
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
    """Return the modes whose losses diverge or are none: Conservative and Balanced don't take them."""
    bad = (LossOutcome.NONFINITE, LossOutcome.DIVERGENT)
    return frozenset(one.mode for one in guarded_modes(records) if one.verdict.outcome in bad)


def modes_due(records: Sequence[TrialRecord], picks: Iterable[TrialRecord]) -> list[Mode]:
    """Return the modes of the picks that no trial guards yet, none where the baseline had too few losses."""
    baseline_config = _baseline_config(records)
    if baseline_config is None or max(map(len, _baseline_losses(records)), default=0) < MIN_STEPS:
        return []
    known = {Mode.of(baseline_config), *guard_trials(records)}
    modes = dict.fromkeys(Mode.of(pick.config) for pick in picks if pick.config)
    return [mode for mode in modes if mode not in known]


def unchecked_modes(records: Sequence[TrialRecord], picks: Iterable[TrialRecord]) -> frozenset[Mode]:
    """Return the modes of the picks whose losses could be held against the baseline's, and were not."""
    if max(map(len, _baseline_losses(records)), default=0) < MIN_STEPS:
        return frozenset()
    unknown = (one for one in guarded_modes(records, picks) if one.verdict.outcome is LossOutcome.UNKNOWN)
    return frozenset(one.mode for one in unknown)


def mode_name(mode: Mode, baseline_config: TrainConfig) -> str:
    """Return what a mode changes of the baseline's own, such as "bf16 + compile"."""
    names = (str(mode.precision), "compile" if mode.compile else "no compile")
    return " + ".join(_of_changed(mode, Mode.of(baseline_config), names))


def loss_checks(records: Sequence[TrialRecord]) -> tuple[LossCheck, ...]:
    """Return what came of the losses of each mode that has a guarding trial."""
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
    """Return the texts of what a mode changes: precision, compile."""
    return [text for text, now, before in zip(texts, mode, own, strict=True) if now != before]
