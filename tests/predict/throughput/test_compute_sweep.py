"""The training alone at other batch sizes, seen by one trial, teaches the model."""

from build_records import GIB, config, measurement, trial_record

from tunekit.predict.throughput.model import ThroughputModel
from tunekit.predict.throughput.observation import observations
from tunekit.predict.vram.measured_peaks import peaks_seen
from tunekit.records.attribution import LoaderWork, WorkerWork
from tunekit.records.details import ComputeSweep, ComputeSweepPoint, Details
from tunekit.records.trial import TrialRecord

SIZES = (64, 128, 256, 512)
QUICK_LOADER = LoaderWork(workers=(WorkerWork(batches=100, time_s=0.1),), cpu_s=0.1)


def looked(step_s_of: dict[int, float], peak_bytes: int | None = None) -> TrialRecord:
    """A trial at batch 128 that then looked at its training alone at other sizes."""
    sizes = tuple(
        ComputeSweepPoint(
            batch_size=size, step_s=step_s, batches=10, peak_reserved_bytes=peak_bytes and peak_bytes * size
        )
        for size, step_s in step_s_of.items()
    )
    details = Details(sizes=ComputeSweep(sizes=sizes))
    measured = measurement(128 / 0.1, config(), loader_work=QUICK_LOADER)
    update = {"measurement": measured.model_copy(update={"details": details})}
    return trial_record(0, 128 / 0.1, config()).model_copy(update=update)


def test_each_size_is_an_observation_of_the_training_alone():
    whole, *alone = observations([looked({64: 0.06, 256: 0.19})])
    assert (whole.config, whole.step_s) == (config(), 0.1)
    assert [(one.config, one.compute_alone_s, one.step_s) for one in alone] == [
        (config(batch_size=64), 0.06, None),
        (config(batch_size=256), 0.19, None),
    ]


def test_peaks_at_each_size_are_known_where_the_device_told_them():
    peaks = peaks_seen([looked({64: 0.06, 256: 0.19}, peak_bytes=GIB // 64)])
    assert {one.config.batch_size: one.reserved_bytes for one in peaks} == {
        128: 5 * GIB,
        64: GIB,
        256: 4 * GIB,
    }
    assert len(peaks_seen([looked({64: 0.06})])) == 1


def predicted(record: TrialRecord, batch_size: int) -> tuple[float, float]:
    model = ThroughputModel(observations([record]), 8, False)
    told = model.predict([config(batch_size=batch_size)])
    return float(told.log_rate[0]), float(told.deviation[0])


def test_the_sizes_say_whether_a_larger_batch_pays():
    pays = looked(dict.fromkeys(SIZES, 0.1))
    does_not = looked({size: 0.1 * size / 128 for size in SIZES})
    assert predicted(pays, 512)[0] > predicted(does_not, 512)[0] + 0.7


def test_the_sizes_leave_less_unknown():
    bare = trial_record(0, 128 / 0.1, config(), loader_work=QUICK_LOADER)
    seen = looked({size: 0.1 * size / 128 for size in SIZES})
    assert predicted(seen, 512)[1] < 0.6 * predicted(bare, 512)[1]
