"""What holds of every search, whatever the script, the machine, the noise and the user's wishes."""

import math
from collections import Counter
from dataclasses import dataclass, replace

import pytest
from build_records import failure, options
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scripted_search import ScriptedExecutor, confirming, search_in, searched, start_search
from search_worlds import SearchWorld, search_worlds

from tunekit.errors import BudgetTooSmallError, EmptySpaceError, TargetError, UsageError
from tunekit.recommend.numerics import Mode, excluded_modes, unchecked_modes
from tunekit.records.config import TrainConfig
from tunekit.records.recommendation import Recommendation, Tier
from tunekit.records.run import Run, RunStatus
from tunekit.records.trial import OutcomeKind, TrialRecord, TrialRole
from tunekit.session.assemble import assemble
from tunekit.session.folder import RunFolder, load_run
from tunekit.trial.executor import TrialSpec

Folders = pytest.TempPathFactory


@dataclass(frozen=True)
class Limits:
    """What the documentation promises of a tier, as shares."""

    vram: float
    buffer: float
    workers: float
    compiles: bool = True


PROMISED = {
    Tier.CONSERVATIVE: Limits(0.75, 0.10, 0.5, compiles=False),
    Tier.BALANCED: Limits(0.85, 0.20, 0.75),
    Tier.AGGRESSIVE: Limits(0.95, 0.85, 1.0),
}


def is_within(record: TrialRecord, tier: Tier, world: SearchWorld) -> bool:
    """Return whether a measured process kept the tier's limits, worked out from the world's own figures."""
    assert record.config is not None and record.measurement is not None
    knobs, loop, limits, machine = record.config, record.measurement.loop, PROMISED[tier], world.machine
    batch_bytes = knobs.batch_size * world.sample_bytes
    queued = knobs.num_workers * (knobs.prefetch_factor or 0)
    buffered_bytes = queued * batch_bytes
    shared_bytes = (queued + 1) * batch_bytes if knobs.num_workers else 0
    in_memory = world.on_cpu or (loop.peak_reserved_bytes or 0) <= limits.vram * 22 * 1024**3
    return (
        in_memory
        and knobs.num_workers <= math.floor(limits.workers * machine.cpus)
        and (limits.compiles or not knobs.compile)
        and buffered_bytes <= limits.buffer * machine.ram_limit_bytes
        and world.base_bytes + buffered_bytes <= 0.85 * machine.ram_limit_bytes
        and (machine.shm_bytes is None or shared_bytes <= machine.shm_bytes)
    )


def run_world(folders: Folders, world: SearchWorld) -> Run:
    """Search a world in a folder of its own; a world that leaves nothing to search is passed over."""
    folder = folders.mktemp("world") / "run"
    try:
        return search_in(folder, world.asked, executor_options=world.executor_options, host=world.machine)[0]
    except (EmptySpaceError, UsageError, BudgetTooSmallError, TargetError):
        assume(False)
        raise


def rate_of(record: TrialRecord) -> float:
    assert record.rate_samples_per_s is not None
    return record.rate_samples_per_s


def emitted(whole: Run, tier: Tier) -> Recommendation | None:
    return next((one for one in whole.recommendations if one.tier is tier), None)


def is_settled(found: Recommendation) -> bool:
    """Return whether another config took the place of what the tier had chosen."""
    return found.set_aside is not None


def processes_of(whole: Run, knobs: TrainConfig) -> list[TrialRecord]:
    return [record for record in whole.trials if record.config == knobs and record.measurement]


def keeps_batch(knobs: TrainConfig, world: SearchWorld) -> bool:
    """Return whether a config keeps the global batch that the user asked for."""
    return world.asked.global_batch in (None, knobs.batch_size * knobs.accumulate_grad_batches)


def keeps_order(record: TrialRecord, tier: Tier, whole: Run) -> bool:
    """Return whether a config is no larger than what the tier above chose, nor Conservative's than four times
    the user's own batch; the user's own config may always be had."""
    knobs, own, asked = record.config, whole.baseline_config, whole.options
    if knobs is None or own is None or record.is_baseline_config:
        return True
    knobs_asked = {one.knob for one in asked.fixed} | {one.knob for one in asked.ranges}
    is_asked = "batch_size" in knobs_asked or asked.global_batch is not None
    if tier is Tier.CONSERVATIVE and not is_asked and knobs.batch_size > 4 * own.batch_size:
        return False
    tiers = list(Tier)
    above = next((found for one in tiers[tiers.index(tier) + 1 :] if (found := emitted(whole, one))), None)
    if above is None:
        return True
    most = above.set_aside.config if above.set_aside else above.config
    return all(
        mine <= theirs
        for mine, theirs in (
            (knobs.batch_size, most.batch_size),
            (knobs.num_workers, most.num_workers),
            (knobs.queue_batches * knobs.batch_size, most.queue_batches * most.batch_size),
        )
    )


