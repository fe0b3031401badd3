"""From trial records to a whole run: noise floor, tiers, scaling, findings. Pure."""

from collections import defaultdict
from collections.abc import Sequence

from tunekit.diagnose.run import run_findings
from tunekit.recommend.largest import largest_of
from tunekit.recommend.learning_rate import base_learning_rate, follows_batch, global_batch, rule_of
from tunekit.recommend.loss_guard import GuardedMode, Mode, barred_modes, guarded_modes
from tunekit.recommend.noise import noise_floor
from tunekit.recommend.planned_training import planned_training
from tunekit.recommend.recommendation import Comparison, recommend, settle
from tunekit.recommend.scaling import scaling_rows
from tunekit.recommend.tiers import pick, violations
from tunekit.records.host import Host
from tunekit.records.measurement import LoopMeasurement
from tunekit.records.recommendation import MissingTier, NoiseFloor, Recommendation, ScalingRow, Tier
from tunekit.records.run import Run, RunStatus, SearchOptions
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import Trials
from tunekit.search.explain import explain
from tunekit.search.predicted import corrected

_EXPLAINED = (RunStatus.FINISHED, RunStatus.INTERRUPTED)
"""How a search is left: only then is there time for the models of what was measured."""

_BARRING = (Tier.CONSERVATIVE, Tier.BALANCED)
"""Tiers that don't take a mode whose losses are worse than the baseline's."""


def run_noise(trials: Trials) -> NoiseFloor | None:
    """Return the A/A noise floor of the baseline's fresh processes, None with fewer than two."""
    rates = [r.measurement.rate_samples_per_s for r in trials.baseline_confirm if r.measurement]
    return noise_floor(rates)


def pick_tiers(
    trials: Trials, host: Host, options: SearchOptions, among: Sequence[TrialRecord] | None = None
) -> dict[Tier, TrialRecord]:
    """Return each tier's choice among the measured trials; a tier without one is absent."""
    noise = run_noise(trials)
    noise_relative = noise.relative if noise else None
    barred = barred_modes(trials.records)
    planned = planned_training(options, trials.records)
    records = trials.candidates if among is None else among
    chosen = {}
    for tier in Tier:
        allowed = [
            record
            for record in records
            if keeps_global_batch(record, trials, options)
            and not is_barred(record, tier, barred)
            and not _breaks_limit_on_largest(record, tier, trials, host)
        ]
        record = pick(tier, allowed, host, noise_relative=noise_relative, planned=planned)
        if record is not None:
            chosen[tier] = record
    return chosen


def keeps_global_batch(record: TrialRecord, trials: Trials, options: SearchOptions) -> bool:
    """Return whether a trial's config has the global batch that is asked for, if one is."""
    if options.global_batch is None or record.config is None:
        return options.global_batch is None
    world_size = trials.discovery.world_size if trials.discovery else 1
    return global_batch(record.config, world_size) == options.global_batch


def _breaks_limit_on_largest(record: TrialRecord, tier: Tier, trials: Trials, host: Host) -> bool:
    """Return whether a config broke a limit of the tier when it trained on the data set's largest samples."""
    looked = (
        one
        for one in (trials.confirm_of(record.config) if record.config else ())
        if one.measurement and largest_of([one.measurement])
    )
    return any(violations(one, tier, host) for one in looked)


def is_barred(record: TrialRecord, tier: Tier, barred: frozenset[Mode]) -> bool:
    """Return whether a trial's precision and compile spoil the losses, and the tier wants them whole."""
    return tier in _BARRING and record.config is not None and Mode.of(record.config) in barred


