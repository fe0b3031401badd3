"""The first trial of each mode looks at other batch sizes that fit."""

from build_records import GIB, baseline_record, config, host, options, trial_record
from scripted_search import surroundings

from tunekit.records.details import Details
from tunekit.records.run import FixedKnob
from tunekit.search.sizes import sizes_to_look_at
from tunekit.search.space import build_space

SPACE = build_space(surroundings(), options())
small = baseline_record(peak_reserved_bytes=GIB // 2)


def test_sizes_spread_around_and_above_the_trials_own():
    assert sizes_to_look_at(config(batch_size=128), [small], SPACE, host()) == (128, 256, 512, 1024, 64)
    assert sizes_to_look_at(config(batch_size=1024), [small], SPACE, host()) == (1024, 2048, 512)


def test_sizes_that_would_not_fit_the_device_are_left_out():
    large = baseline_record(peak_reserved_bytes=10 * GIB)
    assert sizes_to_look_at(config(batch_size=128), [large], SPACE, host()) == (128, 256, 64)


def test_only_the_first_trial_of_a_mode_looks():
    half = config(precision="bf16")
    looked = trial_record(1, 900.0, config(precision="bf16", batch_size=256))
    assert looked.measurement is not None
    seen = looked.measurement.model_copy(update={"details": Details()})
    ran = [small, looked.model_copy(update={"measurement": seen})]
    assert sizes_to_look_at(half, ran, SPACE, host()) == ()
    assert sizes_to_look_at(config(precision="bf16", channels_last=True), ran, SPACE, host())
    assert sizes_to_look_at(half, [small, looked], SPACE, host()), "one that was not asked told nothing"
    failed = [small, trial_record(1, None, config(precision="bf16", batch_size=2048))]
    assert sizes_to_look_at(half, failed, SPACE, host())


def test_a_compiled_trial_does_not_look():
    assert sizes_to_look_at(config(compile=True), [small], SPACE, host()) == ()


def test_nobody_looks_where_the_batch_size_is_not_searched():
    fixed = build_space(surroundings(), options(fixed=(FixedKnob(knob="batch_size", value=128),)))
    assert sizes_to_look_at(config(), [small], fixed, host()) == ()


def test_a_size_that_ran_out_of_memory_is_not_looked_at():
    records = [small, trial_record(1, None, config(batch_size=512))]
    assert sizes_to_look_at(config(batch_size=128), records, SPACE, host()) == (128, 256, 64)
