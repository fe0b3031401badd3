"""How much time a search needs, and what fits in the time left. Pure."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from tunekit.recommend.knob_gains import knobs_put_back
from tunekit.recommend.numerics import modes_due
from tunekit.recommend.planned_training import planned_training
from tunekit.recommend.recommendation import MIN_PAIRED_ROUNDS
from tunekit.recommend.tiers import BALANCED_TOLERANCE, best_of, pick_tiers, run_noise, same_training
from tunekit.records.config import TrainConfig
from tunekit.records.recommendation import Tier
from tunekit.records.run import KnobSpace, Run, SearchOptions
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.records.trials import Trials
from tunekit.tune.acquisition import Criteria, min_gain
from tunekit.tune.confirm import (
    MIN_ROUNDS,
    confirmed_before,
    durations_s,
    expected_duration_s,
    finalists,
    min_rounds,
    rounds_done,
    rounds_s,
    typical_duration_s,
)
from tunekit.units import count_text, duration_text, typed_duration_text

SEARCH_TRIALS = 12
"""Search trials that a search should have time for; by then the model has mostly found the best config."""
FEW_TRIALS = 6
"""Fewest search trials for a meaningful result."""
USUAL_BUDGET_S = 900.0
"""Smallest default budget."""
_FINALISTS = 2
_ABLATED = 5
"""Typical number of configs in a round of ablation: the answer's, and one for each knob that is reset."""
CONFIRM_ORDER = (Tier.BALANCED, Tier.AGGRESSIVE, Tier.CONSERVATIVE)
"""The order in which tiers are filled and confirmed if there isn't time for all."""
_MORE = 1.25
"""Safety factor on the duration of the trials so far."""
_NEAR = 0.10
"""How far a single trial's rate may fall short of the baseline's by chance."""
_SLACK = 0.03
"""Share of the budget by which the minimum confirmation rounds may exceed it."""


def search_trials(options: SearchOptions) -> int:
    """Return how many search trials there should be time for; --trials may lower it."""
    most = options.max_trials
    return SEARCH_TRIALS if most is None else min(SEARCH_TRIALS, most - 1)  # the baseline is one of them


def needed_s(records: Sequence[TrialRecord], space: Sequence[KnobSpace], options: SearchOptions) -> float:
    """Return the seconds that a whole search needs, rounded up to minutes.

    This covers the baseline, the search trials (half of them compiled if compile is searched), the trials
    that check losses, all confirmation rounds of the baseline and two finalists, and a requested ablation.
    """
    compiles = any(entry.knob == "compile" and entry.is_searched for entry in space)
    eager_s, compiled_s = durations_s(records)
    extra_s = compiled_s - eager_s if compiles else 0.0
    known_s = sum(one.duration_s for one in records if one.role in (TrialRole.BASELINE, TrialRole.TRACE))
    trials = search_trials(options)
    search_s = trials * eager_s + (trials + 1) // 2 * extra_s
    round_s = typical_duration_s(records, None) + _FINALISTS * eager_s + extra_s
    guards_s = 2 * eager_s + extra_s
    ablation_s = MIN_ROUNDS * _ABLATED * eager_s if options.ablate else 0.0
    whole_s = known_s + search_s + guards_s + options.confirm_rounds * round_s + ablation_s
    return 60.0 * math.ceil(whole_s / 60.0)


def _first_measured(records: Sequence[TrialRecord]) -> Sequence[TrialRecord]:
    """Return the trials up to the first measured one, or none, so that a resumed search gets the same."""
    place = next((place for place, record in enumerate(records) if record.measurement), None)
    return () if place is None else records[: place + 1]


def budget_s_of(run: Run) -> float:
    """Return a search's budget in seconds: the saved one, else the user's, else what the search needs."""
    if run.known_budget_s is not None:
        return run.known_budget_s
    first = _first_measured(run.trials)
    return max(USUAL_BUDGET_S, needed_s(first, run.space, run.options) if first else 0.0)


