"""Turns a run into the request for a plan, and makes the plan for its report."""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import ValidationError

from tunekit.errors import RecordError, UsageError
from tunekit.machine.profiles import load_profiles
from tunekit.plan.plan import make_plan
from tunekit.predict.loader_rate import loader_rate_per_cpu, loader_work_of, usual_instance
from tunekit.recommend.learning_rate import global_batch
from tunekit.recommend.recommendation import answer_of
from tunekit.records.config import Precision
from tunekit.records.interval import Interval
from tunekit.records.measurement import DryRun, Measurement, samples_of_epoch
from tunekit.records.plan import Plan, PlanAssumptions, PlanRequest, PredictedRate, RateSource
from tunekit.records.prediction import PredictedFit
from tunekit.records.profile import Profile, TakenName
from tunekit.records.recommendation import Recommendation, Tier
from tunekit.records.run import BatchFit, FitsRun, RequestedBatch, Run


class PlanOptions(NamedTuple):
    """The user's options for a plan, independent of the source of the rate."""

    samples_per_epoch: int | None = None
    epochs: int | None = None
    providers: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    max_hours: float | None = None
    may_use_spot: bool = False
    taken_names: tuple[TakenName, ...] = ()
    peak_reserved_bytes: int | None = None
    """Peak memory per GPU, instead of the run's."""
    loader_samples_per_s_per_cpu: Interval | None = None
    """Loader rate on one CPU, instead of the run's."""
    assumptions: PlanAssumptions = PlanAssumptions()

    def request(self, **known: Any) -> PlanRequest:
        """Return the request with these options and the known facts about the training and its rate."""
        options = {name: value for name, value in self._asdict().items() if value is not None}
        return PlanRequest(**options | known)


def request_of_run(
    run: Run, asked: PlanOptions, tier: Tier | None = None, name: str = "the run"
) -> PlanRequest:
    """Return the request for a run's plan: a tier's confirmed rate and the samples of its epochs.

    Args:
        run: the saved run.
        asked: the user's options; the run provides the rest.
        tier: the tier whose rate to use; by default Balanced, else the nearest available.
        name: how to call the run.

    Raises:
        UsageError: the run has no rate of that tier, or does not know its data set's length.
    """
    best = _recommendation(run, tier, name)
    seen = [*run.history.evidence(best), *run.history.evidence(None)]
    models = (one.measurement.loop.model for one in seen)
    samples = asked.samples_per_epoch or samples_of_epoch(one.measurement.loop for one in seen)
    if samples is None:
        raise UsageError(
            f"{name} does not know how many samples an epoch has, since its data set has no length; "
            "give them with --samples"
        )
    return asked.request(
        source=f"{name}, {best.tier.value}: {_rate_source(best)}",
        samples_per_epoch=samples,
        epochs=asked.epochs or run.options.epochs,
        rate_samples_per_s=best.rate_samples_per_s,
        measured_on=run.measured_on,
        measured_gpus=run.world_size,
        # One process and its workers, of the CPUs that it had.
        measured_vcpus_per_gpu=min(run.rank_host.cpus, best.config.num_workers + 1),
        loader_samples_per_s_per_cpu=asked.loader_samples_per_s_per_cpu
        or _loader_per_cpu(one.measurement for one in seen),
        samples_per_step=global_batch(best.config, run.world_size),
        gradients_bytes=next((model.gradients_bytes for model in models if model is not None), None),
        tier=best.tier,
        precision=best.config.precision,
        peak_reserved_bytes=asked.peak_reserved_bytes or best.peak_reserved_bytes,
    )


def request_of_prediction(
    run: Run | FitsRun,
    asked: PlanOptions,
    profiles: Mapping[str, Profile],
    gpu: str | None = None,
    precision: Precision | None = None,
    name: str = "the run",
) -> PlanRequest:
    """Return the request for a plan from rates that were predicted from a run's traced steps.

    Args:
        run: a prediction of `tunekit fits`, or a search for a GPU that isn't here.
        asked: the user's options; the run provides the rest.
        profiles: every GPU's profile by id.
        gpu: profile id of the GPU to answer for; by default the one with the lowest price per sample.
        precision: by default the script's, or that of the search's starting config.
        name: how to call the run.

    Raises:
        UsageError: no rate is predicted for that GPU, or samples or epochs are unknown.
    """
    configs = (run.prediction and run.prediction.config, *(trial.config for trial in run.trials))
    config = next((one for one in configs if one is not None), None)
    rates = _predicted_rates(run, precision or (config.precision if config else Precision.FP32))
    may_answer = [one for one in rates if _is_asked(one.profile_id, gpu, asked, profiles)]
    usable = [one for one in may_answer if one.rate is not None]
    base = min(usable, key=lambda one: _usd_per_sample(one, profiles), default=None)
    if base is None or base.rate is None:
        on = f"--gpu {gpu} " if gpu else ""
        raise UsageError(
            f"{name} predicts no rate {f'of {gpu} ' if gpu else ''}at its batch; run tunekit fits {on}-- "
            "COMMAND and plan its folder, or give a rate with --rate"
        )
    seen = [looked for trial in run.trials if (looked := trial.measurement or trial.dry) is not None]
    of_rank = next((one.loop.epoch_samples for one in seen), None)
    samples = asked.samples_per_epoch or (of_rank and of_rank * run.world_size)
    epochs = asked.epochs or (run.options.epochs if isinstance(run, Run) else None)
    if samples is None or epochs is None:
        missing = [flag for flag, known in (("--samples", samples), ("--epochs", epochs)) if known is None]
        raise UsageError(f"{name} does not know how long the training is; give {' and '.join(missing)}")
    return asked.request(
        source=f"{name}: predicted from its steps at a batch of {base.batch_size}",
        samples_per_epoch=samples,
        epochs=epochs,
        rate_samples_per_s=base.rate,
        rate_source=RateSource.PREDICTED,
        measured_on=base.profile_id,
        predicted=rates,
        loader_samples_per_s_per_cpu=asked.loader_samples_per_s_per_cpu or _loader_per_cpu(seen),
        samples_per_step=base.batch_size * (config.accumulate_grad_batches if config else 1),
        precision=base.precision,
    )


