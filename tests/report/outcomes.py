"""Runs with every outcome that a search can have."""

from collections.abc import Callable
from typing import Any

from build_records import (
    baseline_record,
    config,
    confirm_records,
    cpu,
    failure,
    interval,
    largest_seen,
    options,
    recommendation,
    run,
    target,
    trial_record,
)
from build_reports import full_run
from build_searched import walked

from tunekit.records.details import DataSeen, Details
from tunekit.records.interval import Interval
from tunekit.records.recommendation import (
    LearningRate,
    LearningRateRule,
    NoiseFloor,
    Recommendation,
    SetAside,
    Tier,
    Untried,
)
from tunekit.records.run import FixedKnob, KnobRange, KnobSpace, Objective, Run, RunStatus
from tunekit.records.target import StepNumber
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole
from tunekit.trial.binding_syntax import parse_binding

FAST = config(batch_size=256, num_workers=4, compile=True)
WIDE = Interval(value=1.83, low=0.24, high=13.73)
MANY = Interval(value=1.40, low=0.97, high=2.02)
SOME = Interval(value=1.08, low=0.98, high=1.19)
NEAR = Interval(value=1.07, low=0.98, high=1.17)
NO_FLOAT_HOLDS_ITS_INVERSE = Interval(value=5e-324, low=5e-324, high=5e-324)
OWN = recommendation(of=config(), is_baseline=True, speedup=interval(1.0))
SLOWER = tuple(trial_record(number, 400.0, config(batch_size=16 * number)) for number in (1, 2))
FOR_FINISH = options(objective=Objective.FINISH_TIME, epochs=100, epochs_given=True)


def finished(*tiers: Recommendation, floor: float | None = 0.02, **overrides: Any) -> Run:
    """A search whose Balanced tier is twice as fast as the baseline, unless tiers are given."""
    values = {
        "recommendations": tiers or (recommendation(of=FAST),),
        "noise_floor": None if floor is None else NoiseFloor(relative=floor, pairs=4, processes=5),
        "trials": (
            baseline_record(of=config()),
            trial_record(1, 1000.0, FAST),
            *confirm_records([1000.0, 1010.0, 990.0], FAST),
        ),
    }
    return run(**(values | overrides))


def kept(*others: TrialRecord, **overrides: Any) -> Run:
    """A search that keeps the baseline after these other trials."""
    return finished(OWN, trials=(baseline_record(of=config()), *others), **overrides)


def left_open(ratio: Interval, floor: float = 0.02, waited_s: float | None = None, **overrides: Any) -> Run:
    """A search in which the baseline took the place of a pick with that speedup."""
    aside = SetAside(config=FAST, search_trial=1, confirm_trials=tuple(range(2, 7)), speedup=ratio)
    own = OWN.changed(set_aside=aside)
    return finished(own, floor=floor, options=options(wait_quiet_s=waited_s), **overrides)


def left_open_for_aggressive() -> Run:
    aside = SetAside(config=FAST, search_trial=1, confirm_trials=(2, 3), speedup=SOME)
    return finished(
        OWN.changed(set_aside=aside), recommendation(Tier.AGGRESSIVE, FAST, speedup=SOME), floor=0.02
    )


def untried(rate: float) -> dict[str, Any]:
    values = {"batch_size": (16, 32, 64), "num_workers": (4, 32), "compile": (False, True)}
    space = tuple(KnobSpace(knob=knob, values=some) for knob, some in values.items())
    return {"space": space, "untried": Untried(config=config(num_workers=32), rate_samples_per_s=rate)}


def rerun_baseline() -> Run:
    again = [
        record.changed(is_baseline_config=True)
        for record in confirm_records([500.0, 510.0, 490.0], config(), first_number=50)
    ]
    return kept(trial_record(1, 600.0, FAST), *confirm_records([510.0, 480.0, 560.0], FAST), *again)


def failed(number: int, kind: OutcomeKind, message: str = "KeyError: 'label'") -> TrialRecord:
    gone = failure(kind, message=message, remedy="look at the data")
    return trial_record(number, None, FAST, overrides={"failure": gone})


