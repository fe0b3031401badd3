"""From trial records to a whole run: noise floor, tiers, scaling, findings. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tunekit.recommend.diagnose.device import POWER_CAP
from tunekit.recommend.diagnose.loop import loop_findings
from tunekit.recommend.diagnose.loop.gpus import FALL_OF_CLOCK
from tunekit.recommend.largest import is_too_much, largest_findings, largest_of
from tunekit.recommend.learning_rate import base_learning_rate, follows_batch, global_batch, rule_of
from tunekit.recommend.loss_guard import Mode, barred_modes, guarded_modes, loss_findings
from tunekit.recommend.noise import noise_floor
from tunekit.recommend.planned_training import planned_training
from tunekit.recommend.recommendation import Comparison, recommend, settle
from tunekit.recommend.scaling import scaling_rows
from tunekit.recommend.tiers import pick, violations
from tunekit.records.config import TrainConfig
from tunekit.records.finding import Finding, Severity
from tunekit.records.host import Host
from tunekit.records.recommendation import MissingTier, NoiseFloor, Recommendation, ScalingRow, Tier
from tunekit.records.run import Run, RunStatus, SearchOptions
from tunekit.records.target import Discovery
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole, without_superseded
from tunekit.search.explain import explain
from tunekit.search.predicted import corrected
from tunekit.units import bytes_text, rate_text

_UNSTEADY_RATIO = 1.5
"""Fresh processes of one config differ by 1.1 at most on a shared machine that nobody else loads."""


_TORCHS_OWN = "/torchinductor_"
"""Where torch.compile keeps headers, whatever TORCHINDUCTOR_CACHE_DIR says: no file of the script's."""

_EXPLAINED = (RunStatus.FINISHED, RunStatus.INTERRUPTED)
"""How a search is left: only then is there time for the models of what was measured."""


_BARRING = (Tier.CONSERVATIVE, Tier.BALANCED)
"""Tiers that don't take a mode whose losses are worse than the baseline's."""


