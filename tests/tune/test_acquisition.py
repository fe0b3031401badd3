"""Proposals: legal, untried, the same every time, and good on targets whose physics is known."""

import math
from typing import Any

import numpy as np
import pytest
from build_records import GIB, baseline_record, config, failure, host, options, trial_record
from hypothesis import given
from hypothesis import strategies as st
from scripted_search import search_context

from tunekit.predict.loader_rate import max_useful_workers
from tunekit.predict.throughput.model import Prediction
from tunekit.predict.throughput.observation import Columns
from tunekit.recommend.planned_training import PlannedTraining
from tunekit.records.attribution import LoaderWork, StepParts, WorkerWork
from tunekit.records.config import KNOBS, Precision, TrainConfig
from tunekit.records.details import Details, IsolatedRates, WorkerSweepPoint
from tunekit.records.run import KnobSpace
from tunekit.records.trial import OutcomeKind, TrialRecord
from tunekit.tune.acquisition import (
    Acquisition,
    Criteria,
    all_configs,
    expected_improvement,
    over_planned_training,
)
from tunekit.tune.confirm import COMPILE_PRIOR_S
from tunekit.tune.space import build_space

SPACE = tuple(
    KnobSpace(knob=knob, values=values, why_fixed=None if len(values) > 1 else "one value")
    for knob, values in {
        "batch_size": (32, 128, 512),
        "num_workers": (0, 1, 2, 4, 8),
        "prefetch_factor": (2, 4),
        "pin_memory": (False,),
        "persistent_workers": (True,),
        "compile": (False, True),
        "precision": ("fp32", "bf16"),
        "channels_last": (False,),
        "accumulate_grad_batches": (1,),
    }.items()
)
CONFIGS = all_configs(SPACE)


@st.composite
def histories(draw: st.DrawFn):
    """A baseline and some trials of the space, a few of which failed."""
    chosen = draw(st.lists(st.sampled_from(CONFIGS), max_size=6, unique=True))
    rates = st.none() | st.floats(1.0, 1e5)
    trials = [trial_record(number, draw(rates), of) for number, of in enumerate(chosen, 1)]
    return [baseline_record(rate=draw(st.floats(1.0, 1e5))), *trials]


@given(histories(), st.integers(1, 64))
def test_a_proposal_is_of_the_space_and_untried(records, cpus):
    proposal = Acquisition(SPACE, host(cpus=cpus, cpus_total=cpus)).propose(records)
    untried = set(CONFIGS) - {record.config for record in records}
    if proposal is None:
        return
    assert proposal.config in untried
    assert proposal.gain is not None and proposal.gain >= 0 and math.isfinite(proposal.gain)
    assert proposal.expected_rate_samples_per_s > 0
    fastest = Acquisition(SPACE, host(cpus=cpus, cpus_total=cpus)).propose(records, Criteria(is_fastest=True))
    assert fastest is not None and fastest.config in untried
    if all(record.measurement for record in records):  # all are as likely to run
        assert fastest.expected_rate_samples_per_s >= proposal.expected_rate_samples_per_s * (1 - 1e-9)


def test_batches_that_take_minutes_are_only_tried_where_their_rounds_fit_too():
    slow = [baseline_record(rate=10.0)]
    within = Acquisition(SPACE, host()).propose(slow, Criteria(max_again_s=100.0))
    assert within is not None and within.config.batch_size == 32
    (largest,) = (one for one in SPACE if one.knob == "batch_size")
    alone = (largest.changed(values=(512,), why_fixed="one value"), *SPACE[1:])
    proposal = Acquisition(alone, host()).propose(slow)
    assert proposal is not None and proposal.cost_s == 9 * 512 / 10.0
    assert Acquisition(alone, host()).propose(slow, Criteria(max_again_s=100.0)) is None


# --- while other hosts measure -------------------------------------------------------------

some_pending = st.lists(st.sampled_from(CONFIGS), max_size=8, unique=True)


@given(histories(), some_pending)
def test_what_is_pending_is_not_proposed_again(records, pending):
    proposal = Acquisition(SPACE, host()).propose(records, pending=pending)
    if proposal is None:
        return
    assert proposal.config in set(CONFIGS) - {record.config for record in records} - set(pending)
    assert proposal.gain is not None and proposal.gain >= 0 and math.isfinite(proposal.gain)


def test_what_another_host_is_about_to_find_is_no_gain_any_more():
    """Faster loading is all that such a loop needs, and another host has the config that promises it."""
    records = [trial(0, config(num_workers=1), 1e-2, 1e-4)]
    guided = Acquisition(space(), host())
    best = guided.propose(records)
    assert best is not None and best.gain is not None
    beside = guided.propose(records, pending=[best.config])
    assert beside is not None and beside.gain is not None
    assert beside.gain < 0.5 * best.gain