def _is_asked(gpu: str, only: str | None, asked: PlanOptions, profiles: Mapping[str, Profile]) -> bool:
    """Return whether the options let a GPU be the one to answer for."""
    if only is not None:
        return gpu == only
    machines = profiles[gpu].instances if gpu in profiles else ()
    is_offered = not asked.providers or any(one.provider in asked.providers for one in machines)
    return is_offered and (not asked.only or gpu in asked.only)


def _predicted_rates(run: Run | FitsRun, precision: Precision) -> tuple[PredictedRate, ...]:
    """Return each GPU's rate at the script's batch, else the largest, in a precision or one of equal size."""
    found, verdicts = run.prediction, {BatchFit.YES: True, BatchFit.NO: False}
    known: list[tuple[PredictedFit | RequestedBatch, bool | None]] = []
    if isinstance(run, FitsRun) and run.asked:
        known = [(one, verdicts.get(one.verdict)) for one in run.asked]
    elif found is not None:
        known = [(one, one.batch_size > 0) for one in ((found.start,) if found.start else found.fits)]
    order = (precision.alike, precision)
    chosen = {one.profile_id: (one, fits) for name in order for one, fits in known if one.precision is name}
    return tuple(
        PredictedRate(
            profile_id=one.profile_id,
            precision=one.precision,
            batch_size=max(1, one.batch_size),
            rate=one.compute,
            fits=fits,
        )
        for one, fits in chosen.values()
    )


def _usd_per_sample(one: PredictedRate, profiles: Mapping[str, Profile]) -> float:
    machine = usual_instance(profiles[one.profile_id]) if one.profile_id in profiles else None
    if machine is None or machine.usd_per_h is None or one.rate is None:
        return math.inf
    return machine.usd_per_h / machine.gpus / one.rate.value


def measured_profile(run: Run) -> Profile | None:
    """Return the profile of the device that the run was measured on, if the run contains it."""
    return run.profile if run.profile.id == run.measured_on else None


def _recommendation(run: Run, tier: Tier | None, name: str) -> Recommendation:
    by_tier = {one.tier: one for one in run.recommendations}
    if tier is not None and tier not in by_tier:
        known = ", ".join(by_tier) or "none"
        raise UsageError(f"{name} has no {tier} tier (it has: {known}); choose another --tier")
    best = answer_of(run.recommendations) if tier is None else by_tier[tier]
    if best is None:
        raise UsageError(
            f"{name} has no rate: it recommends nothing (status: {run.status}); finish the search, or give a "
            "rate with --rate"
        )
    return best


def _loader_per_cpu(seen: Iterable[Measurement | DryRun]) -> Interval | None:
    """Return the loading rate per CPU with the tier's own config, else with the baseline's."""
    for one in seen:
        work = loader_work_of(one.loop, one.details.floors if one.details else None)
        if per_cpu := loader_rate_per_cpu(one.loop, work):
            return per_cpu
    return None


def _rate_source(best: Recommendation) -> str:
    rounds = len(best.confirm_trials)
    if not rounds:
        return "measured once, not confirmed"
    return f"measured in {rounds} fresh process{'es' if rounds > 1 else ''}, 95% interval"


def plan_of_run(run: Run) -> Plan | None:
    """Return the plan for the recommended config; None if the run lacks necessary facts.

    The age of prices is judged by the day of the run, so that a report with the same profiles stays the same.
    """
    try:
        made_on = datetime.fromisoformat(run.created_at).date()
    except ValueError:
        return None
    try:
        profiles = load_profiles()
        gpu_profile = measured_profile(run)
        if gpu_profile is not None:
            profiles = {gpu_profile.id: gpu_profile} | profiles
        request = (
            request_of_prediction(run, PlanOptions(), profiles)
            if run.is_emulated and run.prediction
            else request_of_run(run, PlanOptions())
        )
        return make_plan(request, profiles, made_on, run.options.ignored)
    except (UsageError, RecordError, ValidationError):
        # There is no rate or epoch length, a profile can't be read, or the training would never end.
        return None