@dataclass(frozen=True)
class Trials:
    """The records of one run, by what they were run for."""

    records: tuple[TrialRecord, ...]

    @property
    def baseline(self) -> TrialRecord | None:
        """The first baseline trial; it may have failed."""
        return next((record for record in self.records if record.role is TrialRole.BASELINE), None)

    @property
    def discovery(self) -> Discovery | None:
        """What was learnt about the target: the first complete discovery, else the last partial one."""
        seen = [record.discovery for record in self.records if record.discovery is not None]
        return next((one for one in seen if one.complete), seen[-1] if seen else None)

    @property
    def candidates(self) -> tuple[TrialRecord, ...]:
        """Measured baseline and search trials whose config no confirming process proved unfit.

        Nor is one that needs no less device memory than what ran out of it on the data set's largest samples.
        What was given up early as too slow is none: its rate says no more than that. Of a config that was
        run twice the surer one is.
        """
        confirming = self.confirming
        unfit = {r.config for r in confirming if r.failure and r.failure.kind is not OutcomeKind.REFUSED}
        sure = without_superseded(self.records)
        measured = (r for r in sure if r.role.is_candidate and r.measurement and not r.is_abandoned)
        fit = (record for record in measured if record.config not in unfit)
        return tuple(r for r in fit if r.config is None or not is_too_much(r.config, confirming))

    @property
    def confirmed(self) -> tuple[TrialRecord, ...]:
        """The candidates that fresh processes confirmed.

        A finished search chooses among them: the noise floor, known only after confirmation, can make
        another config the smallest that is close enough, when there is no time left to confirm it.
        """
        confirmed = {record.config for record in self.confirming if record.measurement}
        return tuple(record for record in self.candidates if record.config in confirmed)

    @property
    def searched(self) -> tuple[TrialRecord, ...]:
        """Search trials, those that failed too."""
        return tuple(record for record in self.records if record.role is TrialRole.SEARCH)

    @property
    def confirming(self) -> tuple[TrialRecord, ...]:
        """Fresh interleaved processes."""
        return tuple(record for record in self.records if record.role is TrialRole.CONFIRM)

    @property
    def baseline_confirm(self) -> tuple[TrialRecord, ...]:
        """Fresh processes of the baseline."""
        return tuple(record for record in self.confirming if record.is_baseline_config)

    def keeps_global_batch(self, record: TrialRecord, options: SearchOptions) -> bool:
        """Return whether a trial's config has the global batch that is asked for, if one is."""
        if options.global_batch is None or record.config is None:
            return options.global_batch is None
        world_size = self.discovery.world_size if self.discovery else 1
        return global_batch(record.config, world_size) == options.global_batch

    def confirm_of(self, config: TrainConfig) -> tuple[TrialRecord, ...]:
        """Return the fresh processes of one config."""
        return tuple(record for record in self.confirming if record.config == config)


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
            if trials.keeps_global_batch(record, options)
            and not is_barred(record, tier, barred)
            and not _breaks_limit_on_largest(record, tier, trials, host)
        ]
        record = pick(tier, allowed, host, noise_relative=noise_relative, planned=planned)
        if record is not None:
            chosen[tier] = record
    return chosen


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
            may_settle = own is None or trials.keeps_global_batch(own, run.options)
            settled.append(settle(result, against, earlier=settled) if may_settle else result)
    return run.changed(
        trials=trials.records,
        noise_floor=noise,
        recommendations=tuple(settled),
        missing_tiers=tuple(missing),
        scaling=_scaling(settled, trials, run),
        prediction=corrected(run.prediction, trials.records) if run.prediction else None,
        findings=_findings(trials, run, tuple(chosen.values())),
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


def _findings(trials: Trials, run: Run, picks: Sequence[TrialRecord]) -> tuple[Finding, ...]:
    findings = list(run.machine_findings)
    if run.is_emulated:
        findings.append(_other_device(trials, run))
    baseline = trials.baseline
    if baseline is not None and baseline.failure is not None:
        findings.append(
            Finding(
                code="baseline-failed",
                severity=Severity.WARNING,
                message=(
                    f"the baseline did not run here ({baseline.failure.kind}): {baseline.failure.message}"
                ),
                remedy="speed-ups are n/a; the tiers were searched from smaller batches",
            )
        )
    if baseline is not None:
        profile = None if run.is_emulated else run.profile
        of_loop = loop_findings(baseline, run.target, trials.discovery, run.rank_host, profile)
        # Notes advise what a search has just tried, but for this one.
        findings += [
            finding
            for finding in of_loop
            if finding.severity is not Severity.INFO or finding.code == "fp16-unscaled"
        ]
    # Once the search is over, also of the modes whose losses should be known.
    guarded = guarded_modes(trials.records, picks if run.status is RunStatus.FINISHED else ())
    findings += [*loss_findings(guarded), *largest_findings(trials.confirming)]
    if all(finding.code != "gpu-unsoaked" for finding in findings):
        findings += _unsoaked(trials)
    findings += [finding for finding in (_diverted(trials), _unsteady(trials)) if finding is not None]
    if run.script_scales_lr:
        findings.append(_scales_lr(trials))
    loop = next((r.measurement.loop for r in trials.candidates if r.measurement), None)
    if loop is not None and loop.epoch_samples is None:
        findings.append(
            Finding(
                code="epoch-unknown",
                severity=Severity.INFO,
                message="the data set has no length, so epoch boundaries are not in the rate",
                evidence="it is an IterableDataset, or len() of its loader fails",
                remedy="where you know the length, tell it to `tunekit plan` with --samples",
            )
        )
    return tuple(findings)


def _other_device(trials: Trials, run: Run) -> Finding:
    """Find that the trials ran on another device than the one asked for."""
    devices = (record.measurement.loop.device for record in trials.records if record.measurement)
    capped = next((device for device in devices if device.whole_bytes is not None), None)
    if capped is None:
        message = f"measured on {run.measured_on}, not on {run.profile.id}: the tiers are for this machine"
    else:
        message = (
            f"measured on {run.measured_on} with its memory capped to {run.profile.id}'s "
            f"{bytes_text(capped.memory_bytes)}: what fits is held against that, of which a CUDA context on "
            f"{run.profile.id} takes 0.3 to 1.5 GiB; rates are those of {run.measured_on}"
        )
    return Finding(
        code="other-device",
        severity=Severity.WARNING,
        message=message,
        remedy=f"run the same command on a machine with {run.profile.device_names[0]}",
    )


def _diverted(trials: Trials) -> Finding | None:
    """Find writes of the script that went elsewhere."""
    written = (one for record in trials.records for one in record.written)
    diverted = sorted(
        {one.path for one in written if one.action == "diverted" and _TORCHS_OWN not in one.path}
    )
    if not diverted:
        return None
    shown = ", ".join(diverted[:3]) + (" ..." if len(diverted) > 3 else "")
    return Finding(
        code="writes-diverted",
        severity=Severity.INFO,
        message=f"writes to {len(diverted)} of the script's files went to the trials' folders: {shown}",
        value=len(diverted),
    )


def _scales_lr(trials: Trials) -> Finding:
    """Find that the script scales its learning rate itself."""
    seen = {
        global_batch(one.config): one.learning_rate
        for one in trials.records
        if one.config is not None and one.learning_rate and one.measurement
    }
    shown = ", ".join(f"{lr:.4g} at batch {batch}" for batch, lr in sorted(seen.items()))
    return Finding(
        code="lr-scaled-by-script",
        severity=Severity.INFO,
        message="the script scales its learning rate itself, so no rule is applied on top",
        evidence=f"it was seen to be {shown}",
    )


def _unsoaked(trials: Trials) -> list[Finding]:
    """Find a GPU whose clock fell at its power limit, from the baseline's first trial to its last.

    A trial's window is often too short to see that, which takes minutes.
    """
    clocks: dict[int, list[float]] = {}
    for record in trials.records:
        seen = record.telemetry
        if not record.is_baseline_config or seen is None or not seen.is_of_steady_window:
            continue
        for gpu in seen.gpus:
            if gpu.is_used and gpu.sm_clock_mhz is not None and POWER_CAP in gpu.throttle_reasons:
                clocks.setdefault(gpu.index, []).append(gpu.sm_clock_mhz)
    return [
        Finding(
            code="gpu-unsoaked",
            severity=Severity.WARNING,
            message=f"GPU {index} got warm at its power limit during the search: a long run will be slower",
            evidence=(
                f"{POWER_CAP}; the baseline ran at {each[0]:.0f} MHz first and at {each[-1]:.0f} MHz last "
                "(NVML)"
            ),
            remedy="trust the confirmed speed-ups, whose trials took turns, and of the rates the last ones",
            value=1 - each[-1] / each[0],
        )
        for index, each in sorted(clocks.items())
        if each[-1] <= (1 - FALL_OF_CLOCK) * each[0]
    ]


def _unsteady(trials: Trials) -> Finding | None:
    """Find a config whose own trials differ more than configs usually do."""
    rates: dict[TrainConfig, list[float]] = {}
    for record in trials.records:
        if record.role is TrialRole.NUMERICS or record.is_abandoned:
            continue
        if record.config is not None and record.rate_samples_per_s is not None:
            rates.setdefault(record.config, []).append(record.rate_samples_per_s)
    spreads = {config: max(seen) / min(seen) for config, seen in rates.items() if min(seen) > 0}
    worst = max(spreads, key=lambda config: spreads[config], default=None)
    if worst is None or spreads[worst] < _UNSTEADY_RATIO:
        return None
    low, high = min(rates[worst]), max(rates[worst])
    return Finding(
        code="unsteady-machine",
        severity=Severity.WARNING,
        message="the same config ran at very different rates: something else was at work on this machine",
        evidence=f"{rate_text(low)} to {rate_text(high)} samples/s in {len(rates[worst])} fresh processes",
        remedy="search again when it is quiet; until then trust the confirmed speed-ups only",
        value=spreads[worst],
    )
