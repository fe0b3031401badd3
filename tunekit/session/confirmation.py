"""How a search ends: tiers filled, losses guarded, the choice confirmed in rounds, knobs put back."""

from collections import Counter
from collections.abc import Sequence

from tunekit.recommend.knob_gains import knobs_put_back
from tunekit.recommend.numerics import Mode, excluded_modes, mode_name, modes_due
from tunekit.recommend.recommendation import (
    MIN_PAIRED_ROUNDS,
    answer_of,
    comparison_of,
    speedup_over_baseline,
)
from tunekit.recommend.tiers import best_of, ceiling_of, clamped_to_tier, is_excluded, same_training
from tunekit.records.config import TrainConfig
from tunekit.records.recommendation import Recommendation, Untried
from tunekit.records.run import RunStatus, SecondStage
from tunekit.records.trial import OutcomeKind, TrialRole
from tunekit.session.assemble import assemble
from tunekit.session.search_session import SearchSession
from tunekit.session.session import target_error
from tunekit.tune.budget import CONFIRM_ORDER
from tunekit.tune.confirm import (
    MIN_ROUNDS,
    details_to_confirm,
    expected_duration_s,
    min_rounds,
    next_round,
    round_order,
    rounds_done,
    rounds_due,
    rounds_s,
    second_stage,
)
from tunekit.tune.space import nearest
from tunekit.units import count_text

_CONFIRM_PASSES = 3