def scaled(rule: LearningRateRule, value: float, **overrides: Any) -> Run:
    lr = LearningRate(value=value, rule=rule, base_lr=0.1, base_batch=128, source="baseline")
    return finished(recommendation(of=FAST, learning_rate=lr), **overrides)


def on_another_device() -> Run:
    asked = options(
        gpu="a10g",
        fixed=(FixedKnob(knob="compile", value=False),),
        ranges=(KnobRange(knob="num_workers", low=0, high=4),),
        max_batch=64,
    )
    bound = target(bindings=(parse_binding("num_workers=--workers {}"),), samples_per_step=8)
    return finished(measured_on="cpu", options=asked, target=bound)


def planned(ratio: Interval = interval(2.0)) -> Run:  # noqa: B008 - frozen
    return finished(recommendation(of=FAST, speedup=ratio, finish_time_s=5040.0), options=FOR_FINISH)


def on_cpu() -> Run:
    lone = recommendation(of=FAST, speedup=None, peak_reserved_bytes=None, device_memory_bytes=None)
    trials = (baseline_record(0, 500.0, device=cpu()), trial_record(1, 1000.0, FAST, device=cpu()))
    return finished(lone, trials=trials)


def with_losses() -> Run:
    losses = tuple(2.0 - index / 64 for index in range(64))
    guard = trial_record(50, of=config(compile=True), role=TrialRole.NUMERICS, losses=losses)
    return kept(trial_record(1, 1000.0, FAST), guard).changed(
        trials=(baseline_record(of=config(), losses=losses), trial_record(1, 1000.0, FAST), guard)
    )


def with_largest_samples() -> Run:
    lived, other = largest_seen(), largest_seen(survived=False)
    aggressive = recommendation(Tier.AGGRESSIVE, config(batch_size=512), largest=other)
    return finished(recommendation(of=FAST, largest=lived), aggressive)


def with_other_training() -> Run:
    """A search whose faster config leaves a step limit of the script as it is."""
    limit = StepNumber(source="--max-steps", name="max_steps", steps=1_000, is_option=True)
    seen = {"step_numbers": (limit,)}
    own = baseline_record(of=config(), overrides=seen)
    assert own.measurement is not None
    looked = own.measurement.changed(details=Details(data=DataSeen()))
    tried = trial_record(1, 1000.0, FAST, overrides=seen)
    return finished(OWN, trials=(own.changed(measurement=looked), tried, SLOWER[1]))


def by_three_hosts() -> Run:
    whole = finished()
    return whole.changed(
        trials=tuple(one.changed(host_name=f"node-{one.number % 3}") for one in whole.trials)
    )


def unfinished(*trials: TrialRecord, **overrides: Any) -> Run:
    return run(**({"trials": trials, "status": RunStatus.INTERRUPTED} | overrides))


def shared(at: str, *words: str) -> Run:
    return unfinished(shared_at=at, target=target(command=("python", "train.py", *words)))