def budget_for_more(run: Run, options: SearchOptions) -> float:
    """Return the budget in seconds with which a resumed search can add rounds or an ablation.

    Args:
        run: the saved run.
        options: the new options, with the wanted rounds and ablation.
    """
    spent_s, trial_s = sum(record.duration_s for record in run.trials), typical_duration_s(run.trials, None)
    picks = {one.set_aside.config if one.set_aside else one.config for one in run.recommendations}
    configs = tuple(config for config in picks if config != run.baseline_config)
    rounds = options.confirm_rounds - min((rounds_done(run.trials, one) for one in configs), default=0)
    # If the pick was the baseline, another config is confirmed with it.
    more_s = max(0, rounds) * (rounds_s(run.trials, configs, 1) if configs else 2 * trial_s)
    if options.ablate:
        more_s += MIN_ROUNDS * _ABLATED * trial_s
    return max(budget_s_of(run), spent_s + _MORE * more_s)


def longer_budget_s(run: Run) -> float:
    """Return a budget for the whole search if it was cut short, else for one more trial, in whole minutes."""
    if run.cut_short is not None:
        return _whole_budget_s(run)
    each_s = expected_duration_s(run.trials, run.untried.config) if run.untried else 0.0
    more_s = (2 + MIN_ROUNDS) * each_s + MIN_ROUNDS * typical_duration_s(run.trials, None)
    return max(60.0 * (1 + (run.search_time_s + more_s) // 60), run.known_budget_s or 0.0)


def _whole_budget_s(run: Run) -> float:
    return max(needed_s(run.trials, run.space, run.options), 60.0 * math.ceil(budget_s_of(run) / 60.0 + 1))


@dataclass(frozen=True)
class TimeLeft:
    """What there is time for, estimated from the trials so far.

    Args:
        run: the run with options, host, budget and all trials so far.
        left_s: remaining seconds of the budget.
    """

    run: Run
    left_s: float

    @property
    def records(self) -> tuple[TrialRecord, ...]:
        """All trials so far, the baseline's first."""
        return self.run.trials

    @cached_property
    def criteria(self) -> Criteria:
        """What the next trial must promise and how much it may cost."""
        # On top of the picks' time; a trial known to take longer must leave room for its own rounds.
        kept_s = self.guards_s + self._ablation_kept_s
        alone_s = self.left_s - rounds_s(self.records, (), self._least) - kept_s
        return Criteria(
            max_s=self.for_a_trial_s,
            max_again_s=alone_s / (1 + self._least),
            min_gain=min_gain(run_noise(self._trials)),
            planned=planned_training(self.run.options, self.records),
        )

    @cached_property
    def for_a_trial_s(self) -> float:
        """The longest trial, in seconds, that leaves enough time for confirmation.

        Before SEARCH_TRIALS trials, only the minimum rounds are reserved, as another trial is worth more than
        another round. For the very first trial even fewer are enough.
        """
        trial_s, _ = durations_s(self.records)
        searched = len(self._trials.searched)
        rounds = self.run.options.confirm_rounds if searched >= SEARCH_TRIALS else self._least
        max_s = self.left_s - self._reserve_s(rounds, trial_s) - self.guards_s - self._ablation_kept_s
        if max_s < trial_s and not searched:
            fewer_s = self._reserve_s(min(self._least, MIN_PAIRED_ROUNDS), trial_s)
            max_s = min(trial_s, self.left_s + self._slack_s - fewer_s - self.guards_s)
        return max_s

    @cached_property
    def picks(self) -> dict[Tier, TrialRecord]:
        """The tiers' picks among the configs that can still be confirmed, or among all if none can."""
        fitting = [
            record
            for record in self._trials.candidates
            if record.is_baseline_config
            or (record.config and self.holds_rounds(record.config, after_s=self._guards_of([record])))
        ]
        picks = self._picks_among(fitting)
        if not finalists(list(picks.values())):
            picks = self._all_picks
        return picks if finalists(list(picks.values())) else picks | self._near

    @property
    def _near(self) -> dict[Tier, TrialRecord]:
        """A pick other than the baseline: an already confirmed config, else one close to its slowest run."""
        before, baseline = confirmed_before(self.records), self._trials.baseline
        others = [record for record in self._trials.candidates if record.config in before]
        if not before and baseline is not None:
            noise = run_noise(self._trials)
            again = [one.rate_samples_per_s for one in self._trials.baseline_confirm]
            slowest = min(filter(None, (baseline.rate_samples_per_s, *again)), default=0.0)
            least = (1 - max(_NEAR, noise.relative if noise else 0.0)) * slowest
            rest = [record for record in self._trials.candidates if not record.is_baseline_config]
            others = [record for record in rest if (record.rate_samples_per_s or 0.0) >= least]
        picks = self._picks_among(others)
        return next(({tier: picks[tier]} for tier in CONFIRM_ORDER if tier in picks), {})

    @property
    def to_confirm(self) -> tuple[TrainConfig, ...]:
        """The finalists, the answer's first, as many as there is time to confirm, but at least one."""
        return self._as_many_as_fit(self.picks)

    @property
    def said_at_start(self) -> str | None:
        """Explanation of the default budget; None if the user set one or search trials have run."""
        asked, first = self.run.options, _first_measured(self.records)
        if not first or self._trials.searched or asked.budget_s is not None:
            return None
        trial_s, _ = durations_s(first)
        trials = count_text(search_trials(asked), "search trial")
        return (
            f"budget {duration_text(self._budget_s)}: room for {trials} of {duration_text(trial_s)} and "
            f"{count_text(asked.confirm_rounds, 'confirming round')}; --budget TIME gives another"
        )

    def cut_short(self, ran_out: bool, ablation_left_out: str = "") -> str | None:
        """Return what was skipped for lack of time, if the result is incomplete because of it, or None.

        Args:
            ran_out: whether the search ended for lack of time.
            ablation_left_out: what is missing from a requested ablation, in words.
        """
        asked, searched = self.run.options, len(self._trials.searched)
        again = {record.config for record in self._trials.confirming if record.config}
        rounds = max((rounds_done(self.records, config) for config in again), default=0)
        is_too_little = searched < min(FEW_TRIALS, search_trials(asked)) or rounds < self._least
        left_out = "; ".join(filter(None, (self.missed, ablation_left_out)))
        if not left_out and not (ran_out and is_too_little):
            return None
        room = f"{count_text(searched, 'search trial')} and {count_text(rounds, 'confirming round')}"
        whole = f"{search_trials(asked)} + {asked.confirm_rounds}{' with --ablate' if asked.ablate else ''}"
        return (
            f"--budget {typed_duration_text(self._budget_s)} had time for {room}"
            f"{f' ({left_out})' if left_out else ''}; the full {whole} need "
            f"--budget {typed_duration_text(_whole_budget_s(self.run))}"
        )

    @property
    def missed(self) -> str:
        """A faster but unconfirmed trial, with its rate over the best confirmed one; empty without one."""
        confirmed = same_training(self._trials.confirmed, self._trials)
        chosen = self._all_picks.get(Tier.AGGRESSIVE)
        best = best_of(confirmed, planned_training(self.run.options, self.records))
        if chosen is None or best is None or any(one.number == chosen.number for one in confirmed):
            return ""
        ratio = (chosen.rate_samples_per_s or 0.0) / best.loop.rate_samples_per_s
        is_faster = ratio > 1 + BALANCED_TOLERANCE
        return (
            f"trial {chosen.number}, {ratio:.2f}x the best confirmed, was not confirmed" if is_faster else ""
        )

    def holds_rounds(self, *configs: TrainConfig, after_s: float = 0.0, least: int = MIN_ROUNDS) -> bool:
        """Return whether the remaining minimum rounds of these configs fit in the time left.

        Args:
            configs: configs to confirm, in addition to the baseline.
            after_s: seconds of what runs before them.
            least: the fewest rounds, unless fewer are wanted.
        """
        least = min(least, self._least)
        due = max((least - rounds_done(self.records, config) for config in configs), default=0)
        return after_s + rounds_s(self.records, configs, max(0, due)) <= self.left_s + self._slack_s

    def rounds_within_budget(self, configs: tuple[TrainConfig, ...]) -> int:
        """Return how many rounds of these configs fit in the time left.

        The minimum rounds may exceed it slightly; further rounds leave time for an ablation.
        """
        round_s = rounds_s(self.records, configs, 1)
        if not round_s:
            return self.run.options.confirm_rounds
        done = min((rounds_done(self.records, config) for config in configs), default=0)
        fitting, with_slack = (
            int(max(0.0, s) // round_s) for s in (self.left_s - self.ablation_s, self.left_s + self._slack_s)
        )
        return max(fitting, min(max(0, self._least - done), with_slack))

    def ablation_round_s(self, config: TrainConfig) -> float:
        """Return the seconds of an ablation round: the config, and its variants with one knob reset."""
        beside = knobs_put_back(config, self._baseline_config).values()
        return sum(typical_duration_s(self.records, one) for one in (config, *beside))

    @cached_property
    def ablation_s(self) -> float:
        """The seconds that ablating the current answer still takes; 0 if no ablation was requested."""
        if not self.run.options.ablate:
            return 0.0
        answer = next((self.picks[tier] for tier in CONFIRM_ORDER if tier in self.picks), None)
        if answer is None or answer.config is None or answer.is_baseline_config:
            return MIN_ROUNDS * _ABLATED * typical_duration_s(self.records, None)
        done = rounds_done(self.records, answer.config, TrialRole.ABLATION)
        return max(0, MIN_ROUNDS - done) * self.ablation_round_s(answer.config)

    @property
    def _ablation_kept_s(self) -> float:
        """The part of that to reserve during the search: one round until there were a few search trials."""
        share = 1.0 if len(self._trials.searched) >= FEW_TRIALS else 1 / MIN_ROUNDS
        return share * self.ablation_s

    @property
    def _baseline_config(self) -> TrainConfig:
        return next(record.config for record in self.records if record.config is not None)

    @cached_property
    def _trials(self) -> Trials:
        return Trials(self.records)

    @cached_property
    def _all_picks(self) -> dict[Tier, TrialRecord]:
        return self._picks_among(self._trials.candidates)

    def _picks_among(self, records: Sequence[TrialRecord]) -> dict[Tier, TrialRecord]:
        return pick_tiers(self._trials, self.run.rank_host, self.run.options, records)

    @property
    def _least(self) -> int:
        return min_rounds(self.run.options.confirm_rounds)

    @property
    def _budget_s(self) -> float:
        assert self.run.budget_s is not None
        return self.run.budget_s

    @property
    def _slack_s(self) -> float:
        return _SLACK * (self.run.budget_s or 0.0)

    @cached_property
    def guards_s(self) -> float:
        """The seconds of the loss checks that the current picks require."""
        return self._guards_of(self.picks.values())

    def _guards_of(self, picks: Iterable[TrialRecord]) -> float:
        own = self._baseline_config
        configs = (mode.applied_to(own) for mode in modes_due(self.records, picks))
        return sum(expected_duration_s(self.records, config) for config in configs)

    def _reserve_s(self, rounds: int, trial_s: float) -> float:
        """Return the seconds that confirming the current picks takes.

        Aggressive's pick is left out if the answer is as fast, as the answer can replace it.
        """
        picks = self.picks
        answer, fastest = picks.get(CONFIRM_ORDER[0]), picks.get(Tier.AGGRESSIVE)
        if answer is not None and answer.is_baseline_config:
            answer = None
        if answer is not None and fastest is not None and _is_as_fast(answer, fastest):
            picks = {tier: pick for tier, pick in picks.items() if tier is not Tier.AGGRESSIVE}
        configs = self._as_many_as_fit(picks)
        reserve_s = rounds_s(self.records, configs, rounds)
        if not configs:
            return reserve_s + rounds * trial_s
        # The faster config exceeds the answer's limits: a version clipped to them has to be run and
        # confirmed.
        return reserve_s if answer is not None else reserve_s + (1 + rounds) * trial_s

    def _as_many_as_fit(self, picks: dict[Tier, TrialRecord]) -> tuple[TrainConfig, ...]:
        kept: tuple[TrainConfig, ...] = ()
        for config in finalists([picks[tier] for tier in CONFIRM_ORDER if tier in picks]):
            if not kept or self.holds_rounds(*kept, config):
                kept = (*kept, config)
        return kept


def _is_as_fast(answer: TrialRecord, fastest: TrialRecord) -> bool:
    least = (answer.rate_samples_per_s or 0.0) * (1 + BALANCED_TOLERANCE)
    return (fastest.rate_samples_per_s or 0.0) <= least
