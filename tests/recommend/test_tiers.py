import math

import pytest
from build_loops import work
from build_records import (
    GIB,
    MIB,
    baseline_record,
    config,
    configs,
    cpu,
    device,
    host,
    hosts,
    trial_lists,
    trial_record,
)
from hypothesis import example, given
from hypothesis import strategies as st

from tunekit.predict.ram import BaseRam, buffer_bytes
from tunekit.recommend.planned_training import PlannedTraining
from tunekit.recommend.tiers import (
    POLICIES,
    balanced_tolerance,
    clip,
    pick,
    violations,
)
from tunekit.records.config import Precision
from tunekit.records.recommendation import Tier
from tunekit.records.trial import TrialRole

tiers = st.sampled_from(Tier)


def of_epochs(count):
    """So many epochs of 50,000 samples, as nobody promised."""
    return PlannedTraining(default_samples=count * 50_000.0)


@pytest.mark.parametrize(
    ("cpus", "each", "allowed"),
    [
        (1, 1.0, [0, 0, 1]),
        (2, 1.0, [1, 1, 2]),
        (3, 1.0, [1, 2, 3]),
        (8, 1.0, [4, 6, 8]),
        (2, 0.25, [4, 6, 8]),
        (2, 0.02, [50, 64, 64]),
        (96, 1.0, [48, 64, 64]),
    ],
)
def test_workers_share_the_cpus_by_what_each_keeps_busy(cpus, each, allowed):
    assert [POLICIES[tier].max_workers(cpus, each) for tier in Tier] == allowed