def test_four_hosts_find_the_best_in_fewer_rounds_than_one():
    physics = {"fetch_s": 2e-3, "compute_s": 1e-3, "bf16": 0.5, "compile": 0.8}
    entries, own = space(), config(num_workers=0)
    guided = Acquisition(entries, host())
    good = 0.97 * max(rate_of(trial(0, one, **physics)) for one in guided.configs)

    def rounds_until_good(hosts: int) -> int:
        records = [trial(0, own, **physics)]
        rounds = 0
        while max(map(rate_of, records)) < good:
            pending: list[TrainConfig] = []
            for _ in range(hosts):
                proposal = guided.propose(records, pending=pending)
                assert proposal is not None
                pending.append(proposal.config)
            records += [trial(number, one, **physics) for number, one in enumerate(pending, len(records))]
            rounds += 1
        return rounds

    alone, beside = rounds_until_good(1), rounds_until_good(4)
    assert 1 <= beside <= alone / 2


def rate_of(record: TrialRecord) -> float:
    assert record.rate_samples_per_s is not None
    return record.rate_samples_per_s


@given(st.floats(-3, 3), st.floats(1e-4, 3))
def test_expected_improvement_is_the_mean_of_what_is_gained(ahead, deviation):
    told = Prediction(np.array([ahead]), np.array([deviation]))
    at = np.linspace(ahead - 10 * deviation, ahead + 10 * deviation, 200_001)
    density = np.exp(-0.5 * ((at - ahead) / deviation) ** 2) / (deviation * math.sqrt(2 * math.pi))
    gained = np.trapezoid(np.maximum(at, 0.0) * density, at)
    assert expected_improvement(told, 0.0)[0] == pytest.approx(gained, abs=1e-6 * max(1, abs(ahead)))


# --- on targets whose physics is known -----------------------------------------------------

CPUS = 8


def space(**context: Any) -> tuple[KnobSpace, ...]:
    return build_space(search_context(**context), options())


def trial(number: int, knobs: TrainConfig, fetch_s: float, compute_s: float, **factors: float) -> TrialRecord:
    """A loop of this much fetching and training per sample, seen by part; factors of modes on training."""
    compute_s *= knobs.batch_size * factors.get(knobs.precision.value, 1.0)
    compute_s *= factors.get("compile", 0.9) if knobs.compile else 1.0
    fetch_s *= knobs.batch_size
    loader_s = fetch_s / min(max(1, knobs.num_workers), CPUS)
    step_s = max(compute_s, loader_s) if knobs.num_workers else compute_s + fetch_s
    parts = StepParts(
        data_wait_s=100 * (step_s - compute_s), compute_s=100 * compute_s, optimizer_s=0.0, other_s=0.0
    )
    rate = knobs.batch_size / step_s
    work = LoaderWork(
        workers=(WorkerWork(batches=100, time_s=100 * fetch_s),),
        cpu_s=90 * fetch_s,
    )
    overrides: dict[str, Any] = {"duration_s": 80.0 if knobs.compile else 20.0}
    whole = baseline_record if number == 0 else trial_record
    return whole(
        number, rate, knobs, parts=parts, loader_work=work, peak_reserved_bytes=GIB, overrides=overrides
    )


@pytest.mark.parametrize("knee", [16, 4])
def test_the_first_config_has_the_workers_that_the_baseline_saw_pay_and_its_own_mode(knee):
    own, batch_s = config(num_workers=1), 4e-3 * config().batch_size
    seen = trial(0, own, 4e-3, 1e-6)
    counts = [WorkerSweepPoint(num_workers=n, step_s=batch_s / min(n, knee)) for n in (1, 2, 4, 8, 16)]
    details = Details(floors=IsolatedRates(workers=tuple(counts)))
    told = seen.changed(measurement=seen.measurement.changed(details=details))
    most = max_useful_workers(told.measurement)
    assert most == (math.inf if knee == 16 else 16)
    waiting = search_context(own, host=host(cpus=4), cpus_per_worker=0.1, max_workers=most)
    proposal = Acquisition(build_space(waiting, options()), host(cpus=4)).propose([told])
    assert proposal is not None and knee <= proposal.config.num_workers <= 3 * knee
    changed = {knob for knob in KNOBS if getattr(proposal.config, knob) != getattr(own, knob)}
    assert not changed & {"precision", "compile", "channels_last"}


def walk(entries: tuple[KnobSpace, ...], count: int, own: TrainConfig, **physics: float) -> list[TrialRecord]:
    guided, records = Acquisition(entries, host()), [trial(0, own, **physics)]
    while len(records) <= count:
        proposal = guided.propose(records)
        if proposal is None:
            break
        records.append(trial(len(records), proposal.config, **physics))
    return records[1:]


@given(
    st.floats(1e-3, 1e-1), st.floats(0.001, 0.02), st.sampled_from([0, 1, 2, 4]), st.sampled_from([32, 128])
)
def test_a_loop_that_waits_for_its_data_is_not_compiled_before_its_loader_is_done(
    fetch_s: float, share: float, workers: int, batch_size: int
):
    """Even all CPUs as workers leave training waiting, so that faster training gains nothing."""
    own = config(num_workers=workers, batch_size=batch_size)
    records = walk(space(baseline=own), 9, own, fetch_s=fetch_s, compute_s=share * fetch_s)
    workers_tried = [record.config.num_workers for record in records if record.config]
    done = workers_tried.index(CPUS) if CPUS in workers_tried else len(records)
    assert not any(record.config.compile for record in records[: done + 1] if record.config)
    assert CPUS in workers_tried, "all CPUs are what such a loop needs"


