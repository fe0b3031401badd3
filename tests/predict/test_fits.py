"""What fits which GPU, by the steps that a trial traced."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from build_fits import A10G, K80, T4, gpu, outside, traced_trial
from build_records import trial_record
from hypothesis import given
from hypothesis import strategies as st

from tunekit.predict.fits import DOUBT_MARGIN, MARGIN, Fits
from tunekit.predict.step_traces import Unpredictable
from tunekit.records.codec import read_json, write_json
from tunekit.records.config import Precision
from tunekit.records.details import CheckpointingSeen, Details
from tunekit.records.prediction import DevicePrediction, OutsideTorch, StepTrace
from tunekit.records.profile import Profile
from tunekit.records.run import BatchFit

FP32, TF32, BF16, FP16 = Precision.FP32, Precision.TF32, Precision.BF16, Precision.FP16
ALL = ("fp32", "tf32", "bf16", "fp16")
NOT_BOTH = "no steps were traced both with it and without at two batch sizes"


@pytest.fixture(scope="module")
def fits(tmp_path_factory: pytest.TempPathFactory) -> Fits:
    folder = tmp_path_factory.mktemp("traced")
    return Fits((traced_trial(folder),), folder, cpus=8)


def predicted(fits: Fits, *profiles: Profile, beside: OutsideTorch | None = None) -> DevicePrediction:
    return fits.for_profiles(profiles, lambda profile: beside or outside())


@given(
    gib=st.floats(0.5, 100), context=st.tuples(st.integers(0, 500), st.integers(500, 2000)), data=st.data()
)
def test_the_range_is_ordered_and_grows_with_memory(fits: Fits, gib: float, context, data):
    beside = outside(*context)
    more = gib + data.draw(st.floats(0, 50))
    small, large = (
        predicted(fits, gpu("a10g", size, ALL), beside=beside).fit_of("a10g", FP32) for size in (gib, more)
    )
    assert small is not None and large is not None
    for one in (small.largest, large.largest):
        assert one.low <= one.value <= one.high
    assert small.largest.low <= large.largest.low
    assert small.largest.high <= large.largest.high


@given(gib=st.floats(1, 60), batch=st.integers(1, 6000))
def test_a_batch_fits_up_to_the_one_to_trust_and_not_above_the_best(fits: Fits, gib: float, batch: int):
    a10g = gpu("a10g", gib, ALL)
    one = predicted(fits, a10g).fit_of("a10g", BF16)
    assert one is not None
    asked = fits.asked(a10g, one, outside(), batch)
    assert (asked.verdict is BatchFit.YES) == (batch <= one.largest.low)
    assert (asked.verdict is BatchFit.NO) == (batch > one.largest.high)
    assert (asked.rate is None) == (asked.verdict is BatchFit.NO)
    if asked.verdict is BatchFit.YES:
        assert asked.reserved_bytes <= asked.min_bytes


def test_a_context_takes_room(fits: Fits):
    usual, small_context = (predicted(fits, A10G, beside=one) for one in (outside(), outside(300, 400)))
    for one, other in zip(usual.fits, small_context.fits, strict=True):
        assert one.largest.low < other.largest.low
        assert one.largest.high == other.largest.high


def test_an_epoch_of_fewer_samples_than_fit_is_what_is_told_of(tmp_path: Path):
    free = Fits((traced_trial(tmp_path / "a", epoch_samples=None),), tmp_path / "a", cpus=8)
    short = Fits((traced_trial(tmp_path / "b", batch_cost_s=0.2, epoch_samples=300),), tmp_path / "b", cpus=8)
    unbound, bound = predicted(free, A10G), predicted(short, A10G)
    assert (unbound.epoch_samples, bound.epoch_samples) == (None, 300)
    for one, other in zip(unbound.fits, bound.fits, strict=True):
        assert other.largest == one.largest, "what memory holds does not change"
        assert (one.batch_size, other.batch_size) == (one.largest.low, 300)
        at_epoch = free.at(A10G, one.precision, 300, outside())
        assert at_epoch is not None
        assert (other.peak, other.compute) == (at_epoch.peak, at_epoch.compute)
        assert other.rate == other.loader, "one worker makes the only batch"


def test_a_batch_that_an_epoch_has_no_samples_for_may_fit_but_has_no_rate(tmp_path: Path):
    fits = Fits((traced_trial(tmp_path, epoch_samples=300),), tmp_path, cpus=8)
    one = predicted(fits, A10G).fits[0]
    possible, impossible = (fits.asked(A10G, one, outside(), size) for size in (300, 301))
    assert (possible.verdict, impossible.verdict) == (BatchFit.YES, BatchFit.YES)
    assert possible.rate == one.rate
    assert impossible.rate is impossible.compute is None
    at = fits.at(A10G, FP32, 301, outside())
    assert at is not None
    assert at.batch_size == 300


def test_each_gpu_is_told_of_in_the_precisions_that_it_has(fits: Fits):
    prediction = predicted(fits, K80, T4, A10G)
    assert [(one.profile_id, one.precision) for one in prediction.fits] == [
        ("k80", FP32),
        ("t4", FP32),
        ("t4", FP16),
        ("a10g", FP32),
        ("a10g", BF16),
    ]


def test_tf32_is_float32_where_a_gpu_has_none(tmp_path: Path):
    fits = Fits((traced_trial(tmp_path, TF32, traces=(None,)),), tmp_path, cpus=8)
    prediction = predicted(fits, T4, A10G)
    assert [(one.profile_id, one.precision) for one in prediction.fits] == [("t4", FP32), ("a10g", TF32)]
    assert all(one.largest.low for one in prediction.fits)


def test_a_gpu_of_unknown_memory_is_left_out_and_so_is_a_cpu(fits: Fits):
    assert predicted(fits, gpu("mps-m1", None), gpu("cpu", 16.0)).fits == ()


def test_where_nothing_fits_the_memory_binds(fits: Fits):
    one = predicted(fits, gpu("k80", 1.0)).fits[0]
    assert one.largest.low == 0
    assert (one.bound_by, one.peak, one.rate) == ("VRAM", None, None)


def test_a_slow_loader_binds_and_a_fast_one_does_not(tmp_path: Path):
    bound = []
    for cost_s in (2.0, 1e-5, None):
        folder = tmp_path / str(cost_s)
        one = predicted(Fits((traced_trial(folder, batch_cost_s=cost_s),), folder, cpus=8), A10G).fits[0]
        assert one.rate is not None and one.compute is not None
        bound.append((one.bound_by, one.instance))
        if cost_s == 2.0:
            assert one.loader is not None
            assert one.rate == one.loader
            assert one.loader.high == pytest.approx(4 * 16 / 2.0)
            assert one.loader.low == pytest.approx(0.5 * 4 * 16 / 2.4)
        else:
            assert one.rate == one.compute
    assert bound == [("loader", "aws g5.xlarge"), ("compute", "aws g5.xlarge"), ("compute", None)]


def test_doubts_widen_the_margin(tmp_path: Path):
    ranges = []
    for doubts in ((), ("a doubt",), tuple(f"doubt {number}" for number in range(8))):
        fits = Fits((traced_trial(tmp_path, doubts=doubts),), tmp_path, cpus=8)
        assert fits.margin == pytest.approx(MARGIN + DOUBT_MARGIN * len(doubts))
        prediction = predicted(fits, A10G)
        assert prediction.doubts == doubts
        ranges.append(prediction.fits[0].largest)
    for narrow, wide in pairwise(ranges):
        assert wide.low < narrow.low <= narrow.value == wide.value <= narrow.high < wide.high


def test_what_torch_would_reserve_is_told_of_traced_precisions_alone(tmp_path: Path):
    fits = Fits((traced_trial(tmp_path, traces=(None,)),), tmp_path, cpus=8)
    small, large = (fits.unlimited_peak(FP32, size, outside()) for size in (8, 64))
    assert small is not None and large is not None and small.reserved_bytes < large.reserved_bytes
    assert fits.unlimited_peak(BF16, 8, outside()) is None


def test_a_trial_without_two_traced_sizes_says_why(tmp_path: Path):
    record = traced_trial(tmp_path)
    assert record.measurement is not None
    cases = {
        "why it ended": traced_trial(tmp_path, traces=(), why_ended="why it ended"),
        "no steps at two batch sizes were traced": traced_trial(tmp_path, traces=()),
        "the loop has no DataLoader": record.model_copy(
            update={
                "measurement": record.measurement.model_copy(
                    update={"details": Details(faults=("floors: x", "trace: the loop has no DataLoader"))}
                )
            }
        ),
        "device_oom: ": trial_record(0, None),
    }
    for why, one in cases.items():
        with pytest.raises(Unpredictable, match=why):
            Fits((one,), tmp_path, cpus=8)


# --- gradient checkpointing --------------------------------------------------------------------


@pytest.fixture(scope="module")
def checkpointed(tmp_path_factory: pytest.TempPathFactory) -> Fits:
    folder = tmp_path_factory.mktemp("checkpointed")
    return Fits((traced_trial(folder, checkpointed=(None, "bf16")),), folder, cpus=8)


def test_half_the_activations_let_nearly_twice_the_batch_fit(fits: Fits, checkpointed: Fits):
    told = predicted(checkpointed, K80, T4, A10G)
    assert told.checkpointing is not None
    assert (told.checkpointing.blocks, told.checkpointing.names) == (12, ("Block",))
    assert told.checkpointing.why_not is None
    assert told.checkpointing.extra_flops == pytest.approx(1 / 3)
    for one, other in zip(told.fits, predicted(fits, K80, T4, A10G).fits, strict=True):
        assert one.checkpointed is not None
        assert one.checkpointed.low == pytest.approx(2 * one.largest.low, rel=0.15)
        assert one.checkpointed.low <= one.checkpointed.value <= one.checkpointed.high
        assert one.changed(checkpointed=None) == other, "the rest is of the steps as they are"


def other_steps(trials_folder: Path, name: str) -> None:
    """Leave a traced op out of one of the two sizes, so that they are not of the same steps."""
    path = trials_folder / "0000" / name
    traced = read_json(path, StepTrace)
    write_json(path, traced.changed(ops=traced.ops[:-1]))


def test_no_precision_with_and_without_it_is_why_nothing_is_told(tmp_path: Path):
    trial = traced_trial(tmp_path, checkpointed=(None,))
    other_steps(tmp_path, "trace-own-4.json")
    told = predicted(Fits((trial,), tmp_path, cpus=8), A10G)
    assert told.checkpointing is not None
    assert (told.checkpointing.extra_flops, told.checkpointing.why_not) == (None, NOT_BOTH)
    assert [(one.precision, one.checkpointed) for one in told.fits] == [(BF16, None)]


def test_the_gpu_that_is_here_tells_nothing_of_others_by_a_precision_that_was_not_traced(tmp_path: Path):
    trial = traced_trial(tmp_path, device_type="cuda")
    assert predicted(Fits((trial,), tmp_path, cpus=8, here=A10G), T4).speed_factor is not None
    other_steps(tmp_path, "trace-own-4.json")
    assert predicted(Fits((trial,), tmp_path, cpus=8, here=A10G), T4).speed_factor is None


@pytest.mark.parametrize("batches", [1, 2])
def test_the_arithmetic_of_a_sample_is_what_a_step_grows_by(tmp_path: Path, batches: int):
    trial = traced_trial(tmp_path, batches_per_step=batches)
    assert predicted(Fits((trial,), tmp_path, cpus=8), T4).flops_per_sample == 3e9 / batches


@pytest.mark.parametrize(
    ("seen", "why_not"),
    [
        ({"checkpointing": CheckpointingSeen(blocks=0, why_not="no blocks")}, "no blocks"),
        ({"checkpointing": CheckpointingSeen(blocks=2), "why_ended": "too slow"}, "too slow"),
        ({"checkpointing": CheckpointingSeen(blocks=2)}, NOT_BOTH),
    ],
)
def test_why_nothing_is_told_of_it_is_said(tmp_path: Path, seen: dict[str, Any], why_not: str):
    told = predicted(Fits((traced_trial(tmp_path, **seen),), tmp_path, cpus=8), A10G)
    assert told.checkpointing is not None
    assert told.checkpointing.why_not == why_not
    assert told.checkpointing.extra_flops is None
    assert all(one.checkpointed is None for one in told.fits)