def test_a_trial_at_every_limit_breaks_none():
    small = host(cpus=2, ram_limit_bytes=10 * 1000 * 1000, shm_bytes=750_000)
    knobs = config(batch_size=250, num_workers=1, prefetch_factor=2)
    record = trial_record(of=knobs, base_bytes=8_000_000, peak_reserved_bytes=22 * GIB * 3 // 4)
    assert violations(record, Tier.CONSERVATIVE, small) == ()


def test_reserved_memory_is_judged_on_what_torch_sees():
    record = trial_record(peak_reserved_bytes=18 * GIB)
    assert violations(record, Tier.CONSERVATIVE, host()) == ("reserved VRAM 18.0 GiB, limit 16.5 GiB",)
    assert violations(record, Tier.BALANCED, host()) == ()
    assert violations(trial_record(device=cpu()), Tier.CONSERVATIVE, host()) == ()


def test_reserved_memory_is_judged_on_what_torch_could_have():
    shared = device("NVIDIA A10G").model_copy(update={"free_bytes": 8 * GIB})
    record = trial_record(device=shared, peak_reserved_bytes=7 * GIB)
    assert violations(record, Tier.CONSERVATIVE, host()) == ("reserved VRAM 7.0 GiB, limit 6.0 GiB",)


def test_buffer_and_whole_tree_are_judged_on_the_ram_limit():
    # 2 workers x 2 x 128 samples of 1 MiB = 512 MiB.
    record = trial_record(base_bytes=1300 * MIB, bytes_per_sample=MIB)
    small = host(ram_limit_bytes=2 * GIB)
    assert violations(record, Tier.BALANCED, small) == (
        "RAM buffer 512.0 MiB, limit 409.6 MiB",
        "RAM for processes and buffer 1.8 GiB, limit 1.7 GiB",
    )
    assert len(violations(record, Tier.AGGRESSIVE, small)) == 1


def test_the_queue_holds_one_batch_more_than_the_buffer():
    # The buffer is 512 MiB, the batch 128 MiB.
    record = trial_record(bytes_per_sample=MIB)
    assert violations(record, Tier.AGGRESSIVE, host(shm_bytes=640 * MIB)) == ()
    for small in (host(shm_bytes=639 * MIB), host(shm_bytes=700 * MIB, shm_used_bytes=61 * MIB)):
        assert len(violations(record, Tier.AGGRESSIVE, small)) == 1
    alone = trial_record(of=config(num_workers=0), bytes_per_sample=MIB)
    assert violations(alone, Tier.AGGRESSIVE, host(shm_bytes=0)) == ()


@given(trials=trial_lists(), machine=hosts())
def test_what_one_tier_allows_the_next_allows_too(trials, machine):
    for trial in trials:
        broken = [len(violations(trial, tier, machine)) for tier in Tier]
        assert broken == sorted(broken, reverse=True)


def test_what_can_not_be_judged_is_not_within_the_limits():
    unknown = trial_record(overrides={"config": None})
    for tier in Tier:
        assert len(violations(trial_record(rate=None), tier, host())) == 1
        assert len(violations(unknown, tier, host())) == 1
        assert (
            pick(tier, [trial_record(rate=None), unknown], host(), noise_relative=None, planned=of_epochs(1))
            is None
        )


def test_workers_that_were_done_before_the_window_are_judged_by_other_trials():
    waits = trial_record(1, 900.0, config(num_workers=20), loader_work=work(cpu=0.02))
    unseen = trial_record(2, 1000.0, config(num_workers=24))
    assert violations(unseen, Tier.AGGRESSIVE, host(cpus=2)) == ("num_workers 24, limit 2",)
    for tier in Tier:
        assert violations(unseen, tier, host(cpus=2), (waits, unseen)) == ()
    chosen = pick(Tier.AGGRESSIVE, (waits, unseen), host(cpus=2), noise_relative=None, planned=of_epochs(10))
    assert chosen is unseen


@given(tier=tiers, trials=trial_lists(), machine=hosts(), noise=st.none() | st.floats(0, 2))
def test_every_pick_is_within_the_limits_of_its_tier(tier, trials, machine, noise):
    chosen = pick(tier, trials, machine, noise_relative=noise, planned=of_epochs(10))
    if chosen is None:
        assert all(violations(trial, tier, machine, trials) for trial in trials)
    else:
        assert chosen in trials
        assert violations(chosen, tier, machine, trials) == ()


@given(tier=st.sampled_from([Tier.CONSERVATIVE, Tier.AGGRESSIVE]), trials=trial_lists(), machine=hosts())
def test_the_outer_tiers_take_the_highest_rate_within_their_limits(tier, trials, machine):
    chosen = pick(tier, trials, machine, noise_relative=0.1, planned=of_epochs(10))
    within = [trial for trial in trials if not violations(trial, tier, machine, trials)]
    assert (chosen.rate_samples_per_s if chosen else None) == max(
        (trial.rate_samples_per_s for trial in within), default=None
    )


@given(trials=trial_lists(), noise=st.none() | st.floats(0, 0.5))
def test_balanced_is_close_to_the_best_and_no_eager_config_as_close_is_smaller(trials, noise):
    eager = [trial for trial in trials if trial.config is None or not trial.config.compile]
    machine = host(cpus=64, ram_limit_bytes=256 * GIB)
    chosen = pick(Tier.BALANCED, eager, machine, noise_relative=noise, planned=of_epochs(10))
    within = [trial for trial in eager if not violations(trial, Tier.BALANCED, machine)]
    if chosen is None:
        assert not within
        return
    lowest = (1 - balanced_tolerance(noise)) * max(trial.rate_samples_per_s for trial in within)
    assert chosen.rate_samples_per_s >= lowest

    def size(trial):
        seen = trial.measurement.loop
        buffered = buffer_bytes(trial.config, trial.config.batch_bytes(seen.bytes_per_sample))
        reserved_bytes = seen.peak_reserved_bytes
        return (
            math.inf if reserved_bytes is None else reserved_bytes,
            trial.config.batch_size,
            buffered,
            trial.config.num_workers,
        )

    assert size(chosen) == min(size(trial) for trial in within if trial.rate_samples_per_s >= lowest)


@given(tier=tiers, trials=trial_lists(), machine=hosts(), data=st.data())
def test_the_order_of_the_trials_does_not_matter(tier, trials, machine, data):
    shuffled = data.draw(st.permutations(trials))
    first = pick(tier, trials, machine, noise_relative=0.05, planned=of_epochs(3))
    assert pick(tier, shuffled, machine, noise_relative=0.05, planned=of_epochs(3)) == first


def test_a_trial_that_was_given_up_is_no_choice_however_small_or_fast():
    small = config(batch_size=32)
    given_up = trial_record(1, 990.0, small, stop_reason="abandoned")
    fastest = trial_record(2, 2000.0, small, stop_reason="abandoned")
    usual = trial_record(3, 1000.0)
    for tier in Tier:
        chosen = pick(tier, [given_up, fastest, usual], host(), noise_relative=None, planned=of_epochs(1))
        assert chosen == usual
    assert pick(Tier.BALANCED, [given_up], host(), noise_relative=None, planned=of_epochs(1)) is None


def test_confirmations_are_not_picked():
    trials = [trial_record(1, 900.0), trial_record(2, 1000.0, role=TrialRole.CONFIRM)]
    assert pick(Tier.AGGRESSIVE, trials, host(), noise_relative=None, planned=of_epochs(1)).number == 1


def test_balanced_gives_up_three_percent_for_a_smaller_config():
    trials = [
        trial_record(1, 1000.0, config(batch_size=512), peak_reserved_bytes=12 * GIB),
        trial_record(2, 971.0, config(batch_size=256), peak_reserved_bytes=8 * GIB),
        trial_record(3, 940.0, config(batch_size=128), peak_reserved_bytes=5 * GIB),
    ]

    def number(noise):
        return pick(Tier.BALANCED, trials, host(), noise_relative=noise, planned=of_epochs(1)).number

    assert number(None) == 2
    assert number(0.01) == 2
    assert number(0.08) == 3
    assert pick(Tier.CONSERVATIVE, trials, host(), noise_relative=0.08, planned=of_epochs(1)).number == 1


def test_balanced_keeps_the_scripts_precision_where_another_is_no_faster():
    trials = [
        baseline_record(rate=500.0, of=config()),
        trial_record(
            1, 1000.0, config(batch_size=256, precision=Precision.BF16), peak_reserved_bytes=5 * GIB
        ),
        trial_record(2, 980.0, config(batch_size=256), peak_reserved_bytes=8 * GIB),
    ]
    chosen = {
        one: pick(one, trials, host(), noise_relative=None, planned=of_epochs(1)).number for one in Tier
    }
    assert chosen == {Tier.CONSERVATIVE: 1, Tier.BALANCED: 2, Tier.AGGRESSIVE: 1}


def test_balanced_takes_compile_only_when_the_planned_run_wins_it_back():
    # 50,000 samples: 50 s per epoch eager, 40 s compiled; compile costs 71 - 11 = 60 s, so 7 epochs pay.
    eager = trial_record(1, 1000.0, first_step_s=11.0)
    compiled = trial_record(2, 1250.0, config(compile=True), first_step_s=71.0)

    def number(tier, epochs, trials=(eager, compiled)):
        return pick(tier, trials, host(), noise_relative=None, planned=of_epochs(epochs)).number

    assert number(Tier.BALANCED, 6) == 1
    assert number(Tier.BALANCED, 7) == 2
    assert number(Tier.AGGRESSIVE, 1) == 2
    assert number(Tier.CONSERVATIVE, 1000) == 1
    assert number(Tier.BALANCED, 1, (compiled,)) == 2


def test_by_the_finish_of_the_planned_training_a_fast_rate_must_win_back_its_start():
    """20 s to start and 1,000 samples/s, or 75 s and 1,250: as soon through 275,000 samples."""
    slow = trial_record(1, 1000.0, startup_s=10.0, first_batch_s=2.0, first_step_s=8.0, boundary_s=0.0)
    fast = trial_record(2, 1250.0, startup_s=10.0, first_batch_s=5.0, first_step_s=60.0, boundary_s=0.0)

    def number(samples):
        planned = PlannedTraining(samples, judged_by_finish=True)
        return pick(Tier.AGGRESSIVE, (slow, fast), host(), noise_relative=None, planned=planned).number

    assert (number(274_000.0), number(276_000.0)) == (1, 2)
    by_rate = PlannedTraining(1000.0)
    assert pick(Tier.AGGRESSIVE, (slow, fast), host(), noise_relative=None, planned=by_rate).number == 2


@given(
    knobs=configs(),
    tier=tiers,
    machine=hosts(),
    sample_bytes=st.integers(0, 8 * MIB),
    share=st.floats(0, 0.8),
)
@example(config(num_workers=32, batch_size=4096), Tier.CONSERVATIVE, host(cpus=1), 8 * MIB, 0.0)
@example(config(num_workers=8, batch_size=4096), Tier.AGGRESSIVE, host(shm_bytes=64 * MIB), 8 * MIB, 0.0)
def test_clip_gives_a_config_that_breaks_no_limit_known_before_it_runs(
    knobs, tier, machine, sample_bytes, share
):
    base_bytes = math.floor(share * machine.ram_limit_bytes)
    base = BaseRam(base_bytes)
    clipped = clip(knobs, tier, machine, sample_bytes, base=base)
    record = trial_record(
        of=clipped, base_bytes=base_bytes, bytes_per_sample=sample_bytes, peak_reserved_bytes=0
    )
    assert violations(record, tier, machine) == ()
    assert clipped.batch_size <= knobs.batch_size
    assert clipped.num_workers <= knobs.num_workers
    assert (clipped.prefetch_factor or 0) <= (knobs.prefetch_factor or 0)
    kept = ("pin_memory", "precision", "channels_last", "accumulate_grad_batches")
    assert [getattr(clipped, knob) for knob in kept] == [getattr(knobs, knob) for knob in kept]
    assert clip(clipped, tier, machine, sample_bytes, base=base) == clipped


def test_clip_lowers_prefetch_before_the_batch():
    knobs = config(batch_size=64, num_workers=2, prefetch_factor=8)
    # 10% of 5,120,000 bytes hold 512 samples of 1,000 bytes: 2 workers x 4 x 64.
    machine = host(ram_limit_bytes=5_120_000)
    assert clip(knobs, Tier.CONSERVATIVE, machine, 1000) == config(batch_size=64, prefetch_factor=4)
    # 200 samples: 2 x 1 x 64 fit.
    machine = host(ram_limit_bytes=2_000_000)
    assert clip(knobs, Tier.CONSERVATIVE, machine, 1000) == config(batch_size=64, prefetch_factor=1)
    # 100 samples: the batch has to halve.
    machine = host(ram_limit_bytes=1_000_000)
    assert clip(knobs, Tier.CONSERVATIVE, machine, 1000) == config(batch_size=32, prefetch_factor=1)


def test_clip_to_no_workers_drops_what_needs_them_and_keeps_the_batch():
    knobs = config(num_workers=4, compile=True, batch_size=4096)
    clipped = clip(knobs, Tier.CONSERVATIVE, host(cpus=1), 1000)
    assert clipped == config(num_workers=0, batch_size=4096)
    assert clip(knobs, Tier.AGGRESSIVE, host(shm_bytes=0), 1000) == config(
        num_workers=0, batch_size=4096, compile=True
    )
