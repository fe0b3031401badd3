"""What a search needs its time for: its trials, and the confirmation of what they found. Pure."""

import math
from collections.abc import Sequence

from tunekit.records.run import KnobSpace, Run, SearchOptions
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.search.confirm import expected_duration_s, typical_duration_s
from tunekit.units import count_text, duration_text

SEARCH_TRIALS = 12
"""That a search should have time for: by then the model has mostly found what there is."""
FEW_TRIALS = 6
"""Search trials below which the budget was too short to tell."""
USUAL_BUDGET_S = 900.0
"""What a search has at the least where the user gave no budget."""
_COMPILED_TRIALS = 6
_FINALISTS = 2


def needed_s(records: Sequence[TrialRecord], space: Sequence[KnobSpace], options: SearchOptions) -> float:
    """Return the seconds that a whole search needs, in whole minutes.

    That is what it takes to know the target, SEARCH_TRIALS search trials (half of them compiled where compile
    is searched), the runs that guard the losses, and all confirming rounds of the baseline and two finalists.

    Args:
        records: the trials so far, a measured one among them; what they took tells what others will.
        space: the knobs and their values.
        options: what the user asked.
    """
    compiles = any(entry.knob == "compile" and entry.is_searched for entry in space)
    eager_s, compiled_s = lengths_s(records)
    extra_s = compiled_s - eager_s if compiles else 0.0
    known_s = sum(one.duration_s for one in records if one.role in (TrialRole.BASELINE, TrialRole.TRACE))
    search_s = SEARCH_TRIALS * eager_s + _COMPILED_TRIALS * extra_s
    round_s = typical_duration_s(records, None) + _FINALISTS * eager_s + extra_s
    guards_s = 2 * eager_s + extra_s
    return 60.0 * math.ceil((known_s + search_s + guards_s + options.confirm_rounds * round_s) / 60.0)


def first_measured(records: Sequence[TrialRecord]) -> Sequence[TrialRecord]:
    """Return the trials up to the first measured one, none without it: a resumed search has the same."""
    place = next((place for place, record in enumerate(records) if record.measurement), None)
    return () if place is None else records[: place + 1]


def budget_s_of(run: Run, records: Sequence[TrialRecord]) -> float:
    """Return the seconds that a search has: what the user gave, else what it had, else what it needs.

    Args:
        run: options, space and the budget of a search that is resumed.
        records: the trials so far.
    """
    given_s = run.options.budget_s or run.budget_s
    if given_s is not None:
        return given_s
    first = first_measured(records)
    return max(USUAL_BUDGET_S, needed_s(first, run.space, run.options) if first else 0.0)


def lengths_s(records: Sequence[TrialRecord]) -> tuple[float, float]:
    """Return the seconds that a trial is taken to need without compile, and with it."""
    known = next(record.config for record in records if record.config is not None)
    eager, compiled = (expected_duration_s(records, known.changed(compile=value)) for value in (False, True))
    return eager, compiled


def chosen_text(budget_s: float, trial_s: float, options: SearchOptions) -> str:
    """Return why a budget that was set after the baseline is as long as it is."""
    rounds = count_text(options.confirm_rounds, "confirming round")
    return (
        f"budget {duration_text(budget_s)}: room for about {SEARCH_TRIALS} search trials of "
        f"{duration_text(trial_s)} and {rounds}; --budget TIME gives another"
    )


def short_text(
    budget_s: float,
    trials: int,
    rounds: int,
    needed: float,
    options: SearchOptions,
    missed: tuple[int, float] | None = None,
) -> str:
    """Return what a budget has room for, and which would do, in one sentence.

    Args:
        budget_s: that the search has.
        trials: of the search that it has room for.
        rounds: of confirmation, the same.
        needed: seconds of a whole search.
        options: what the user asked.
        missed: a trial that it had no room to confirm, and its rate over the best that it had.
    """
    fastest = f" (trial {missed[0]}, {missed[1]:.2f}x as fast, was not confirmed)" if missed else ""
    enough_s = max(needed, 60.0 * math.ceil(budget_s / 60.0 + 1))
    held = f"{count_text(trials, 'search trial')} and {count_text(rounds, 'confirming round')}{fastest}"
    return (
        f"--budget {budget_text(budget_s)} has room for {held}; "
        f"about {SEARCH_TRIALS} and {options.confirm_rounds} take --budget {budget_text(enough_s)}"
    )


def budget_text(seconds: float) -> str:
    """Return a budget as `--budget` takes it."""
    return f"{seconds / 60:.0f}m" if seconds % 60 == 0 else f"{seconds:g}s"