def choosable(whole: Run, tier: Tier, world: SearchWorld) -> list[TrialRecord]:
    """Return the trials that a tier may choose from: whole ones that never failed, within its limits."""
    failed = {record.config for record in confirming(whole.trials) if record.failure}
    excluded = excluded_modes(whole.trials) if tier is not Tier.AGGRESSIVE else frozenset()
    return [
        record
        for record in whole.trials
        if record.role in (TrialRole.BASELINE, TrialRole.SEARCH)
        and record.config is not None
        and record.measurement is not None
        and record.measurement.loop.stop_reason != "abandoned"
        and record.config not in failed
        and Mode.of(record.config) not in excluded
        and is_within(record, tier, world)
        and keeps_batch(record.config, world)
        and keeps_order(record, tier, whole)
    ]


# --- what is checked -----------------------------------------------------------------------


def assert_evidence(whole: Run) -> None:
    """Every emitted config was found by a trial of this run and confirmed by fresh processes."""
    by_number = {record.number: record for record in whole.trials}
    for found in whole.recommendations:
        finder = by_number[found.search_trial]
        assert finder.role in (TrialRole.BASELINE, TrialRole.SEARCH)
        assert finder.config == found.config
        assert finder.measurement is not None
        assert not finder.is_abandoned
        fresh = [record for record in confirming(whole.trials) if record.config == found.config]
        assert found.confirm_trials
        assert found.confirm_trials == tuple(record.number for record in fresh if record.measurement)
        assert min(found.confirm_trials) > finder.number
        assert len({record.round for record in fresh}) == len(fresh)
    tiers = [one.tier for one in (*whole.recommendations, *whole.missing_tiers)]
    assert sorted(tiers) == sorted(Tier)


def assert_limits(whole: Run, world: SearchWorld) -> None:
    """Every measured process of an emitted config kept its tier's limits."""
    for found in whole.recommendations:
        for record in processes_of(whole, found.config):
            assert is_within(record, found.tier, world)


def assert_highest(whole: Run, world: SearchWorld) -> None:
    """Conservative and Aggressive emit the fastest that they may, Balanced one within its tolerance."""
    rounds = Counter(record.config for record in confirming(whole.trials) if record.measurement)
    least = min(2, whole.options.confirm_rounds)
    confirmed = {one for one, times in rounds.items() if times >= least or one == whole.baseline_config}
    unchecked = unchecked_modes(whole.trials, whole.history.candidates)
    confirmed = {one for one in confirmed if one and Mode.of(one) not in unchecked}
    for tier in Tier:
        found = emitted(whole, tier)
        allowed = [one for one in choosable(whole, tier, world) if one.config in confirmed]
        if found is None:
            assert not allowed
            continue
        # What only came near the baseline is judged by its rounds.
        allowed = [one for one in allowed if found.is_baseline or not one.is_baseline_config]
        if not is_settled(found):
            chosen = rate_of(whole.trials[found.search_trial])
            if tier is Tier.BALANCED:
                floor = whole.noise_floor.relative if whole.noise_floor else 0.0
                allowed = [one for one in allowed if one.config and not one.config.compile] or allowed
                chosen /= 1 - min(max(0.03, floor), 0.10)
            assert chosen >= max(map(rate_of, allowed)) * (1 - 1e-12)


def assert_fastest_was_confirmed(whole: Run, world: SearchWorld) -> None:
    """Where no process failed and no loss was worse, no tier was left with less than it had found for no
    other reason than that the time left could not hold its fewest rounds."""
    if world.losses == "bf16 diverges" or any(record.failure for record in confirming(whole.trials)):
        return
    assert whole.budget_s is not None
    if whole.budget_s - whole.search_time_s < 2 * min(3, whole.options.confirm_rounds) * world.trial_s:
        return
    confirmed = {record.config for record in confirming(whole.trials)}
    for tier in (Tier.CONSERVATIVE, Tier.AGGRESSIVE):
        allowed = choosable(whole, tier, world)
        fastest = max(map(rate_of, allowed), default=None)
        assert not allowed or any(one.config in confirmed for one in allowed if rate_of(one) == fastest)


