"""Whole runs for reports: one with something in every part, one of hostile texts, one of many trials."""

from typing import Any

from build_fits import fit, predicted
from build_plans import TODAY, instance, plan_of, plan_request, spot_price, twice_as_fast
from build_records import (
    GIB,
    MIB,
    baseline_record,
    config,
    confirm_records,
    failure,
    interval,
    profile,
    recommendation,
    run,
    target,
    trial_record,
)

from tunekit.machine.telemetry.series import Series
from tunekit.plan.milestones import Limits, plan_milestones
from tunekit.records.config import Precision
from tunekit.records.finding import Finding
from tunekit.records.measurement import DeviceSeen, HostTelemetry, Telemetry
from tunekit.records.milestones import Milestone, MilestonePlan
from tunekit.records.plan import Plan
from tunekit.records.prediction import DevicePrediction
from tunekit.records.recommendation import (
    LearningRate,
    LearningRateRule,
    Limit,
    MissingTier,
    ModelSummary,
    NoiseFloor,
    PredictedLimits,
    ScalingRow,
    Tier,
)
from tunekit.records.run import Run
from tunekit.records.trial import OutcomeKind, TrialRecord

FAST = config(batch_size=256, num_workers=4, precision=Precision.BF16)

HOSTILE = "</script><img src=x onerror=document.title='owned'>"
LONG = "n" * 10_000
RIGHT_TO_LEFT = "\u0645\u0634\u0631\u0648\u0639 \u05d0\u05d9\u05de\u05d5\u05df"
EMOJI = "train \U0001f680 \u2764"


def full_run(**overrides: Any) -> Run:
    """A finished run on an A10G with something in every part of a report, failures among it."""
    rate = LearningRate(
        value=0.2, rule=LearningRateRule.LINEAR, base_lr=0.1, base_batch=128, source="baseline"
    )
    scaling = tuple(
        ScalingRow(
            tier=Tier.BALANCED,
            gpus=gpus,
            total_batch=256 * gpus,
            total_workers=4 * gpus,
            buffer_bytes=2 * MIB * gpus,
            ram_bytes=GIB * gpus,
            lr_linear=0.2 * gpus,
            lr_sqrt=0.2,
        )
        for gpus in (1, 2, 4, 8)
    )
    values: dict[str, Any] = {
        "trials": _trials(),
        "recommendations": (
            recommendation(
                Tier.CONSERVATIVE,
                config(batch_size=256),
                rate_samples_per_s=interval(800.0),
                speedup=interval(1.6),
            ),
            recommendation(of=FAST, learning_rate=rate, confirm_trials=(9, 10, 11)),
        ),
        "missing_tiers": (MissingTier(tier=Tier.AGGRESSIVE, reason="nothing larger fits the memory"),),
        "noise_floor": NoiseFloor(relative=0.02, pairs=4, processes=5),
        "scaling": scaling,
        "findings": _findings(),
        "model": _model(),
        "prediction": _prediction(),
    }
    return run(**(values | overrides))


def full_plan() -> Plan:
    """A plan with machines that are cheapest and fastest, one of them with units and sessions."""
    own = profile(instances=(instance(), instance(name="g5.12xlarge", gpus=4, usd_per_h=5.672)))
    colab = instance(provider="colab", name="Twice", usd_per_h=0.7, compute_units_per_h=7.0)
    return plan_of(own, twice_as_fast(instances=(instance(name="twice", spot=spot_price()), colab)))


def full_milestones() -> MilestonePlan:
    """Two milestones on rented machines, one of them with units, and one without a price."""
    colab = instance(provider="colab", name="Twice", usd_per_h=0.7, compute_units_per_h=7.0)
    own = profile(instances=(instance(as_of="2025"),))
    profiles = {one.id: one for one in (own, twice_as_fast(instances=(colab,)))}
    milestones = (
        Milestone(name="pilot", samples_per_epoch=1_281_167, epochs=10, runs=4),
        Milestone(name="full", samples_per_epoch=25_623_340, epochs=90, hardware="colab"),
        Milestone(name="own", samples_per_epoch=5_124_668, epochs=30, hardware="here"),
    )
    asked = plan_request(rate_samples_per_s=interval(180.0), samples_per_step=256)
    return plan_milestones(asked, milestones, profiles, TODAY, Limits(9000.0, "200d", 4800.0))