def test_a_mode_that_is_dominated_is_dropped_after_a_trial_or_two():
    own = config(num_workers=4)
    records = walk(space(), 15, own, fetch_s=1e-5, compute_s=1e-3, bf16=3.0, tf32=0.7)
    half = [record for record in records if record.config and record.config.precision is Precision.BF16]
    assert len(half) <= 2
    assert sum(record.config.precision is Precision.TF32 for record in records if record.config) >= 8


@pytest.mark.parametrize("own_pinned", [False, True])
def test_page_locked_memory_comes_first(own_pinned: bool):
    own = config(pin_memory=own_pinned)
    records = walk(space(baseline=own), 6, own, fetch_s=1e-3, compute_s=1e-3)
    assert all(record.config.pin_memory for record in records[:3] if record.config)
    tried = {own, *(record.config for record in records)}
    for record in records:
        assert record.config is not None
        assert record.config.model_copy(update={"pin_memory": True}) in tried


def test_without_a_measurement_the_smallest_untried_batch_comes_first():
    own = config(batch_size=512)
    entries = space(baseline=own)
    sizes = next(entry.values for entry in entries if entry.knob == "batch_size")
    untried = [size for size in sizes if size != 512]
    hung = failure(OutcomeKind.HANG)
    records = [baseline_record(0, None, own).changed(failure=hung)]
    for number in range(1, 4):
        proposal = Acquisition(entries, host()).propose(records)
        assert proposal is not None
        assert proposal.gain is proposal.expected_rate_samples_per_s is None
        as_is = {"batch_size": untried[number - 1], "pin_memory": proposal.config.pin_memory}
        assert proposal.config == own.model_copy(update=as_is)
        records.append(trial_record(number, None, proposal.config).changed(failure=hung))


def test_what_pays_over_the_planned_run_follows_from_its_length():
    records = [trial(0, config(num_workers=1), 1e-2, 1e-3)]
    guided = Acquisition(space(), host())
    long, short = (
        guided.propose(records, Criteria(planned=PlannedTraining(count))) for count in (1e9, 100.0)
    )
    assert long is not None and short is not None
    assert long.pays
    assert not short.pays
    assert short.gain is not None
    assert math.isfinite(short.gain)


def test_a_config_that_no_tier_may_take_is_not_what_has_to_be_beaten():
    """A script with more workers than the machine has CPUs would else end the search at once."""
    own = config(num_workers=CPUS, batch_size=512)
    slower = config(num_workers=1, batch_size=32)
    records = [trial(0, own, 1e-2, 1e-4), trial(1, slower, 1e-2, 1e-4)]
    two_at_most = Criteria(max_workers=2)
    anything = Acquisition(space(), host()).propose(records, two_at_most)
    within = Acquisition(space(), host(), may_choose=lambda one: one.number == 1).propose(
        records, two_at_most
    )
    assert anything is not None and within is not None
    assert anything.gain is not None and within.gain is not None
    assert within.gain > anything.gain + 0.1


def test_more_workers_than_a_tier_takes_are_not_proposed():
    guided, records = Acquisition(space(), host()), [trial(0, config(num_workers=0), 1e-2, 1e-3)]
    for number in range(1, 6):
        proposal = guided.propose(records, Criteria(max_workers=2))
        assert proposal is not None
        assert proposal.config.num_workers <= 2
        records.append(trial(number, proposal.config, 1e-2, 1e-3))


# --- over the whole planned training -------------------------------------------------------

COLUMNS = Columns.of([config(), config(compile=True)])
RATES = Prediction(np.log([1000.0, 1250.0]), np.array([0.1, 0.1]))


def started(number: int, compiled: bool, first_step_s: float):
    start = {"startup_s": 6.0, "first_batch_s": 9.0, "first_step_s": first_step_s}
    return trial_record(number, of=config(compile=compiled), **start)


def whole_s(samples: float, measured) -> list[float]:
    planned = PlannedTraining(samples, judged_by_finish=True)
    return list(samples / np.exp(over_planned_training(RATES, COLUMNS, planned, measured).log_rate))


def test_the_start_is_part_of_the_training():
    measured = [started(1, False, 4.0), started(2, True, 54.0)]
    assert whole_s(100_000.0, measured) == pytest.approx([110.0, 140.0])
    assert whole_s(1_000_000.0, measured) == pytest.approx([1010.0, 860.0])


def test_compiling_takes_what_the_slowest_process_has_shown():
    measured = [started(1, False, 4.0), started(2, True, 54.0), started(3, True, 6.0)]
    assert whole_s(100_000.0, measured) == pytest.approx([110.0, 140.0])


def test_compiling_that_nobody_has_seen_has_its_usual_price():
    assert whole_s(100_000.0, [started(1, False, 4.0)])[1] == pytest.approx(90.0 + COMPILE_PRIOR_S)
