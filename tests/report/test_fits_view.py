"""What fits which GPU as a whole report, and what the answer on one screen keeps."""

from collections.abc import Callable

import pytest
from build_fits import fit, fits_run, predicted
from build_records import baseline_record, cpu, interval, target
from read_report import drawn

from tunekit.records.config import Precision
from tunekit.records.prediction import (
    CheckpointingPredicted,
    LargestBatch,
    PredictedFit,
    PredictionPath,
)
from tunekit.records.run import BatchFit, FitsOptions, FitsRun, RequestedBatch, RunStatus
from tunekit.report.blocks import Table
from tunekit.report.fits import fits_answer, fits_report
from tunekit.units import GIB

BF16, FP16 = Precision.BF16, Precision.FP16
Golden = Callable[[str], object]


def five() -> tuple[PredictedFit, ...]:
    """Two that hold nothing, one for fp16, one without a known loader, one that its loader holds back."""
    loads = {"loader": interval(2000.0, 0.5), "instance": "g5.xlarge"}
    slow = {"compute": interval(100.0, 0.3), "rate": interval(100.0, 0.3)}
    quick = {"compute": interval(8000.0, 0.3), "rate": interval(2000.0, 0.5), "bound_by": "loader"}
    near = {"compute": interval(1600.0, 0.3), "rate": interval(1600.0, 0.3)}
    return (
        fit("h100-sxm", 79.2, (862, 970, 1081), **quick, **loads),
        fit("h100-sxm", 79.2, (1669, 1800, 2089), BF16, **quick, **loads),
        fit("small", 2.0, (0, 0, 0)),
        fit("k80", 11.2, (0, 3, 12), note=None),
        fit("t4", 14.6, (135, 160, 192), **slow, **loads),
        fit("t4", 14.6, (262, 300, 370), FP16, **near, **loads),
        fit("a10g", 22.1, (219, 250, 294), **slow),
        fit("a10g", 22.1, (425, 490, 569), BF16, **slow),
    )


def at_own(batch_size: int = 128) -> tuple[RequestedBatch, ...]:
    """What is told of a batch on each of the five: the t4 is slower than at its largest."""
    rates = {"t4": interval(1200.0, 0.3), "h100-sxm": interval(2000.0, 0.5)}
    compute = {"t4": interval(1200.0, 0.3), "h100-sxm": interval(8000.0, 0.3)}
    return tuple(
        RequestedBatch(
            profile_id=one.profile_id,
            precision=one.precision,
            batch_size=batch_size,
            verdict=BatchFit.YES if batch_size <= one.largest.low else BatchFit.NO,
            reserved_bytes=GIB,
            min_bytes=one.capacity_bytes - GIB,
            max_bytes=one.capacity_bytes,
            rate=rates.get(one.profile_id),
            compute=compute.get(one.profile_id),
            loader=interval(2000.0, 0.5) if one.profile_id in rates else None,
        )
        for one in five()
    )


def many() -> tuple[PredictedFit, ...]:
    """Two GPUs of each of 20 memory sizes, 4 GiB apart, the second faster."""
    return tuple(
        fit(f"gpu-{4 * size}-{name}", 4.0 * size, (10 * size, 11 * size, 12 * size), rate=interval(rate, 0.3))
        for size in range(1, 21)
        for name, rate in (("slow", 100.0), ("fast", 200.0))
    )


def checkpointed() -> FitsRun:
    """The five, most of which hold twice the batch with gradient checkpointing."""
    fits = tuple(
        one.changed(checkpointed=LargestBatch(**{name: 2 * size for name, size in one.largest}))
        if one.profile_id != "k80"
        else one
        for one in five()
    )
    known = CheckpointingPredicted(blocks=12, names=("Block",), extra_flops=0.28)
    prediction = predicted(fits, checkpointing=known)
    return fits_run(fits, asked=at_own(), prediction=prediction)


def on_this_gpu() -> FitsRun:
    """An epoch that memory holds whole, with doubts, a measured speed and no loader."""
    fits = tuple(
        fit(f"gpu-{place}", 10.0 + place, largest, most=50_000)
        for place, largest in enumerate(
            ((40_000, 45_000, 49_999), (40_000, 60_000, 70_000), (50_000, 60_000, 70_000))
        )
    )
    prediction = predicted(
        fits,
        epoch_samples=50_000,
        path=PredictionPath.LOOP_ON_GPU,
        speed_factor=0.8,
        doubts=("recurrent layers",),
        margin=0.25,
        loader_measured=None,
    )
    return fits_run(fits, measured_on="gpu-1", prediction=prediction)


def answered(run: FitsRun) -> str:
    return drawn(fits_answer(run, "reports/my fits"), 80)


def answer_table(run: FitsRun) -> Table:
    (table,) = (block for block in fits_answer(run) if isinstance(block, Table))
    return table


ASKED = FitsOptions(batch_size=128)
REPORTS: dict[str, FitsRun] = {
    "own": fits_run(five(), asked=at_own()),
    "checkpointed": checkpointed(),
    "here": on_this_gpu(),
    "one-gpu": fits_run(five()[4:6], options=FitsOptions(gpus=("t4",)), asked=at_own(140)[4:6]),
    "builtin": fits_run(five(), target=target(builtin="images")),
    "refused": fits_run(why_not="the loop has no DataLoader"),
    "beyond-an-epoch": fits_run(
        five()[:1],
        options=FitsOptions(batch_size=1000),
        asked=at_own()[:1],
        prediction=predicted(five()[:1], epoch_samples=900),
    ),
    "interrupted": fits_run(status=RunStatus.INTERRUPTED),
}


@pytest.mark.parametrize("name", REPORTS)
def test_what_fits_which_gpu(name: str, golden: Golden):
    run = REPORTS[name]
    assert (answered(run) + "=" * 80 + "\n" + drawn(fits_report(run).blocks, 80)) == golden(
        f"fits-{name}.txt"
    )


@pytest.mark.parametrize("options", [FitsOptions(), FitsOptions(batch_size=100)])
def test_the_answer_fits_24_lines_however_many_gpus_there_are(options: FitsOptions):
    lines = answered(fits_run(many(), options=options, asked=at_own(100))).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "40 GPUs, memory and method: tunekit report 'reports/my fits' --full" in lines


@pytest.mark.parametrize(("batch_size", "first"), [(5, 4), (100, 32), (120, 40), (10_000, 52)])
def test_the_answer_has_one_gpu_of_a_size_from_a_little_below_what_the_batch_needs(
    batch_size: int, first: int
):
    run = fits_run(many(), options=FitsOptions(batch_size=batch_size))
    assert [row[0] for row in answer_table(run).rows] == [
        f"gpu-{first + 4 * place}-fast" for place in range(8)
    ]


def test_the_gpu_that_is_here_stands_for_its_size_in_the_answer():
    run = fits_run(many(), measured_on="gpu-40-slow", options=FitsOptions(batch_size=100))
    assert "gpu-40-slow (here)" in [row[0] for row in answer_table(run).rows]


def test_the_answer_has_each_gpu_in_the_precision_that_the_script_trains_in():
    config = baseline_record(0, 32.0, device=cpu()).config
    assert config is not None
    trial = baseline_record(0, 32.0, config.changed(precision=BF16), device=cpu())
    run = fits_run(five(), options=ASKED, asked=at_own(), trials=(trial,))
    assert [row[:2] for row in answer_table(run).rows] == [
        *(("small", "fp32"), ("k80", "fp32"), ("t4", "fp16"), ("a10g", "bf16"), ("h100-sxm", "bf16")),
    ]