def full_series(trial: int) -> tuple[Series, ...]:
    """What was sampled of any trial: host, loop and a GPU for a minute, the second half of it measured."""
    times = [float(t_s) for t_s in range(60)]
    host = tuple((t_s, 3.5 * t_s, 2.0 * GIB, 2e8 * t_s) for t_s in times)
    gpu = tuple((t_s, 90.0, 200.0 + trial, 1700.0, 5.0 * GIB) for t_s in times)
    loop = tuple((t_s, float(t_s >= 30), 4.0 * t_s, 4.0 * t_s) for t_s in times)
    return (
        Series("host", ("t_s", "cpu_s", "pss_bytes", "read_bytes"), host),
        Series("loop", ("t_s", "phase", "batches", "steps"), loop, ("warming", "measuring")),
        Series("gpu0", ("t_s", "utilization_percent", "power_w", "sm_clock_mhz", "tree_bytes"), gpu),
    )


def hostile_run() -> Run:
    """A run whose every text tries to be markup, or is very long, right to left or emoji."""
    failed = (
        trial_record(20, None, overrides={"failure": failure(message=HOSTILE, remedy=HOSTILE)}),
        trial_record(21, None, overrides={"failure": failure(message=LONG)}),
        trial_record(
            22, None, overrides={"failure": failure(OutcomeKind.SCRIPT_ERROR, message=RIGHT_TO_LEFT)}
        ),
    )
    named = DeviceSeen(type="cuda", name=HOSTILE, memory_bytes=22 * GIB)
    measured = tuple(
        trial_record(number, rate, FAST, device=named) for number, rate in ((30, 900.0), (31, 950.0))
    )
    told = (HOSTILE, LONG, RIGHT_TO_LEFT, EMOJI)
    return full_run(
        trials=(*_trials(), *failed, *measured),
        target=target(
            name=HOSTILE,
            command=("python", HOSTILE, EMOJI),
            script=HOSTILE,
            working_dir="/home/user/" + HOSTILE,
        ),
        measured_on=HOSTILE,
        findings=tuple(
            Finding(code=f"hostile-{place}", severity="warning", message=text, evidence=text, remedy=text)
            for place, text in enumerate(told)
        ),
        missing_tiers=(MissingTier(tier=Tier.AGGRESSIVE, reason=HOSTILE),),
        why_stopped=HOSTILE,
    )


def _trials() -> tuple[TrialRecord, ...]:
    """A baseline, a search with failures of several kinds, and confirming rounds of both configs."""
    own = tuple(
        one.model_copy(update={"is_baseline_config": True})
        for one in confirm_records([500.0, 505.0, 495.0], first_number=6)
    )
    return (
        _with_telemetry(baseline_record()),
        _with_telemetry(trial_record(1, 1000.0, FAST)),
        _with_telemetry(trial_record(2, 800.0, config(batch_size=256), peak_reserved_bytes=7 * GIB)),
        trial_record(3, None, config(batch_size=1024)),
        trial_record(
            4,
            None,
            config(batch_size=4096),
            overrides={"failure": failure(OutcomeKind.REFUSED, message="no")},
        ),
        _with_telemetry(trial_record(5, 700.0, config(num_workers=1), stop_reason="abandoned")),
        *(_with_telemetry(one) for one in own),
        *(_with_telemetry(one) for one in confirm_records([1000.0, 1010.0, 990.0], FAST, first_number=9)),
    )


def _with_telemetry(record: TrialRecord) -> TrialRecord:
    """Return a trial with what the machine did meanwhile."""
    host = HostTelemetry(cpu_cores=3.5, read_bytes_per_s=2e8, rchar_bytes_per_s=3e8)
    seen = Telemetry(window_s=2.0, samples=10, is_of_steady_window=True, cost_cpu_s=0.01, host=host)
    return record.model_copy(update={"telemetry": seen})


def _findings() -> tuple[Finding, ...]:
    return (
        Finding(
            code="data-bound", severity="warning", message="training waits", remedy="more workers", gain=1.4
        ),
        Finding(code="other", severity="info", message="something", evidence="3 ms"),
        Finding(code="broken", severity="error", message="a loss was not finite"),
    )


def _model() -> ModelSummary:
    limits = tuple(
        PredictedLimits(
            tier=tier,
            loader_samples_per_s=600.0,
            training_samples_per_s=1500.0,
            cores_samples_per_s=2000.0,
            limit=Limit.LOADER,
            rate_samples_per_s=interval(rate),
            measured_samples_per_s=rate,
        )
        for tier, rate in ((None, 500.0), (Tier.CONSERVATIVE, 800.0), (Tier.BALANCED, 1000.0))
    )
    return ModelSummary(limits=limits, missed_relative=0.04, checked_configs=6)


def _prediction() -> DevicePrediction:
    fits = tuple(
        fit("a10g", 22.0, (most, most + 30, most + 60), precision, rate=interval(400.0, 0.3))
        for precision, most in ((Precision.FP32, 219), (Precision.BF16, 430))
    )
    return predicted(fits)