OUTCOMES: dict[str, Callable[[], Run]] = {
    "faster": finished,
    "faster, many changes": walked,
    "faster, with everything": full_run,
    "faster on a noisy machine": lambda: finished(floor=0.07),
    "faster on a busy machine": lambda: finished(floor=0.17),
    "faster, noise floor unknown": lambda: finished(floor=None),
    "faster, but aggressive alone": lambda: finished(OWN, recommendation(Tier.AGGRESSIVE, FAST)),
    "faster, interrupted": lambda: finished(status=RunStatus.INTERRUPTED),
    "faster, three hosts": by_three_hosts,
    "faster, without workers": lambda: finished(recommendation(of=config(num_workers=0), buffer_bytes=0)),
    "faster, same batch": lambda: finished(recommendation(of=config(num_workers=4))),
    "faster, lr bound": lambda: finished(target=target(bindings=(parse_binding("lr=--lr {}"),))),
    "faster, linear lr": lambda: scaled(LearningRateRule.LINEAR, 0.2),
    "faster, sqrt lr": lambda: scaled(LearningRateRule.SQRT, 0.1414),
    "faster, script scales lr": lambda: finished(script_scales_lr=True),
    "faster, measured elsewhere": on_another_device,
    "faster, built-in workload": lambda: finished(target=target(builtin="images")),
    "faster, on a CPU": on_cpu,
    "faster, speedup too noisy": lambda: finished(
        recommendation(of=FAST, speedup=Interval(value=36.9, low=0.0, high=73.8))
    ),
    "faster, speedup next to nothing": lambda: finished(
        recommendation(of=FAST, speedup=NO_FLOAT_HOLDS_ITS_INVERSE)
    ),
    "faster, largest samples": with_largest_samples,
    "planned training faster": planned,
    "planned training slower": lambda: planned(interval(0.5)),
    "planned training without gain": lambda: planned(interval(1.0, 0.04)),
    "slower": lambda: finished(recommendation(of=FAST, speedup=interval(0.8))),
    "baseline failed": lambda: finished(
        recommendation(of=FAST, speedup=None), trials=(baseline_record(rate=None), trial_record(1, of=FAST))
    ),
    "faster: its own processes differ much": lambda: finished(
        trials=(baseline_record(of=config()), *confirm_records([700.0, 1010.0, 990.0], FAST))
    ),
    "no gain": lambda: left_open(Interval(value=1.01, low=1.006, high=1.014)),
    "open: busy": lambda: left_open(WIDE, 0.17),
    "open: busy in spite of waiting": lambda: left_open(WIDE, 0.17, 60.0),
    "open: busy in spite of waiting, more rounds": lambda: left_open(MANY, 0.17, 60.0),
    "open: more rounds": lambda: left_open(SOME),
    "open: more rounds, after waiting": lambda: left_open(SOME, waited_s=60.0),
    "open: within the noise": lambda: left_open(NEAR, 0.09),
    "open: too many rounds": lambda: left_open(Interval(value=1.03, low=0.7, high=1.5)),
    "open: shared": lambda: left_open(SOME, shared_at="/mnt/shared"),
    "open: interrupted": lambda: left_open(SOME, status=RunStatus.INTERRUPTED),
    "open: file of another tier": left_open_for_aggressive,
    "open: one process": lambda: kept(trial_record(1, 520.0, FAST)),
    "open: one process, budget": lambda: kept(
        trial_record(1, 520.0, FAST), cut_short="--budget 2m had time for 1 search trial"
    ),
    "open: baseline run again": rerun_baseline,
    "kept: one slower": lambda: kept(SLOWER[0]),
    "kept: two slower": lambda: kept(*SLOWER),
    "kept: two slower, budget": lambda: kept(*SLOWER, cut_short="--budget 2m had time for 2 search trials"),
    "kept: much is not tried": lambda: kept(*SLOWER, **untried(6500.0)),
    "faster: some is not tried": lambda: finished(recommendation(Tier.BALANCED, FAST), **untried(1000.0)),
    "kept: one trains something else": with_other_training,
    "kept: nothing tried": kept,
    "kept: --trials 1": lambda: kept(options=options(max_trials=1)),
    "kept: all failed": lambda: kept(
        failed(1, OutcomeKind.WORKER_CRASH),
        failed(2, OutcomeKind.WORKER_CRASH),
        failed(3, OutcomeKind.REFUSED),
    ),
    "kept: losses agree": with_losses,
    "none: no trial": unfinished,
    "none: baseline failed": lambda: unfinished(baseline_record(rate=None)),
    "none: baseline alone": lambda: unfinished(baseline_record()),
    "none: no time": lambda: run(trials=(), cut_short="--budget 10s is too short"),
    "none: shared folder": lambda: shared("/mnt/shared"),
    "none: shared database": lambda: shared("postgresql://***@db/runs"),
    "none: shared database, secret": lambda: shared("postgresql://***@db/runs", "--token", "***"),
}
"""Each outcome by what it is."""
