"""Whether another trial is worth its time, and what is expected of it, in words."""

import math
from dataclasses import dataclass, replace

from tunekit.records.recommendation import NoiseFloor
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import Trials
from tunekit.search.guided import LEAST_GAIN, Proposal, Terms
from tunekit.search.study import Study
from tunekit.units import rate_text

_SMALLEST_GAIN = 0.001
"""Of the best rate: no machine is quieter than that."""
LEAST_TRIALS = 4
"""Search trials that are made however little is expected of them: so that a wrong model is found out."""

_UNSURE = 0.5
"""Half width of a rate's interval, as a share of it, from which a trial hardly tells anything. No trial of a
quiet machine is that wide; one that something else disturbed for seconds is."""
_MOST_RERUNS = 2
"""Of a search: a loop whose every trial is that wide is not run twice as often for it."""


def least_gain(noise: NoiseFloor | None) -> float:
    """Return the share of the best rate below which a gain is not worth a trial.

    No gain that the run could tell from noise is passed over.
    """
    return LEAST_GAIN if noise is None else max(_SMALLEST_GAIN, min(LEAST_GAIN, noise.relative))


@dataclass(frozen=True)
class Stop:
    """The search makes no further trial."""

    why: str | None = None
    """None where the budget has no room for one."""


def next_trial(study: Study, terms: Terms, search_trials: int) -> Proposal | Stop:
    """Return what to try next, or why nothing is.

    Args:
        study: that was told all trials so far.
        terms: what a trial must promise, and may cost.
        search_trials: made so far, the baseline's not counted.
    """
    proposal = study.propose(terms)
    if proposal is not None and (search_trials < LEAST_TRIALS or _why_not_worth(proposal, terms) is None):
        return proposal
    best = study.propose(replace(terms, most_s=math.inf))
    if best is None and study.is_exhausted:
        return Stop("every config of the space was tried")
    if best is None:
        return Stop("no untried config of the space is expected to fit in memory")
    if proposal is None or _why_not_worth(best, terms) is None:
        # Something may be worth its time, but there is none left for it.
        return Stop()
    return Stop(_why_not_worth(best, terms))


def disturbed_trial(trials: Trials) -> TrialRecord | None:
    """Return the last search trial where it has to be run again; None where it need not.

    Its interval is so wide that its rate tells next to nothing, and the best rate lies within it.
    """
    searched = [record for record in trials.searched if record.measurement is not None]
    last = searched[-1] if searched else None
    if last is None or last.measurement is None or last.is_abandoned:
        return None
    reruns = len(searched) - len({record.config for record in searched})
    is_rerun = any(record.config == last.config for record in searched[:-1])
    if is_rerun or reruns >= _MOST_RERUNS:
        return None
    half_width = last.measurement.loop.rate_interval_relative or 0.0
    best = max((record.rate_samples_per_s or 0.0 for record in trials.candidates), default=0.0)
    highest = (last.rate_samples_per_s or 0.0) * (1 + half_width)
    return last if half_width >= _UNSURE and highest >= best else None


def why_again(disturbed: TrialRecord) -> str:
    """Return why a trial is run again, such as "again: disturbed, 576 samples/s within 223%"."""
    interval = disturbed.measurement.loop.rate_interval_relative if disturbed.measurement else None
    return f"again: disturbed, {rate_text(disturbed.rate_samples_per_s)} samples/s within {interval or 0:.0%}"


def _why_not_worth(proposal: Proposal, terms: Terms) -> str | None:
    """Return why the best proposal does not keep the terms; None if it does, or nothing was measured yet."""
    if proposal.gain is not None and proposal.gain < terms.least_gain:
        return f"no untried config is expected to be more than {terms.least_gain:.1%} faster"
    if not proposal.pays:
        return "no untried config is expected to save the planned run more time than its trial costs"
    return None


def expectation(proposal: Proposal, ranks: int, best_samples_per_s: float | None) -> str:
    """Return what is expected of a proposal, such as "model: 1,210 samples/s expected, 18% more".

    Args:
        proposal: of the model.
        ranks: that train together.
        best_samples_per_s: measured so far, of all ranks; None before anything was.
    """
    rate = proposal.expected_rate_samples_per_s
    if rate is None or best_samples_per_s is None:
        return "nothing was measured yet: a small batch"
    more = rate * ranks / best_samples_per_s - 1
    told = f"model: {rate_text(rate * ranks)} samples/s expected"
    if abs(more) < 0.005:
        return f"{told}, as much as the best"
    return f"{told}, {more:.0%} more" if more > 0 else f"{told}, {-more:.0%} less, but it may be more"
