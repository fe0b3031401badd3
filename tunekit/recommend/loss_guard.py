"""The numerics guard: which modes of precision and compile may be recommended, by their losses. Pure.

A mode is guarded by a run of the baseline's own config with only that mode changed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tunekit.recommend.numerics import LEAST_STEPS, LossOutcome, LossVerdict, judge_losses
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole

_FLAGS = {True: "compile", False: "no compile"}


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
    own = _baseline_config(records)
    found: dict[Mode, list[TrialRecord]] = {}
    for record in records:
        if own is None or record.config is None or record.is_baseline_config or _told_too_few(record):
            continue
        mode = Mode.of(record.config)
        if mode != Mode.of(own) and record.config == mode.applied_to(own):
            found.setdefault(mode, []).append(record)
    return found


def _told_too_few(record: TrialRecord) -> bool:
    """Return whether a trial was given up before its losses could say anything: another one has to."""
    loop = record.measurement.loop if record.measurement else None
    return loop is not None and loop.is_abandoned and len(loop.losses) < LEAST_STEPS


def guarded_modes(records: Sequence[TrialRecord], picks: Iterable[TrialRecord] = ()) -> list[GuardedMode]:
    """Return every mode that has a guarding trial, and every other that a pick has.

    Args:
        records: of the run.
        picks: what was chosen.
    """
    own = _baseline_config(records)
    if own is None:
        return []
    trials = guard_trials(records)
    modes = dict.fromkeys([*trials, *(Mode.of(pick.config) for pick in picks if pick.config)])
    baseline = _baseline_losses(records)
    return [_judged(mode, own, baseline, trials.get(mode, [])) for mode in modes if mode != Mode.of(own)]


def barred_modes(records: Sequence[TrialRecord]) -> frozenset[Mode]:
    """Return the modes whose losses diverge or are none: Conservative and Balanced don't take them."""
    return frozenset(one.mode for one in guarded_modes(records) if one.verdict.outcome.is_bad)


def modes_due(records: Sequence[TrialRecord], picks: Iterable[TrialRecord]) -> list[Mode]:
    """Return the modes of the picks that no trial guards yet, none where the baseline told too few losses."""
    own = _baseline_config(records)
    if own is None or max(map(len, _baseline_losses(records)), default=0) < LEAST_STEPS:
        return []
    known = {Mode.of(own), *guard_trials(records)}
    modes = dict.fromkeys(Mode.of(pick.config) for pick in picks if pick.config)
    return [mode for mode in modes if mode not in known]


def mode_name(mode: Mode, own: TrainConfig) -> str:
    """Return what a mode changes of the baseline's own, such as "bf16 + compile"."""
    changes = [str(mode.precision)] if mode.precision is not own.precision else []
    return " + ".join([*changes, *([_FLAGS[mode.compile]] if mode.compile != own.compile else [])])


def losses_line(guarded: Iterable[GuardedMode]) -> str:
    """Return the verdicts in one line; nothing for modes without a run.

    Such as "losses: bf16, compile agree with the baseline over 64 steps (measured)".
    """
    judged = [one for one in guarded if one.trial is not None]
    agreeing: dict[int, list[str]] = {}
    for one in judged:
        if one.verdict.outcome is LossOutcome.OK:
            agreeing.setdefault(one.verdict.steps, []).append(one.name)
    parts = [
        f"{', '.join(names)} {'agrees' if len(names) == 1 else 'agree'} with the baseline over {steps} steps "
        "(measured)"
        for steps, names in agreeing.items()
    ]
    told = {
        LossOutcome.DIVERGENT: "ends higher than the baseline (measured)",
        LossOutcome.NONFINITE: "is NaN or infinite (measured)",
        LossOutcome.UNKNOWN: "n/a",
    }
    parts += [f"{one.name} {told[one.verdict.outcome]}" for one in judged if one.verdict.outcome in told]
    return f"losses: {'; '.join(parts)}" if parts else ""


def _baseline_config(records: Sequence[TrialRecord]) -> TrainConfig | None:
    return next((record.config for record in records if record.role is TrialRole.BASELINE), None)


def _baseline_losses(records: Sequence[TrialRecord]) -> list[tuple[float | None, ...]]:
    return [r.measurement.loop.losses for r in records if r.is_baseline_config and r.measurement]


def _judged(
    mode: Mode,
    own: TrainConfig,
    baseline: Sequence[Sequence[float | None]],
    trials: Sequence[TrialRecord],
) -> GuardedMode:
    wrong = next((r for r in trials if r.failure and r.failure.kind is OutcomeKind.NONFINITE_LOSS), None)
    measured = next((record for record in trials if record.measurement), None)
    deciding = wrong or measured or (trials[0] if trials else None)
    return GuardedMode(
        mode=mode,
        name=mode_name(mode, own),
        remedy=_remedy(mode, own),
        verdict=_verdict(baseline, deciding),
        trial=deciding.number if deciding else None,
    )


def _verdict(baseline: Sequence[Sequence[float | None]], trial: TrialRecord | None) -> LossVerdict:
    if trial is not None and trial.failure is not None:
        if trial.failure.kind is OutcomeKind.NONFINITE_LOSS:
            return LossVerdict(LossOutcome.NONFINITE, processes=len(baseline), why=trial.failure.message)
        return LossVerdict(
            LossOutcome.UNKNOWN, why=f"its run ended as {trial.failure.kind}: {trial.failure.message}"
        )
    if trial is not None and trial.measurement is not None and baseline:
        return judge_losses(baseline, trial.measurement.loop.losses)
    if not baseline:
        return LossVerdict(LossOutcome.UNKNOWN, why="the baseline was not measured")
    most = max(map(len, baseline))
    if most < LEAST_STEPS:
        return LossVerdict(LossOutcome.UNKNOWN, why=f"the baseline told {most} losses")
    return LossVerdict(LossOutcome.UNKNOWN, why="no time was left in the budget to run it")


def _remedy(mode: Mode, own: TrainConfig) -> str:
    flags = [f"--fix precision={own.precision}"] if mode.precision is not own.precision else []
    if mode.compile != own.compile:
        flags.append(f"--fix compile={str(own.compile).lower()}")
    return " or ".join(flags)
