"""Configs side by side, paired by round; and what each optimisation brings by itself and in turn. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tunekit.recommend.knob_gains import factor
from tunekit.recommend.noise import noise_floor, rate_interval, verdict
from tunekit.records.config import USUAL_PREFETCH, KnobValue, Precision, TrainConfig
from tunekit.records.interval import Interval
from tunekit.records.measurement import Measurement
from tunekit.records.recommendation import NoiseFloor
from tunekit.records.run import Ablation, AblationStep, Contender, FixedKnob
from tunekit.records.target import BindingKind
from tunekit.records.trial import TrialRecord
from tunekit.tune.knob_access import SearchContext, access_of, why_inert
from tunekit.tune.space import knob_space

TrialsOf = Callable[[TrainConfig], Sequence[TrialRecord]]
"""The interleaved trials of a config so far."""


def contender(
    name: str,
    config: TrainConfig,
    records: Sequence[TrialRecord],
    beside: Sequence[TrialRecord] | None = None,
    noise: NoiseFloor | None = None,
) -> Contender:
    """Return a config with what its trials come to, beside those of the config that it is compared with."""
    measured = [record.measurement for record in records if record.measurement]
    failures = (record.failure.with_remedy for record in records if record.failure)
    ratio = None if beside is None else factor(records, beside, noise)
    return Contender(
        name=name,
        config=config,
        trials=tuple(record.number for record in records),
        rate_samples_per_s=_rate(measured, noise),
        factor=ratio,
        verdict=verdict(ratio, noise) if ratio else None,
        why_missing=None if measured else next(failures, "not run"),
    )


def processes_noise(records: Sequence[TrialRecord]) -> NoiseFloor | None:
    """Return how much the fresh processes of one config differ; None with fewer than two."""
    return noise_floor([record.measurement.rate_samples_per_s for record in records if record.measurement])


def _rate(measured: Sequence[Measurement], noise: NoiseFloor | None) -> Interval | None:
    rates = [one.rate_samples_per_s for one in measured]
    return rate_interval(rates, measured[0].loop, noise) if measured else None


# --- what each optimisation brings ---------------------------------------------------------


@dataclass(frozen=True)
class Optimisation:
    """One thing that may make a loop faster."""

    name: str
    changes: tuple[FixedKnob, ...]

    def on(self, config: TrainConfig) -> TrainConfig:
        """Return a config with it."""
        return config.changed(**{one.knob: one.value for one in self.changes})


@dataclass(frozen=True)
class AblationPlan:
    """What is tried on a config, in order."""

    optimisations: tuple[Optimisation, ...]
    left_out: tuple[str, ...]
    """What is not, and why."""

    def alone(self, config: TrainConfig) -> tuple[TrainConfig, ...]:
        """Return the config with each optimisation by itself."""
        return tuple(one.on(config) for one in self.optimisations)

    def configs_at_most(self, config: TrainConfig) -> frozenset[TrainConfig]:
        """Return the different configs that are run if none fails, the plain one included."""
        stacked = accumulate(self.optimisations, lambda below, one: one.on(below), initial=config)
        return frozenset((*self.alone(config), *stacked))


def plan_ablation(config: TrainConfig, context: SearchContext, workers: int | None = None) -> AblationPlan:
    """Return the optimisations that apply to a config on this target and device."""
    choices = [_loader_workers(config, context, workers)]
    choices += [_choice(knob, value, config, context) for knob, value in _SWITCHED_ON]
    kept = tuple(Optimisation(name, changes) for name, changes, why_not in choices if why_not is None)
    return AblationPlan(kept, tuple(f"{name}: {why_not}" for name, _, why_not in choices if why_not))


_SWITCHED_ON: tuple[tuple[str, KnobValue], ...] = (
    ("pin_memory", True),
    ("precision", Precision.TF32),
    ("precision", Precision.BF16),
    ("channels_last", True),
    ("compile", True),
)
_Choice = tuple[str, tuple[FixedKnob, ...], str | None]


def _loader_workers(config: TrainConfig, context: SearchContext, wanted: int | None) -> _Choice:
    name, count = "loader workers", wanted or max(1, context.host.cpus // 2)
    access, why_not = access_of("num_workers", context), None
    if access.kind is BindingKind.FIXED:
        why_not = access.why_fixed
    elif config.num_workers >= count:
        why_not = f"there are {config.num_workers} already, with {context.host.cpus} CPUs"
    values: dict[str, KnobValue] = {"num_workers": count, "persistent_workers": True}
    if not config.num_workers:
        values["prefetch_factor"] = USUAL_PREFETCH
    settable = [knob for knob in values if access_of(knob, context).kind is not BindingKind.FIXED]
    return name, tuple(FixedKnob(knob=knob, value=values[knob]) for knob in settable), why_not


def _choice(knob: str, value: KnobValue, config: TrainConfig, context: SearchContext) -> _Choice:
    present, space, why_not = getattr(config, knob), knob_space(knob, context), None
    if present == value or (value is Precision.TF32 and present is not Precision.FP32):
        why_not = why_inert(knob, context) or f"{knob} is {present} already"
    elif value not in space.values:
        why_not = space.why_fixed or f"{context.profile.id} does not compute natively in it"
    return knob if value is True else str(value), (FixedKnob(knob=knob, value=value),), why_not


def ablation_of(
    config: TrainConfig, plan: AblationPlan, trials_of: TrialsOf, noise: NoiseFloor | None
) -> Ablation:
    """Return what the trials so far say of each optimisation.

    An optimisation that failed by itself or when it was added is left out of those that follow.
    """
    plain = trials_of(config)
    steps: list[AblationStep] = []
    used: list[Contender] = []
    together, before = None, config
    for one in plan.optimisations:
        alone = contender(one.name, one.on(config), trials_of(one.on(config)), plain, noise)
        with_it = one.on(before)
        added, step_factor = None, alone.factor
        if used and alone.rate_samples_per_s is not None:
            added = contender(f"+ {one.name}", with_it, trials_of(with_it), plain, noise)
            step_factor = factor(trials_of(with_it), trials_of(before), noise)
        result = added or alone
        steps.append(
            AblationStep(
                name=one.name, changes=one.changes, alone=alone, added=added, step_factor=step_factor
            )
        )
        if result.rate_samples_per_s is not None:
            before, together = with_it, result.factor
            used.append(alone)
    return Ablation(
        steps=tuple(steps),
        left_out=plan.left_out,
        product_of_alone=product(used),
        together=together,
        together_verdict=verdict(together, noise) if together else None,
    )


def product(contenders: Sequence[Contender]) -> float | None:
    """Return what factors would come to if they multiplied; None where one is unknown."""
    values = [one.factor.value for one in contenders if one.factor is not None]
    return math.prod(values) if values and len(values) == len(contenders) else None


def next_added(config: TrainConfig, plan: AblationPlan, trials_of: TrialsOf) -> TrainConfig | None:
    """Return the next config to run of those in which optimisations are added in turn; None when all ran.

    Each optimisation must have run by itself.
    """
    before = config
    for one in plan.optimisations:
        if not _runs(trials_of(one.on(config))):
            continue
        with_it = one.on(before)
        if not trials_of(with_it):
            return with_it
        if _runs(trials_of(with_it)):
            before = with_it
    return None


def _runs(records: Sequence[TrialRecord]) -> bool:
    return any(record.measurement for record in records)