def assert_order(whole: Run) -> None:
    """What one tier allows, the next allows too, and it is never slower for that."""
    chosen = [emitted(whole, tier) for tier in (Tier.CONSERVATIVE, Tier.BALANCED, Tier.AGGRESSIVE)]
    for small, large in ((chosen[0], chosen[1]), (chosen[1], chosen[2])):
        assert small is None or large is not None
    for small in chosen[:2]:
        if small and not is_settled(small):
            assert keeps_order(whole.trials[small.search_trial], small.tier, whole)
    for small in chosen[:2]:
        if small and chosen[2] and not is_settled(small) and not is_settled(chosen[2]):
            rates = [rate_of(whole.trials[one.search_trial]) for one in (small, chosen[2])]
            assert rates[0] <= rates[1]


def assert_wishes(whole: Run) -> None:
    """Every proposed config keeps what the user fixed and bounded; the baseline stays as it is."""
    asked = whole.options
    proposed = [
        record.config for record in whole.trials if record.role in (TrialRole.SEARCH, TrialRole.CONFIRM)
    ]
    for knobs in proposed:
        assert knobs is not None
        if knobs == whole.baseline_config:
            continue
        for fixed in asked.fixed:
            has_it = knobs.num_workers or fixed.knob != "prefetch_factor"
            assert not has_it or getattr(knobs, fixed.knob) == fixed.value
        for bounds in asked.ranges:
            assert bounds.low <= getattr(knobs, bounds.knob) <= bounds.high
        assert asked.max_batch is None or knobs.batch_size <= asked.max_batch
        assert asked.global_batch in (None, knobs.batch_size * knobs.accumulate_grad_batches)


def keeps_budget(whole: Run, world: SearchWorld) -> bool:
    """Return whether the budget was exceeded by a trial and a round at most, and --trials never."""
    most = whole.options.max_trials
    return whole.search_time_s <= whole.options.budget_s + (1 + 4) * world.trial_s and (
        most is None or 1 + len(searched(whole.trials)) <= most
    )


def choices(whole: Run) -> list[tuple[Tier, TrainConfig, int]]:
    return [(one.tier, one.config, one.search_trial) for one in whole.recommendations]


def rates(whole: Run) -> list[float]:
    return [one.rate_samples_per_s.value for one in whole.recommendations]


def half_as_fast(record: TrialRecord) -> TrialRecord:
    if record.measurement is None:
        return record
    loop = record.measurement.loop
    times = {"steady_time_s": 2 * loop.steady_time_s, "first_step_s": 2 * loop.first_step_s}
    slower = loop.model_copy(update=times)
    return record.model_copy(update={"measurement": record.measurement.model_copy(update={"loop": slower})})


@given(search_worlds())
def test_any_search_emits_the_fastest_of_what_it_ran_confirmed_and_within_every_limit(
    tmp_path_factory: Folders, world: SearchWorld
):
    whole = run_world(tmp_path_factory, world)
    assert_evidence(whole)
    assert_limits(whole, world)
    assert_highest(whole, world)
    assert_fastest_was_confirmed(whole, world)
    assert_order(whole)
    assert_wishes(whole)
    assert whole.status is RunStatus.FINISHED
    assert keeps_budget(whole, world)
    # Times that are twice as long, so that all rates are half of what they were, change no choice.
    slower = assemble(whole, [half_as_fast(record) for record in whole.trials])
    assert choices(slower) == choices(whole)
    assert rates(slower) == pytest.approx([rate / 2 for rate in rates(whole)])


@pytest.mark.slow
@given(search_worlds(), st.integers(0, 100), st.sampled_from([1.1, 1.3, 3.0]))
def test_a_config_that_becomes_the_fastest_never_leaves_a_search_with_a_slower_one(
    tmp_path_factory: Folders, world: SearchWorld, which: int, factor: float
):
    asked = world.asked.model_copy(update={"max_trials": 8, "budget_s": 60 * world.trial_s})
    quiet = replace(world, asked=asked, noise=0.0, flaky=0.0, losses="none")
    before = run_world(tmp_path_factory, quiet)
    tried = [
        record
        for record in before.trials
        if record.role.is_candidate and record.measurement and is_within(record, Tier.AGGRESSIVE, quiet)
        if record.config and keeps_batch(record.config, quiet)
    ]
    assume(tried and before.recommendations)
    record = tried[which % len(tried)]
    assert record.config is not None
    rate = factor * max(quiet.truth(one.config) for one in before.recommendations)
    favoured = replace(quiet, faster={record.config: rate / quiet.truth(record.config)})
    after = run_world(tmp_path_factory, favoured)
    for tier in Tier:
        # Balanced may pass over a config that its compile time makes not worth it.
        if is_within(record, tier, quiet) and not (tier is Tier.BALANCED and record.config.compile):
            if not keeps_order(record, tier, after):
                continue
            found = emitted(after, tier)
            assert found is not None
            kept = 0.97 if tier is Tier.BALANCED else 1.0
            assert favoured.truth(found.config) >= kept * rate * (1 - 1e-9)


