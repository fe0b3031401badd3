"""Memory, what failed and the sizes that a trial looks at besides keep configs from being tried."""

from build_records import GIB, MIB, baseline_record, config, failure, host, options, trial_record
from scripted_search import search_context

from tunekit.predict.throughput.observation import Columns
from tunekit.records.attribution import BatchSeen, LeafSeen
from tunekit.records.config import TrainConfig
from tunekit.records.details import ComputeSweep, ComputeSweepPoint, Details
from tunekit.records.trial import OutcomeKind, TrialRecord
from tunekit.tune.feasibility import (
    chances_to_fit,
    chances_to_run,
    compute_sweep_sizes,
    fits_host,
    why_infeasible,
)
from tunekit.tune.space import build_space

# --- memory --------------------------------------------------------------------------------


def chance(records: list[TrialRecord], of: TrainConfig) -> float:
    return float(chances_to_fit(records, Columns.of([of]))[0])


def test_a_batch_many_times_as_large_as_one_that_took_a_quarter_does_not_fit():
    seen = [baseline_record(peak_reserved_bytes=5 * GIB)]
    assert chance(seen, config(batch_size=128)) > 0.99
    assert chance(seen, config(batch_size=4096)) < 0.05
    assert chance(seen, config(batch_size=1024)) < chance(seen, config(batch_size=256))


def test_what_ran_out_is_not_tried_as_large_again_whatever_else_it_changes():
    seen = [baseline_record(peak_reserved_bytes=2 * GIB), trial_record(1, None, config(batch_size=512))]
    assert chance(seen, config(batch_size=512, num_workers=6)) == 0.0
    assert chance(seen, config(batch_size=768, channels_last=True)) == 0.0
    assert chance(seen, config(batch_size=512, precision="bf16")) > 0.0
    assert chance(seen, config(batch_size=384)) > 0.0


def test_peaks_at_the_sizes_that_a_trial_looked_at_are_known():
    record = trial_record(1, peak_reserved_bytes=2 * GIB)
    sizes = tuple(
        ComputeSweepPoint(batch_size=size, step_s=0.1, batches=5, peak_reserved_bytes=size * 24 * MIB)
        for size in (128, 256, 512)
    )
    assert record.measurement is not None
    details = Details(sizes=ComputeSweep(sizes=sizes))
    looked = record.model_copy(
        update={"measurement": record.measurement.model_copy(update={"details": details})}
    )
    asked = config(batch_size=1024)
    assert chance([looked], asked) < 0.2 < chance([record], asked)


def test_a_queue_beyond_the_ram_is_not_tried():
    seen = [baseline_record(bytes_per_sample=8 * MIB)]
    small = host(ram_limit_bytes=8 * GIB, ram_total_bytes=8 * GIB)
    fits = fits_host(seen, small, [config(), config(num_workers=8, prefetch_factor=8)])
    assert list(fits) == [True, False]


def test_more_open_files_than_are_allowed_are_not_tried():
    tensor = LeafSeen(path="x", kind="tensor", bytes=8)
    leaves = (tensor,) * 8 + (tensor.model_copy(update={"kind": "text"}),) * 40
    batch = BatchSeen(samples=64, total_bytes=64, shared_bytes=64, piped_bytes=0, leaves=leaves)
    seen = [baseline_record(batch=batch)]
    few, many = config(num_workers=16, prefetch_factor=4), config(num_workers=32, prefetch_factor=4)
    assert list(fits_host(seen, host(open_files_limit=1024), [few, many])) == [True, False]
    assert "`ulimit -n`" in (why_infeasible(many, seen, host(open_files_limit=1024)) or "")
    assert why_infeasible(many, seen, host(open_files_limit=None)) is None