def assemble(run: Run, records: Sequence[TrialRecord]) -> Run:
    """Return the run with everything that follows from its trial records computed anew."""
    trials = Trials(tuple(records))
    scales_lr = follows_batch(trials.records)
    run = run.changed(trials=trials.records, script_scales_lr=scales_lr)
    host = run.rank_host
    noise = run_noise(trials)
    against = Comparison(
        host=host,
        options=run.options,
        noise=noise,
        discovery=trials.discovery,
        baseline=trials.baseline,
        baseline_confirm=trials.baseline_confirm,
        script_scales_lr=scales_lr,
        planned=planned_training(run.options, trials.records),
    )
    chosen = pick_tiers(trials, host, run.options)
    if run.status is RunStatus.FINISHED:
        chosen |= pick_tiers(trials, host, run.options, trials.confirmed)
    settled: list[Recommendation] = []
    missing: list[MissingTier] = []
    for tier in Tier:
        if tier not in chosen:
            missing.append(MissingTier(tier=tier, reason=_why_missing(tier, trials, host)))
            continue
        config = chosen[tier].config
        confirm = trials.confirm_of(config) if config else ()
        result = recommend(tier, chosen[tier], confirm, against, earlier=settled)
        if isinstance(result, MissingTier):
            missing.append(result)
        else:
            own = trials.baseline
            may_settle = own is None or keeps_global_batch(own, trials, run.options)
            settled.append(settle(result, against, earlier=settled) if may_settle else result)
    return run.changed(
        trials=trials.records,
        noise_floor=noise,
        recommendations=tuple(settled),
        missing_tiers=tuple(missing),
        scaling=_scaling(settled, trials, run),
        prediction=corrected(run.prediction, trials.records) if run.prediction else None,
        findings=run_findings(run, _guarded(trials, run, tuple(chosen.values())), _any_loop(trials)),
        model=explain(trials.records, host, settled) if run.status in _EXPLAINED else None,
    )


def _why_missing(tier: Tier, trials: Trials, host: Host) -> str:
    if not trials.candidates:
        is_measured = any(record.role.is_candidate and record.measurement for record in trials.records)
        return "every config failed when it was run again" if is_measured else "no trial was measured"
    reasons: dict[str, int] = defaultdict(int)
    barred, fitting = barred_modes(trials.records), 0
    for record in trials.candidates:
        broken = violations(record, tier, host)
        fitting += not broken and is_barred(record, tier, barred)
        for reason in broken:
            reasons[reason] += 1
    if fitting:
        return "every measured config within its limits spoils the losses"
    abandoned = (record for record in trials.records if record.role.is_candidate and record.is_abandoned)
    if any(not violations(record, tier, host) for record in abandoned):
        return "what was faster failed when it was run again; the rest within its limits was given up early"
    if not reasons:
        return "every config within its limits failed when it was run again"
    return f"no measured config is within its limits; most often: {max(reasons, key=lambda r: reasons[r])}"


def _scaling(settled: Sequence[Recommendation], trials: Trials, run: Run) -> tuple[ScalingRow, ...]:
    config = trials.baseline.config if trials.baseline else None
    base = None if run.script_scales_lr else base_learning_rate(trials.discovery, run.options, config)
    rows: list[ScalingRow] = []
    for recommendation in settled:
        seen = next(
            r.measurement.loop.bytes_per_sample
            for r in trials.records
            if r.measurement and r.number == recommendation.search_trial
        )
        rows += scaling_rows(
            recommendation.tier,
            recommendation.config,
            recommendation.buffered_bytes_per_sample or seen,
            recommendation.base_ram_bytes,
            base.lr if base else None,
            base.batch if base else None,
            rule_of(trials.discovery),
            run.host,
        )
    return tuple(rows)


def _guarded(trials: Trials, run: Run, picks: Sequence[TrialRecord]) -> list[GuardedMode]:
    """Return the modes that losses are known of; once the search is over, also those they should be of."""
    return guarded_modes(trials.records, picks if run.status is RunStatus.FINISHED else ())


def _any_loop(trials: Trials) -> LoopMeasurement | None:
    return next((record.measurement.loop for record in trials.candidates if record.measurement), None)
