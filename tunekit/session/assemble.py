"""From trial records to a whole run: noise floor, tiers, scaling, findings. Pure."""

from collections import Counter
from collections.abc import Sequence
from itertools import chain

from tunekit.diagnose.bottleneck import bottlenecks
from tunekit.diagnose.run import run_findings
from tunekit.recommend.candidate import candidate_of
from tunekit.recommend.knob_gains import knob_gains
from tunekit.recommend.learning_rate import base_learning_rate, follows_batch
from tunekit.recommend.numerics import Mode, guarded_modes, loss_checks, unchecked_modes
from tunekit.recommend.outcome import outcome_of
from tunekit.recommend.recommendation import (
    answer_of,
    baseline_figures,
    comparison_of,
    is_confirmed,
    recommend,
    settle,
)
from tunekit.recommend.scaling import scaling_rows
from tunekit.recommend.tiers import keeps_global_batch, pick_tiers, violations
from tunekit.records.host import Host
from tunekit.records.recommendation import MissingTier, Recommendation, ScalingRow, Tier
from tunekit.records.run import Run, RunStatus
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import Trials
from tunekit.session.predicted import corrected
from tunekit.trial.bindings import bound_steps
from tunekit.tune.budget import longer_budget_s
from tunekit.tune.explain import explain

_EXPLAINED = (RunStatus.FINISHED, RunStatus.INTERRUPTED)
"""How a search is left: only then is there time for the models of what was measured."""


def assemble(run: Run, records: Sequence[TrialRecord]) -> Run:
    """Return the run with everything that follows from its trial records computed again."""
    trials = Trials(tuple(records))
    run = run.changed(trials=trials.records, script_scales_lr=follows_batch(trials.records))
    host = run.rank_host
    against = comparison_of(run, trials)
    chosen = found = pick_tiers(trials, host, run.options)
    unchecked = unchecked_modes(trials.records, trials.candidates)
    if run.status is RunStatus.FINISHED:
        checked = [one for one in trials.candidates if one.config and Mode.of(one.config) not in unchecked]
        confirmed = [
            one for one in checked if one.config and is_confirmed(one, against, trials.confirm_of(one.config))
        ]
        chosen = pick_tiers(trials, host, run.options, checked)
        chosen |= pick_tiers(trials, host, run.options, confirmed)
        if all(record.is_baseline_config for record in chosen.values()):
            # What was confirmed all the same is judged by its rounds.
            beside = [record for record in confirmed if not record.is_baseline_config]
            chosen |= pick_tiers(trials, host, run.options, beside)
    settled: list[Recommendation] = []
    missing: list[MissingTier] = []
    for tier in Tier:
        if tier not in chosen:
            pick = found.get(tier)
            why = _why_not_chosen(pick, unchecked) if pick else _why_missing(tier, trials, host)
            missing.append(MissingTier(tier=tier, reason=why))
            continue
        config = chosen[tier].config
        confirm = trials.confirm_of(config) if config else ()
        result = recommend(tier, chosen[tier], confirm, against, earlier=settled)
        if result is None:
            missing.append(MissingTier(tier=tier, reason=_why_not_chosen(chosen[tier])))
        else:
            own = trials.baseline
            may_settle = own is None or keeps_global_batch(own, trials, run.options)
            settled.append(settle(result, against, earlier=settled) if may_settle else result)
    best, before = answer_of(settled), trials.baseline.config if trials.baseline else None
    # Once the search is over, also the modes whose losses should be known and are not.
    picks = found.values() if run.status is RunStatus.FINISHED else ()
    run = run.changed(
        noise_floor=against.noise,
        recommendations=tuple(settled),
        missing_tiers=tuple(missing),
        scaling=_scaling(settled, trials, run),
        prediction=corrected(run.prediction, trials.records) if run.prediction else None,
        findings=run_findings(run, guarded_modes(trials.records, picks)),
        knob_gains=knob_gains(best.config, before, trials.ablating, against.noise) if best and before else (),
        model=explain(trials.records, host, settled) if run.status in _EXPLAINED else None,
    )
    return concluded(run)


def concluded(run: Run) -> Run:
    """Return the run with what its recommendations and trials come to, as reports show it."""
    run = run.changed(candidate=candidate_of(run))
    return run.changed(
        outcome=outcome_of(run),
        baseline_figures=baseline_figures(run),
        bottlenecks=bottlenecks(run, answer_of(run.recommendations)),
        loss_checks=loss_checks(run.trials),
        bound_steps=bound_steps(run.target, run.discovery.options if run.discovery else ()),
        longer_budget_s=longer_budget_s(run),
    )


def _why_not_chosen(pick: TrialRecord, unchecked: frozenset[Mode] = frozenset()) -> str:
    is_unchecked = pick.config is not None and Mode.of(pick.config) in unchecked
    if is_unchecked:
        return f"the losses of its pick (trial {pick.number}) were not checked"
    return f"its pick (trial {pick.number}) was not confirmed"


def _why_missing(tier: Tier, trials: Trials, host: Host) -> str:
    broken = [violations(record, tier, host, trials.candidates) for record in trials.candidates]
    if not broken:
        return "no trial was measured, or all failed when they were run again"
    if not all(broken):
        return (
            "every config within its limits failed when repeated, changes the training, or is larger than "
            "what the tier above it takes"
        )
    ((reason, _),) = Counter(chain(*broken)).most_common(1)
    return f"no measured config is within its limits; most often: {reason}"


def _scaling(settled: Sequence[Recommendation], trials: Trials, run: Run) -> tuple[ScalingRow, ...]:
    config = trials.baseline.config if trials.baseline else None
    base = None if run.script_scales_lr else base_learning_rate(trials.discovery, run.options, config)
    return tuple(row for one in settled for row in scaling_rows(one, base))
