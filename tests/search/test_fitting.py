"""What is known of memory keeps configs from being tried."""

from build_records import GIB, MIB, baseline_record, config, cpu, failure, host, trial_record

from tunekit.model.columns import Columns
from tunekit.records.config import TrainConfig
from tunekit.records.details import Details, SizeSeen, SizesSeen
from tunekit.records.trial import OutcomeKind, TrialRecord
from tunekit.search.fitting import chances_to_fit, fits_host


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


def test_on_a_cpu_there_is_no_device_memory_to_exceed():
    assert chance([baseline_record(device=cpu())], config(batch_size=1 << 20)) == 1.0


def test_peaks_at_the_sizes_that_a_trial_looked_at_are_known():
    record = trial_record(1, peak_reserved_bytes=2 * GIB)
    sizes = tuple(
        SizeSeen(batch_size=size, step_s=0.1, batches=5, peak_reserved_bytes=size * 24 * MIB)
        for size in (128, 256, 512)
    )
    assert record.measurement is not None
    details = Details(sizes=SizesSeen(sizes=sizes))
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


def test_a_queue_as_large_as_one_that_exhausted_the_host_is_not_tried():
    ran_out = trial_record(
        1,
        None,
        config(num_workers=4, prefetch_factor=4),
        overrides={"failure": failure(OutcomeKind.HOST_OOM)},
    )
    asked = [config(num_workers=8, prefetch_factor=2), config(num_workers=4, prefetch_factor=2)]
    assert list(fits_host([baseline_record(), ran_out], host(), asked)) == [False, True]
