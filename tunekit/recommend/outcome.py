"""The result of a search: the first word of the answer, and what would settle an open one. Pure."""

from collections.abc import Sequence

from tunekit.recommend.noise import (
    BUSY_FLOOR,
    MAX_WORTHWHILE_ROUNDS,
    confidence,
    rounds_to_tell,
    spread,
    verdict,
)
from tunekit.recommend.recommendation import answer_of
from tunekit.records.interval import Interval
from tunekit.records.recommendation import (
    AnswerKind,
    Outcome,
    OutcomeWord,
    Recommendation,
    Settling,
    Verdict,
)
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord, TrialRole

LARGE_FACTOR = 1.5
"""Predicted speedup over the answer from which an untried config is mentioned first."""

_WORDS: dict[Verdict, OutcomeWord] = {
    "faster": OutcomeWord.CONFIRMED,
    "slower": OutcomeWord.SLOWER,
    "no gain": OutcomeWord.NO_GAIN,
    "inconclusive": OutcomeWord.INCONCLUSIVE,
}
NEXT_STEPS = {
    OutcomeWord.CONFIRMED: "take the config",
    OutcomeWord.NO_GAIN: "keep your current settings",
    OutcomeWord.INCONCLUSIVE: "do what the answer says: use a quieter machine, or more rounds",
    OutcomeWord.SLOWER: "take the config only for its headroom",
    OutcomeWord.NOT_CONFIRMED: "run the command in the answer to repeat it",
    OutcomeWord.NOT_ALL_TRIED: "run the command in the answer to try it",
}
"""What to do after each outcome."""


def outcome_of(run: Run) -> Outcome:
    """Return the outcome of a run that has its recommendations and candidate."""
    best, noise = answer_of(run.recommendations), run.noise_floor
    if best is None:
        return Outcome()
    searched = [one for one in run.trials if one.role is TrialRole.SEARCH and one.measurement is not None]
    kind, speedup, rounds = _kind(run, best, searched)
    judged = verdict(speedup, noise) if speedup else None
    untried = run.untried.rate_samples_per_s / best.rate_samples_per_s.value if run.untried else 0.0
    word = _WORDS[judged] if judged else None
    if kind is AnswerKind.OPEN:
        word = word or OutcomeWord.NOT_CONFIRMED
    elif kind is AnswerKind.NONE_FASTER:
        word = OutcomeWord.NOT_ALL_TRIED if untried >= LARGE_FACTOR else OutcomeWord.NO_GAIN
    is_busy, sure, settled_by, needed = _is_busy(run, best), None, None, None
    if speedup and judged != "inconclusive":
        sure = "low" if is_busy else confidence(speedup, noise)
    if kind in (AnswerKind.RECOMMENDED, AnswerKind.OPEN):
        settled_by, needed = _settled_by(run, kind, speedup, rounds, judged, is_busy)
    return Outcome(
        kind=kind,
        word=word,
        confidence=sure,
        is_busy=is_busy,
        tier=best.tier,
        speedup=speedup,
        verdicts={
            one.tier: verdict(one.speedup, noise)
            for one in run.recommendations
            if one.speedup and not one.is_baseline
        },
        tried=len({one.config for one in searched}),
        settled_by=settled_by,
        rounds_to_settle=needed,
        untried_factor=untried if untried >= LARGE_FACTOR else None,
    )


def _kind(
    run: Run, best: Recommendation, searched: Sequence[TrialRecord]
) -> tuple[AnswerKind, Interval | None, int]:
    """Return the kind of answer, with the speedup that it refers to and its rounds."""
    if not best.is_baseline:
        return AnswerKind.RECOMMENDED, best.speedup, len(best.confirm_trials)
    if run.candidate is not None:
        return AnswerKind.OPEN, run.candidate.speedup, run.candidate.rounds
    if (aside := best.set_aside) is not None:
        return AnswerKind.EXCLUDED, aside.speedup, len(aside.confirm_trials)
    return AnswerKind.NONE_FASTER if searched else AnswerKind.NOT_MEASURED, None, 0


def _is_busy(run: Run, best: Recommendation) -> bool:
    """Return whether the baseline's processes, or those of the best config found, differ much."""
    found = run.history.confirm_of((run.candidate or best.set_aside or best).config)
    return spread(run.noise_floor, [rate for one in found if (rate := one.rate_samples_per_s)]) >= BUSY_FLOOR


def _settled_by(
    run: Run,
    kind: AnswerKind,
    speedup: Interval | None,
    rounds: int,
    judged: Verdict | None,
    is_busy: bool,
) -> tuple[Settling | None, int | None]:
    """Return what would settle whether there is a gain, and the rounds it takes; None if settled."""
    if kind is AnswerKind.OPEN and run.candidate and run.candidate.factor <= 1:
        return None, None
    if speedup is None:
        return (Settling.PROFILE if kind is AnswerKind.OPEN else None), None
    if judged != "inconclusive":
        return None, None
    if is_busy and run.options.wait_quiet_s is None:
        return Settling.WAIT_QUIET, None
    needed = rounds_to_tell(speedup, rounds, run.noise_floor)
    is_worth_it = needed is not None and needed <= MAX_WORTHWHILE_ROUNDS
    return (Settling.ROUNDS, needed) if is_worth_it else (Settling.WINDOW, None)