def fill_tiers(search: SearchSession) -> None:
    """Run a config made to fit for each tier that would otherwise have none, or only the baseline.

    It is the best that was measured, in the baseline's own mode where the tier does not take its.
    """
    for tier in CONFIRM_ORDER:
        best = best_of(same_training(search.trials.candidates, search.trials), search.planned)
        pick = search.time.picks.get(tier)
        if best is None or (pick is not None and (pick is best.record or not pick.is_baseline_config)):
            continue
        excluded = is_excluded(best.record, tier, excluded_modes(search.records))
        mode = Mode.of(search.baseline_config) if excluded else None
        fitted = clamped_to_tier(best, tier, search.found.rank_host, search.records, mode)
        most = ceiling_of(tier, search.time.picks, search.baseline_config, search.found.options)
        config = nearest(search.found.space, most.clamped(fitted))
        trial_s = expected_duration_s(search.records, config)
        beside = () if tier is CONFIRM_ORDER[0] else search.time.to_confirm
        after_s = trial_s + search.time.guards_s
        if (pick is not None or beside) and not search.time.holds_rounds(*beside, config, after_s=after_s):
            continue
        for _ in range(3):
            # One that was given up is run to its end where it has nothing to beat.
            searched = [r for r in search.records if r.role is not TrialRole.NUMERICS]
            searched = [r for r in searched if pick is not None or not r.is_abandoned]
            record = next((record for record in searched if record.config == config), None)
            if record is None:
                if not search.has_room_beside(()) or search.left_s <= 0:
                    return
                record = search.try_candidate(config, f"made to fit {tier.value}")
            if tier in search.time.picks:
                break
            if record.failure is not None and not record.failure.kind.is_memory:
                break
            smaller = config.changed(batch_size=max(1, config.batch_size // 2))
            config = nearest(search.found.space, smaller)


def _guard_losses(search: SearchSession) -> None:
    """Run the baseline with each new mode of the picks, and choose again where its losses are worse.

    Confirmation comes first: a run that would leave it less time than its fewest rounds is left out. For the
    answer's own mode, which can't be recommended without it, the rounds of a speedup are enough.
    """
    while modes := modes_due(search.records, search.time.picks.values()):
        config = modes[0].applied_to(search.baseline_config)
        guard_s = expected_duration_s(search.records, config)
        answer = search.time.to_confirm[:1]
        is_its_own = modes[0] in map(Mode.of, answer)
        least = MIN_PAIRED_ROUNDS if is_its_own else MIN_ROUNDS
        if not search.time.holds_rounds(*answer, after_s=guard_s, least=least):
            return
        purpose = f"losses of {mode_name(modes[0], search.baseline_config)} against the baseline's"
        search.trial(TrialRole.NUMERICS, config, purpose)
        fill_tiers(search)


def confirm(search: SearchSession) -> None:
    """Re-run what the tiers chose beside the baseline; again if that changes the choice."""
    baseline = search.trials.baseline
    baseline_runs = baseline is not None and baseline.measurement is not None
    for number in range(_CONFIRM_PASSES):
        _guard_losses(search)
        chosen = search.time.to_confirm
        if not chosen and not baseline_runs:
            return  # nothing ran that could be run again
        done = {config: rounds_done(search.records, config) for config in chosen}
        wanted = search.found.options.confirm_rounds
        fitting = search.time.rounds_within_budget(chosen)
        search.ran_out_of_time |= fitting < min_rounds(wanted) - min(done.values(), default=0)
        if number and not fitting:
            return  # what is confirmed so far has to do
        configs, rounds = rounds_due(done, wanted, fitting)
        if not configs:
            measured = [one for one in search.trials.baseline_confirm if one.measurement]
            lacking = MIN_PAIRED_ROUNDS - len(measured)
            if not baseline_runs or lacking <= 0 or not fitting:
                return
            rounds = min(fitting, lacking)
        _run_rounds(search, configs, baseline_runs, rounds)


def settle_doubts(search: SearchSession) -> None:
    """Run more rounds, once, where it is open whether a finalist is a gain and time is left to tell."""
    stage = search.found.second_stage or _second_stage(search)
    if stage is None:
        return
    search.change(second_stage=stage)
    rounds = stage.first_round + stage.rounds - next_round(search.records)
    if rounds > 0:
        more = count_text(rounds, "more confirming round")
        search.say(f"inconclusive so far: {more} should tell whether there is a gain")
        _run_rounds(search, stage.configs, with_baseline=True, rounds=rounds)


def _second_stage(search: SearchSession) -> SecondStage | None:
    """Return the rounds that would tell, as far as the time left has room for them."""
    against = comparison_of(search.found, search.trials)
    again = {config: search.trials.confirm_of(config) for config in search.time.to_confirm}
    speedups = {config: speedup_over_baseline(records, against) for config, records in again.items()}
    done = {config: rounds_done(search.records, config) for config in again}
    due = second_stage({config: one for config, one in speedups.items() if one}, done, against.noise)
    left_s = search.left_s - (search.time.ablation_s if _tuned_answer(search) else 0.0)
    while due and rounds_s(search.records, tuple(due), max(due.values())) > left_s:
        del due[max(due, key=lambda config: due[config])]
    if not due:
        return None
    first = next_round(search.records)
    return SecondStage(configs=tuple(due), first_round=first, rounds=max(due.values()))


def _tuned_answer(search: SearchSession) -> Recommendation | None:
    """Return what an ablation that is asked for is of: the answer so far, unless it is the baseline."""
    if not search.found.options.ablate:
        return None
    found = assemble(search.found.changed(status=RunStatus.FINISHED), search.records)
    best = answer_of(found.recommendations)
    return None if best is None or best.is_baseline else best


def ablate(search: SearchSession) -> None:
    """Run the answer's config beside itself with each knob put back, if that is asked for."""
    best = _tuned_answer(search)
    if best is None:
        return
    put_back = knobs_put_back(best.config, search.baseline_config)
    purposes = {best.config: "the answer, for what each knob is worth"}
    purposes |= {config: f"the answer without its {knob}" for knob, config in put_back.items()}
    round_s = search.time.ablation_round_s(best.config)
    done = rounds_done(search.records, best.config, TrialRole.ABLATION)
    rounds = min(MIN_ROUNDS - done, int(max(0.0, search.left_s) // round_s) if round_s else 0)
    if done + rounds < MIN_ROUNDS:
        search.ablation_left_out = f"--ablate got {done + rounds} of {count_text(MIN_ROUNDS, 'round')}"
    first = next_round(search.records, TrialRole.ABLATION)
    for number in range(first, first + rounds):
        failed = {record.config for record in search.trials.ablating if record.failure is not None}
        for config in round_order(tuple(purposes), False, number):
            if config is not None and config not in failed:
                search.trial(TrialRole.ABLATION, config, purposes[config], round=number)


def _run_rounds(
    search: SearchSession, configs: Sequence[TrainConfig], with_baseline: bool, rounds: int
) -> None:
    """Run interleaved rounds, without configs that failed or change the training, while any other is left."""
    first, has_finalists = next_round(search.records), bool(configs)
    for number in range(first, first + rounds):
        confirming, checks_data = search.trials.confirming, not search.found.options.skip_data_check
        unfit = {record.config for record in confirming if record.failure is not None}
        unfit |= {one.config for one in confirming if not same_training([one], search.trials)}
        configs = tuple(config for config in configs if config not in unfit)
        if has_finalists and not configs:
            return
        if number > first and not search.time.rounds_within_budget(configs):
            search.ran_out_of_time = True
            return
        for config in round_order(configs, with_baseline, number):
            details = details_to_confirm(search.records, config, checks_data)
            purpose = f"confirming, round {number - first + 1} of {rounds}"
            search.trial(TrialRole.CONFIRM, config, purpose, round=number, details=details)


def note_untried(search: SearchSession) -> None:
    """Record the untried config with the highest predicted rate."""
    lost, untried = search.store.lost_configs(), None
    left = search.study.fastest_untried(search.planned, lost) if search.study else None
    if left is not None and left.expected_rate_samples_per_s:
        rate = left.expected_rate_samples_per_s * search.found.world_size
        untried = Untried(config=left.config, rate_samples_per_s=rate)
    search.change(untried=untried)


def report_skipped_work(search: SearchSession) -> None:
    """Record and say what was skipped for lack of time, if what was run is too little to trust."""
    cut_short = search.time.cut_short(search.ran_out_of_time, search.ablation_left_out)
    search.change(cut_short=cut_short)
    if cut_short is not None:
        search.say(cut_short)


def require_result(search: SearchSession) -> None:
    """Refuse to call a search finished that filled no tier because what it ran failed."""
    run = search.found
    after = [record for record in run.trials if record.role is not TrialRole.BASELINE]
    decisive = [record for record in after if record.role is TrialRole.CONFIRM] or after or run.trials
    failures = [record.failure for record in decisive if record.failure is not None]
    if run.recommendations or not failures or len(failures) < len(decisive):
        return
    started = [failure for failure in failures if failure.kind is not OutcomeKind.REFUSED] or failures
    kind, times = Counter(failure.kind for failure in started).most_common(1)[0]
    first = next(failure for failure in started if failure.kind is kind)
    alike = f"{times} of {len(failures)} alike"
    raise target_error(first, f"nothing can be recommended: every trial after the baseline failed, {alike}")