def test_a_queue_as_large_as_one_that_exhausted_the_host_is_not_tried():
    ran_out = trial_record(
        1,
        None,
        config(num_workers=4, prefetch_factor=4),
        overrides={"failure": failure(OutcomeKind.HOST_OOM)},
    )
    asked = [config(num_workers=8, prefetch_factor=2), config(num_workers=4, prefetch_factor=2)]
    assert list(fits_host([baseline_record(), ran_out], host(), asked)) == [False, True]


# --- what failed for other reasons than memory is not tried again and again ----------------


def failed(of: TrainConfig, kind: OutcomeKind = OutcomeKind.SCRIPT_ERROR) -> TrialRecord:
    return trial_record(1, None, of, overrides={"failure": failure(kind)})


def chance_to_run(records: list[TrialRecord], of: TrainConfig) -> float:
    return float(chances_to_run([baseline_record(), *records], Columns.of([of]))[0])


COMPILED = config(compile=True)


def test_a_mode_that_failed_is_hardly_tried_a_second_time_and_not_a_third():
    assert 0.05 < chance_to_run([failed(COMPILED)], config(compile=True, batch_size=64)) < 0.3
    assert chance_to_run([failed(COMPILED), failed(COMPILED)], config(compile=True, batch_size=64)) < 0.01
    assert chance_to_run([failed(COMPILED)], config(batch_size=64)) == 1.0


def test_a_mode_that_ran_once_is_not_suspected():
    ran = trial_record(2, 900.0, COMPILED)
    assert chance_to_run([ran, failed(COMPILED), failed(COMPILED)], COMPILED) == 1.0


def test_of_two_new_traits_the_one_that_runs_elsewhere_is_cleared():
    both = config(compile=True, precision="bf16")
    half = config(precision="bf16")
    assert chance_to_run([failed(both)], half) < 0.3
    assert chance_to_run([failed(both), trial_record(2, 900.0, half)], half) == 1.0
    assert chance_to_run([failed(both), trial_record(2, 900.0, half)], COMPILED) < 0.3


def test_a_script_that_knows_one_batch_size_only_is_found_out():
    assert chance_to_run([failed(config(batch_size=256))], config(batch_size=64)) < 0.3
    assert chance_to_run([failed(config(batch_size=256))], config(num_workers=4)) == 1.0


# --- the first trial of each mode looks at other batch sizes that fit ----------------------

SPACE = build_space(search_context(), options())
SMALL = baseline_record(peak_reserved_bytes=GIB // 2)


def test_sizes_spread_around_and_above_the_trials_own():
    assert compute_sweep_sizes(config(batch_size=128), [SMALL], SPACE, host()) == (128, 256, 512, 1024, 64)
    assert compute_sweep_sizes(config(batch_size=1024), [SMALL], SPACE, host()) == (1024, 2048, 512)


def test_sizes_that_would_not_fit_the_device_are_left_out():
    large = baseline_record(peak_reserved_bytes=10 * GIB)
    assert compute_sweep_sizes(config(batch_size=128), [large], SPACE, host()) == (128, 256, 64)


def test_only_the_first_trial_of_a_mode_looks():
    half = config(precision="bf16")
    looked = trial_record(1, 900.0, config(precision="bf16", batch_size=256))
    assert looked.measurement is not None
    seen = looked.measurement.model_copy(update={"details": Details()})
    ran = [SMALL, looked.model_copy(update={"measurement": seen})]
    assert compute_sweep_sizes(half, ran, SPACE, host()) == ()
    assert compute_sweep_sizes(config(precision="bf16", channels_last=True), ran, SPACE, host())
    assert compute_sweep_sizes(half, [SMALL, looked], SPACE, host()), "one that was not asked told nothing"
    failed = [SMALL, trial_record(1, None, config(precision="bf16", batch_size=2048))]
    assert compute_sweep_sizes(half, failed, SPACE, host())


def test_a_size_that_ran_out_of_memory_is_not_looked_at():
    records = [SMALL, trial_record(1, None, config(batch_size=512))]
    assert compute_sweep_sizes(config(batch_size=128), records, SPACE, host()) == (128, 256, 64)
