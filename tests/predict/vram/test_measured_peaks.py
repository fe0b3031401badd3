"""Chances to fit: they fall with the batch, and what ran or ran out of memory settles them."""

import numpy as np
from build_records import GIB, baseline_record, config, trial_record
from hypothesis import given
from hypothesis import strategies as st

from tunekit.predict.throughput.observation import Columns
from tunekit.predict.vram.measured_peaks import DeviceMemoryModel, PeakSeen, peaks_seen
from tunekit.records.config import Precision, TrainConfig

CAPACITY = 22 * GIB
BATCHES = [1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 4096]
MODES = st.fixed_dictionaries({"precision": st.sampled_from(Precision), "compile": st.booleans()})


def chances(seen: list[PeakSeen], asked: list[TrainConfig], share: float = 1.0) -> np.ndarray:
    return DeviceMemoryModel(seen, CAPACITY).chance_to_fit(Columns.of(asked), share)


@st.composite
def peaks(draw: st.DrawFn) -> list[PeakSeen]:
    """A loop's trials: peaks of a fixed and a growing part; those beyond the device's memory ran out."""
    fixed, per_sample = draw(st.floats(0.01, 12)), 10 ** draw(st.floats(-4, 0))
    batches = [draw(st.sampled_from(BATCHES)) for _ in range(draw(st.integers(0, 6)))]
    first = draw(st.sampled_from([b for b in BATCHES if fixed + per_sample * b < 21.9]))
    found = []
    for batch in [first, *batches]:
        reserved = (fixed + per_sample * batch) * GIB
        found.append(PeakSeen(config(batch_size=batch), reserved if reserved <= CAPACITY else None))
    return found


@given(peaks(), MODES)
def test_a_larger_batch_never_has_a_better_chance(seen, modes):
    told = chances(seen, [config(batch_size=batch, **modes) for batch in BATCHES])
    assert np.all(np.diff(told) <= 1e-12)
    assert np.all((told >= 0) & (told <= 1))


@given(peaks())
def test_what_is_larger_than_one_that_ran_out_has_little_chance_and_smaller_than_one_that_ran_a_good_one(
    seen,
):
    ran_out = [one.config.batch_size for one in seen if one.reserved_bytes is None]
    ran = [one.config.batch_size for one in seen if one.reserved_bytes is not None]
    larger = [config(batch_size=2 * batch) for batch in ran_out]
    smaller = [config(batch_size=max(1, batch // 2)) for batch in ran if batch > 1]
    if larger:
        assert chances(seen, larger).max() < 0.35
    if smaller:
        assert chances(seen, smaller).min() > 0.65


def test_a_config_half_as_large_as_one_that_ran_is_no_less_sure_than_that_one():
    seen = [PeakSeen(config(batch_size=128), 20.5 * GIB)]
    told = chances(seen, [config(batch_size=batch) for batch in (128, 64, 8)])
    assert told[0] <= told[1] <= told[2], "linear in the parameters, the smallest was the least sure"


def test_a_straight_line_through_two_peaks_is_followed():
    seen = [PeakSeen(config(batch_size=batch), (2 + batch / 32) * GIB) for batch in (64, 256)]
    told = chances(seen, [config(batch_size=512), config(batch_size=768)])
    assert told[0] > 0.9 and told[1] < 0.1, "18 GiB and 26 GiB of 22"


def test_peaks_come_from_trials_that_ran_and_from_those_that_ran_out():
    records = (baseline_record(peak_reserved_bytes=3 * GIB), trial_record(rate=None))
    assert [one.reserved_bytes for one in peaks_seen(records)] == [3 * GIB, None]


def test_predicted_peaks_are_believed_less_than_measured_ones():
    asked = [config(batch_size=512)]
    measured = [PeakSeen(config(batch_size=64), 4 * GIB), PeakSeen(config(batch_size=256), 10 * GIB)]
    sure = chances(measured, asked)
    against = [*measured, PeakSeen(config(batch_size=512), 30 * GIB, is_predicted=True)]
    doubted = chances(against, asked)
    refuted = chances([*measured, PeakSeen(config(batch_size=512), 30 * GIB)], asked)
    assert sure[0] > doubted[0] > refuted[0]