@pytest.mark.slow
@given(search_worlds(), st.floats(0, 1))
@example(SearchWorld(asked=options(max_trials=16), noise=0.01), 0.4)
def test_a_resumed_search_goes_on_as_if_never_interrupted(
    tmp_path_factory: Folders, world: SearchWorld, share: float
):
    whole = run_world(tmp_path_factory, world)
    started = [record.number for record in whole.trials if not is_refused(record)]
    at = started[round(share * (len(started) - 1))]
    with RunFolder(tmp_path_factory.mktemp("cut") / "run") as owned:
        cut = ScriptedExecutor(owned.trials_folder, interrupt_at=at, **world.executor_options)
        with pytest.raises(KeyboardInterrupt):
            start_search(owned, cut, world.asked, host=world.machine).run()
        finished = owned.load_trials()
        executor = ScriptedExecutor(owned.trials_folder, **world.executor_options)
        resumed = start_search(owned, executor, world.asked, host=world.machine).run()
    assert resumed.status is RunStatus.FINISHED
    assert resumed.trials[:at] == finished
    assert_evidence(resumed)
    assert_limits(resumed, world)
    assert_highest(resumed, world)
    if any(record.role is TrialRole.CONFIRM for record in finished):
        return  # a round that was cut off is not made whole: rounds after it may be one more or one less
    assert [spec.number for spec in executor.specs] == [number for number in started if number >= at]
    assert [asked_of(record) for record in resumed.trials] == [asked_of(record) for record in whole.trials]
    assert resumed.recommendations == whole.recommendations


@given(
    search_worlds(),
    st.sets(st.integers(1, 40)) | st.just(frozenset(range(1, 1000))),
    st.sampled_from([None, OutcomeKind.DEVICE_OOM, OutcomeKind.HOST_OOM]),
    st.sampled_from([OutcomeKind.SCRIPT_ERROR, OutcomeKind.DEVICE_OOM, OutcomeKind.NO_TRAINING_LOOP]),
)
@example(SearchWorld(), frozenset(range(1, 1000)), OutcomeKind.DEVICE_OOM, OutcomeKind.SCRIPT_ERROR)
@example(SearchWorld(), frozenset(range(1, 1000)), None, OutcomeKind.NO_TRAINING_LOOP)
def test_whichever_trials_fail_a_search_ends_with_an_answer_or_says_what_failed(
    tmp_path_factory: Folders,
    world: SearchWorld,
    fails: frozenset[int],
    baseline: OutcomeKind | None,
    kind: OutcomeKind,
):
    def failing(knobs: TrainConfig, spec: TrialSpec):
        if spec.number == 0:
            return failure(baseline) if baseline else None
        return failure(kind, message="boom") if spec.number in fails else world.failing(knobs, spec)

    folder = tmp_path_factory.mktemp("failing") / "run"
    told = {**world.executor_options, "failing": failing}
    try:
        whole = search_in(folder, world.asked, executor_options=told, host=world.machine)[0]
    except (EmptySpaceError, UsageError, BudgetTooSmallError):
        assume(False)
    except TargetError as error:
        left = load_run(folder)
        assert left.status is RunStatus.FAILED
        assert not left.recommendations
        ends = {record.failure.kind for record in left.trials if record.failure}
        assert any(str(kind) in str(error) for kind in ends)
        assert (error.exit_code == 5) == (f"({OutcomeKind.NO_TRAINING_LOOP})" in str(error))
    else:
        assert_evidence(whole)
        assert whole.recommendations or any(r.measurement for r in whole.trials if r.number)


def is_refused(record: TrialRecord) -> bool:
    return record.failure is not None and record.failure.kind is OutcomeKind.REFUSED


def asked_of(record: TrialRecord) -> tuple[TrialRole, TrainConfig | None, int | None]:
    return record.role, record.config, record.round
