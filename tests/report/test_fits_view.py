"""What fits which GPU on a terminal: whole at 80 columns, every figure marked as predicted."""

from typing import Any

import pytest
from build_fits import fit, fits_run, predicted
from build_records import baseline_record, cpu, interval, target
from read_report import Read
from read_report import drawn as drawn_blocks

from tunekit.records.config import Precision
from tunekit.records.finding import Severity
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

AT_80 = """
Your batch of 128 fits with 10% margin on 3 of 5 GPUs in fp32, all 3 in bf16 or
fp16 (predicted).

What fits which GPU (predicted), by memory
GPU        GiB    batch, fp32     128, fp32      batch, bf16      128, bf16
small      2.0   nothing fits    no 1.0/2.0                -              -
k80       11.2      0 (to 12)   no 1.0/11.2                -              -
t4        14.6   135 (to 192)  yes 1.0/13.6    262 (to 370)*  yes 1.0/13.6*
a10g      22.1   219 (to 294)  yes 1.0/21.1    425 (to 569)   yes 1.0/21.1
h100-sxm  79.2  862 (to 1081)  yes 1.0/78.2  1669 (to 2089)   yes 1.0/78.2
batch: the largest that fits with 10% margin (in the best case), per GPU
128: whether it fits, GiB reserved without margin / available at worst; for no,
  at best
* fp16: the GPU has no bf16

Samples/s at batch 128 (predicted)
GPU        compute, fp32    compute, bf16          loader             machine
small                  -                -               -
k80                    -                -               -
t4          840 to 1,560    840 to 1,560*  1,000 to 3,000  g5.xlarge, 4 vCPUs
a10g                 n/a             n/a              n/a
h100-sxm  5,600 to 10.4k  5,600 to 10.4k   1,000 to 3,000  g5.xlarge, 4 vCPUs
* fp16: the GPU has no bf16
compute, loader: samples/s of each GPU at the script's own batch of 128; the
  lower one holds; n/a: not known there
machine: the loader's, the cheapest of those with fewest GPUs; vCPUs of each GPU

Samples/s at the largest batch (predicted)
GPU       batch, fp32         compute          loader
small               -               -               -
k80                 -               -               -
t4                135     70.0 to 130  1,000 to 3,000
a10g              219     70.0 to 130             n/a
h100-sxm          862  5,600 to 10.4k  1,000 to 3,000

Peak memory of the largest batch with margin (predicted)
t4        135 fp32  PPPPPPOOOOOOAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAWWCCCCCC..........
a10g      219 fp32  PPPPPPOOOOOOAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAWWCCCC............
h100-sxm  862 fp32  PPPPPPOOOOOOAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAC.................
P parameters and buffers, O optimizer state, A activations, W workspaces (at
  most), C CUDA context (at most), . free or cached

How it was predicted
Traced here: steps of the script's own loop, traced on CPU, simulating the CUDA
  allocator, at batch sizes 2 and 4; nothing ran on a GPU.
Memory: the traced allocations at each batch size, replayed by the rules of
  torch's allocator; margin 10% either way.
Context: assumed: a test.
Workspace: assumed: a test.
Compute: a roofline model of each traced op, +-30%; memory layout, fusion and
  torch.compile are not modelled.
Loader: 2,000 samples/s with 2 workers on 8 CPUs, measured here; there by a
  batch's cost here, with one worker per vCPU and at most one per batch of an
  epoch, each as fast as a CPU here, down to half.

Next, on a machine with that GPU
  tunekit search --gpu NAME -- python train.py
  tunekit plan RUN  # hours and dollars
"""


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
            least_bytes=one.capacity_bytes - GIB,
            most_bytes=one.capacity_bytes,
            rate=rates.get(one.profile_id),
            compute=compute.get(one.profile_id),
            loader=interval(2000.0, 0.5) if one.profile_id in rates else None,
        )
        for one in five()
    )


AT_80_OF_THE_ANSWER = """
Your batch of 128 fits with 10% margin on 3 of 5 GPUs in fp32, all 3 in bf16 or
fp16 (predicted).

What fits which GPU (predicted), by memory
GPU        GiB    batch, fp32      batch, bf16   compute, fp32          loader
small      2.0   nothing fits                -               -               -
k80       11.2      0 (to 12)                -               -               -
t4        14.6   135 (to 192)    262 (to 370)*    840 to 1,560  1,000 to 3,000
a10g      22.1   219 (to 294)    425 (to 569)              n/a             n/a
h100-sxm  79.2  862 (to 1081)  1669 (to 2089)   5,600 to 10.4k  1,000 to 3,000
batch: the largest that fits with 10% margin (in the best case), per GPU
* fp16: the GPU has no bf16
compute, loader: samples/s of each GPU at the script's own batch of 128; the
  lower one holds; n/a: not known there
memory and method: tunekit report 'reports/my fits' --full

Next, on a machine with that GPU
  tunekit search --gpu NAME -- python train.py
  tunekit plan RUN  # hours and dollars
"""


def fits_view(run: FitsRun, width: int = 80) -> Read:
    return Read(fits_report(run, width))


def drawn(run: FitsRun, width: int) -> str:
    return drawn_blocks(fits_report(run, width).blocks, width)


def table_of(run: FitsRun, width: int = 200) -> Table:
    return fits_view(run, width).tables[0]


def test_what_fits_is_shown_whole():
    assert drawn(fits_run(five(), asked=at_own()), 80) == AT_80


def screen(run: FitsRun, width: int = 80) -> str:
    return drawn_blocks(fits_answer(run, width, "reports/my fits"), width)


def test_the_answer_is_what_fits_and_what_to_do():
    assert screen(fits_run(five(), asked=at_own())) == AT_80_OF_THE_ANSWER


def many() -> tuple[PredictedFit, ...]:
    """Two GPUs of each of 20 memory sizes, 4 GiB apart, the second faster."""
    return tuple(
        fit(f"gpu-{4 * size}-{name}", 4.0 * size, (10 * size, 11 * size, 12 * size), rate=interval(rate, 0.3))
        for size in range(1, 21)
        for name, rate in (("slow", 100.0), ("fast", 200.0))
    )


@pytest.mark.parametrize("options", [FitsOptions(), FitsOptions(batch_size=100)])
def test_the_answer_fits_24_lines_however_many_gpus_there_are(options: FitsOptions):
    lines = screen(fits_run(many(), options=options, asked=at_own(100))).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
    assert "all 40 GPUs, memory and method: tunekit report 'reports/my fits' --full" in lines


@pytest.mark.parametrize(("batch_size", "first"), [(5, 4), (100, 32), (120, 40), (10_000, 52)])
def test_the_answer_has_one_gpu_of_a_size_from_a_little_below_what_the_batch_needs(
    batch_size: int, first: int
):
    run = fits_run(many(), options=FitsOptions(batch_size=batch_size))
    (table,) = (block for block in fits_answer(run) if isinstance(block, Table))
    assert [row[0] for row in table.rows] == [f"gpu-{first + 4 * place}-fast" for place in range(8)]


def test_the_gpu_that_is_here_stands_for_its_size_in_the_answer():
    run = fits_run(many(), measured_on="gpu-40-slow", options=FitsOptions(batch_size=100))
    (table,) = (block for block in fits_answer(run) if isinstance(block, Table))
    assert "gpu-40-slow (here)" in [row[0] for row in table.rows]


def checkpointed(**known: Any) -> FitsRun:
    """The five, most of which hold twice the batch with gradient checkpointing."""
    fits = tuple(
        one.changed(checkpointed=LargestBatch(**{name: 2 * size for name, size in one.largest}))
        if one.profile_id != "k80"
        else one
        for one in five()
    )
    values = {"blocks": 12, "names": ("Block",), "extra_flops": 0.28} | known
    prediction = predicted(fits, checkpointing=CheckpointingPredicted(**values))
    return fits_run(fits, asked=at_own(), prediction=prediction)


def test_what_gradient_checkpointing_gives_is_a_line_of_the_answer_within_24():
    line = "gradient checkpointing: 2.0x the batch, steps up to a third longer"
    assert line in screen(checkpointed()).splitlines()
    prediction = checkpointed().prediction
    assert prediction is not None
    fits = tuple(one.changed(checkpointed=one.largest.changed(high=9999)) for one in many())
    fits = (fits[0].changed(checkpointed=LargestBatch(low=30, value=30, high=30)), *fits[1:])
    lines = screen(fits_run(fits, asked=at_own(100), prediction=prediction.changed(fits=fits))).splitlines()
    assert "gradient checkpointing: 1.0x to 3.0x the batch, steps up to a third longer" in lines
    assert len(lines) <= 24


def test_with_gradient_checkpointing_each_gpu_has_its_largest_batch_too():
    table = next(iter(tables(checkpointed()).values()))
    assert cells(table, "t4")["checkpointed, fp32"] == "270 (to 384)"
    assert cells(table, "t4")["checkpointed, bf16"] == "524 (to 740)*"
    assert cells(table, "k80")["checkpointed, fp32"] == "n/a"
    text = " ".join(drawn(checkpointed(), 80).split())
    assert (
        "gradient checkpointing of 12 blocks (Block): 2.0x the batch, for up to "
        "a third more time a step (one more forward, Chen et al. 2016, arXiv 1604.06174; 28% more "
        "arithmetic by the trace)"
    ) in text
    assert max(map(len, drawn(checkpointed(), 80).split("Next")[0].splitlines())) <= 80


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"why_not": "no blocks", "blocks": 0, "names": ()}, "gradient checkpointing: n/a, no blocks"),
        ({"is_whole": True}, "gradient checkpointing of 12 blocks (Block): no larger batch fits"),
    ],
)
def test_where_gradient_checkpointing_gives_nothing_the_whole_report_alone_says_why(
    known: dict[str, Any], said: str
):
    is_whole = known.pop("is_whole", False)
    run = checkpointed(**known)
    assert run.prediction is not None
    fits = run.prediction.fits
    if is_whole:  # what holds an epoch is not limited by memory
        fits = tuple(one.changed(peak=one.peak and one.peak.changed(batch_size=1)) for one in fits)
        run = run.changed(prediction=run.prediction.changed(fits=fits, epoch_samples=1))
    assert said in " ".join(drawn(run, 120).split())
    assert "gradient checkpointing" not in screen(run)


def only_with_it(*names: str) -> FitsRun:
    """GPUs that hold a batch of 30 with gradient checkpointing and none without, beside an A10G."""
    with_it = LargestBatch(low=30, value=40, high=50)
    able = (fit(name, 11.2, (0, 3, 12), checkpointed=with_it) for name in names)
    fits = (*able, fit("a10g", 22.1, (219, 250, 294)))
    known = CheckpointingPredicted(blocks=12, names=("Block",), extra_flops=0.28)
    return fits_run(fits, asked=at_own(), prediction=predicted(fits, checkpointing=known))


def test_a_batch_that_fits_only_with_gradient_checkpointing_is_a_gain():
    for text in (screen(only_with_it("k80")), drawn(only_with_it("k80"), 80)):
        assert "a batch on k80 in fp32 where none fits without it" in " ".join(text.split())
        assert "no larger batch fits" not in text
    several = only_with_it("k80", "t4", "h100-sxm", "small")
    assert "a batch on 4 GPUs where none fits without it" in " ".join(screen(several).split())
    both = only_with_it("t4").prediction
    assert both is not None
    fits = (both.fits[0], both.fits[0].changed(precision=FP16))
    told = drawn(fits_run(fits, prediction=both.changed(fits=fits)), 120)
    assert "a batch on t4 in fp32 and fp16 where none fits without it" in " ".join(told.split())


def test_a_longer_line_of_it_leaves_the_answer_within_24():
    fits = tuple(one.changed(checkpointed=one.largest.changed(high=9999)) for one in many())
    lost = fits[0].changed(largest=LargestBatch(low=0, value=1, high=3), peak=None, bound_by="VRAM")
    prediction = checkpointed().prediction
    assert prediction is not None
    for told in (fits, (lost, *fits[1:])):
        run = fits_run(told, asked=at_own(100), prediction=prediction.changed(fits=told))
        assert len(screen(run).splitlines()) <= 24


def test_gpus_of_both_kinds_are_told_of_together():
    run = only_with_it("k80")
    assert run.prediction is not None
    k80, a10g = run.prediction.fits
    fits = (k80, a10g.changed(checkpointed=LargestBatch(low=438, value=500, high=588)))
    run = run.changed(prediction=run.prediction.changed(fits=fits))
    told = "2.0x the batch and a batch on k80 in fp32 where none fits without it, for up to"
    assert told in " ".join(drawn(run, 120).split())


def tables(run: FitsRun, width: int = 200) -> dict[str, Table]:
    return {table.title.removesuffix(" (predicted)"): table for table in fits_view(run, width).tables}


def cells(table: Table, gpu: str) -> dict[str, str]:
    (row,) = (row for row in table.rows if row[0] == gpu)
    return dict(zip(table.columns, (cell.strip() for cell in row), strict=True))


def test_every_figure_is_in_the_whole_report_however_narrow_it_is():
    run = fits_run(five(), options=FitsOptions(batch_size=128), asked=at_own())
    wide = tables(run)
    assert [table.columns for table in wide.values()] == [
        ("GPU", "GiB", "batch, fp32", "128, fp32", "batch, bf16", "128, bf16"),
        ("GPU", "compute, fp32", "compute, bf16", "loader", "machine"),
        ("GPU", "batch, fp32", "compute", "loader"),
        ("", "", ""),
    ]
    for width in (20, 60, 80, 120):
        for title, table in list(tables(run, width).items())[:3]:
            shown = [{cell.strip() for row in one.row_lines for cell in row} for one in (wide[title], table)]
            assert shown[0] - {""} == shown[1] - {""}
    lines = drawn(run, 80).split("Next")[0].splitlines()
    assert max(map(len, lines)) <= 80


def test_the_answer_keeps_the_scripts_precision_longest():
    run = fits_run(five(), asked=at_own())
    titles = {}
    for width in (60, 70, 80):
        (table,) = (block for block in fits_answer(run, width) if isinstance(block, Table))
        titles[width] = table.columns
    assert titles[60] == ("GPU", "batch, fp32", "compute, fp32", "loader")
    assert titles[80] == ("GPU", "GiB", "batch, fp32", "batch, bf16", "compute, fp32", "loader")
    assert "GiB" not in titles[70]


def test_of_a_batch_that_was_asked_for_the_answer_tells_first():
    run = fits_run(five(), options=FitsOptions(batch_size=128), asked=at_own())
    (table,) = (block for block in fits_answer(run) if isinstance(block, Table))
    assert table.columns == ("GPU", "128, fp32", "128, bf16", "compute, fp32", "loader")
    assert "compute, loader: samples/s of each GPU at that batch; the lower one holds" in " ".join(
        screen(run).split()
    )
    assert "batch: the largest" not in screen(run)


def in_bf16() -> dict[str, Any]:
    config = baseline_record(0, 32.0, device=cpu()).config
    assert config is not None
    trial = baseline_record(0, 32.0, config.changed(precision=BF16), device=cpu())
    return {"trials": (trial,)}


@pytest.mark.parametrize(("own", "title"), [({}, "compute, fp32"), (in_bf16(), "compute, bf16")])
def test_the_answers_rates_are_of_the_precision_that_the_script_trains_in(own: dict[str, Any], title: str):
    run = fits_run(five(), asked=at_own(), **own)
    (table,) = (block for block in fits_answer(run) if isinstance(block, Table))
    assert [one for one in table.columns if one.startswith("compute")] == [title]
    assert cells(tables(run)["Samples/s at batch 128"], "t4") == {
        "GPU": "t4",
        "compute, fp32": "840 to 1,560",
        "compute, bf16": "840 to 1,560*",
        "loader": "1,000 to 3,000",
        "machine": "g5.xlarge, 4 vCPUs",
    }
    assert f"batch, {title[-4:]}" in tables(run)["Samples/s at the largest batch"].columns


def test_gpu_and_loader_have_columns_of_their_own():
    run = fits_run(five(), asked=at_own())
    largest = tables(run)["Samples/s at the largest batch"]
    rates = {row[0]: row[2:] for row in largest.rows}
    assert rates == {
        "small": ("-", "-"),
        "k80": ("-", "-"),
        "t4": ("70.0 to 130", "1,000 to 3,000"),
        "a10g": ("70.0 to 130", "n/a"),
        "h100-sxm": ("5,600 to 10.4k", "1,000 to 3,000"),
    }


def test_a_batch_that_does_not_fit_has_no_rate_and_an_unknown_one_says_so():
    rates = tables(fits_run(five(), asked=at_own()))["Samples/s at batch 128"]
    assert cells(rates, "k80")["compute, fp32"] == cells(rates, "k80")["loader"] == "-"
    assert cells(rates, "a10g")["compute, fp32"] == cells(rates, "a10g")["loader"] == "n/a"
    told = "the lower one holds; n/a: not known there"
    assert told in drawn(fits_run(five(), asked=at_own()), 200)
    known = tuple(one for one in at_own() if one.profile_id in ("t4", "h100-sxm"))
    fits = tuple(one for one in five() if one.profile_id in ("t4", "h100-sxm"))
    assert told not in drawn(fits_run(fits, asked=known), 200)


def test_without_any_loader_the_rates_are_of_the_gpus_alone():
    without = tuple(one.model_copy(update={"loader": None}) for one in at_own() if one.profile_id == "t4")
    run = fits_run(five()[4:6], asked=without)
    (table,) = (block for block in fits_answer(run) if isinstance(block, Table))
    assert table.columns[-1] == "compute, fp32"
    assert "compute: samples/s of each GPU at the script's own batch of 128; the loader is not known" in (
        " ".join(screen(run).split())
    )


def test_a_star_is_told_of_where_there_is_one_alone():
    told = "* fp16: the GPU has no bf16"
    run = fits_run(five(), options=FitsOptions(batch_size=128), asked=at_own())
    (table,) = (block for block in fits_answer(run, 80) if isinstance(block, Table))
    assert cells(table, "t4")["128, bf16"].endswith("*")
    assert told in screen(run)
    (table,) = (block for block in fits_answer(run, 50) if isinstance(block, Table))
    assert "128, bf16" not in table.columns
    assert told not in screen(run, 50)


def test_a_prediction_of_before_has_no_rates_at_the_own_batch():
    before = tuple(one.model_copy(update={"compute": None}) for one in at_own())
    for asked in ((), before):
        run = fits_run(five(), asked=asked)
        assert not tables(run)["Samples/s at batch 128"].rows
        assert "compute, loader" not in screen(run)


def test_every_gpu_has_a_bar():
    many = tuple(fit(f"gpu-{number}", 10.0 + number, (8, 9, 10)) for number in range(20))
    bars = fits_view(fits_run(many), 60).tables[-1]
    assert len(bars.rows) == 20
    assert all("PPOO" in row[-1] for row in bars.rows)


def test_two_gpus_are_both():
    run = fits_run((*five()[4:7], five()[7]), asked=at_own()[4:])
    assert fits_view(run).answer.startswith(
        "Your batch of 128 fits with 10% margin on both GPUs in fp32, both in"
    )


def test_one_gpu_is_named():
    run = fits_run(five()[4:6], options=FitsOptions(gpus=("t4",)), asked=at_own()[4:6])
    assert fits_view(run).answer == (
        "Your batch of 128 on t4 with 10% margin: fits in fp32, fits in fp16 (predicted)."
    )
    run = fits_run(five()[4:6], options=FitsOptions(batch_size=380))
    assert fits_view(run).answer == (
        "Batch 380 on t4 with 10% margin: does not fit in fp32, does not fit in fp16 (predicted)."
    )
    run = fits_run(five()[4:6], options=FitsOptions(batch_size=140))
    assert "fits only in the best case in fp32, fits in fp16" in fits_view(run).answer
    assert "\nmemory and method: tunekit report" in screen(run)


def test_one_precision_has_one_column():
    assert "batch, fp16" in table_of(fits_run((fit("t4", 14.6, (20, 22, 24), FP16),))).columns
    titles = table_of(
        fits_run((fit("t4", 14.6, (20, 22, 24)), fit("a10g", 22.1, (30, 33, 36), Precision.TF32)))
    )
    assert titles.columns[2] == "batch, tf32"
    assert [row[2] for row in titles.rows] == ["20 (to 24)*", "30 (to 36) "]


def asked(verdict: BatchFit, reserved: float, **more: Any) -> RequestedBatch:
    values: dict[str, Any] = {"profile_id": "t4", "precision": Precision.FP32, "batch_size": 256}
    return RequestedBatch(
        **(values | more),
        verdict=verdict,
        reserved_bytes=int(reserved * GIB),
        least_bytes=12 * GIB,
        most_bytes=14 * GIB,
    )


def test_a_batch_that_was_asked_for_has_a_column_for_each_precision():
    run = fits_run(
        five(),
        options=FitsOptions(batch_size=256),
        asked=(asked(BatchFit.NO, 25.0), asked(BatchFit.YES, 11.0, precision=FP16)),
    )
    t4 = cells(table_of(run, 80), "t4")
    assert (t4["256, fp32"], t4["256, bf16"]) == ("no 25.0/14.0", "yes 11.0/12.0*")
    assert "available at worst; for no, at best" in " ".join(drawn(run, 80).split())
    small = fits_run(five(), options=FitsOptions(batch_size=1), asked=(asked(BatchFit.YES, 0.01),))
    assert cells(table_of(small), "t4")["1, fp32"] == "yes <0.1/12.0"
    assert "at best" not in drawn(small, 80).split("Samples/s")[0]
    answer = fits_view(run).answer
    assert answer.startswith(
        "Batch 256 fits with 10% margin on 1 of 5 GPUs in fp32 (1 more in the best case), all 3 in bf16 or"
    )


def test_large_batches_are_told_of_in_few_letters():
    fits = (fit("t4", 14.6, (234_567, 1_300_000, 1_604_608)),)
    assert table_of(fits_run(fits)).rows[0][2] == "234k (to 1.60M)"


def of_an_epoch(samples: int | None, *largest: tuple[int, int, int], **overrides: Any) -> FitsRun:
    fits = tuple(
        fit(f"gpu-{place}", 10.0 + place, three, most=samples) for place, three in enumerate(largest)
    )
    return fits_run(fits, prediction=predicted(fits, epoch_samples=samples), **overrides)


def test_where_all_samples_of_an_epoch_fit_the_column_says_so():
    run = of_an_epoch(50_000, (40_000, 45_000, 49_999), (40_000, 60_000, 70_000), (50_000, 60_000, 70_000))
    assert [row[2] for row in table_of(run).rows] == ["40000 (to 49999)", "40000 (to all)", "all 50,000"]
    shown = drawn(run, 80)
    assert "all 50,000: the whole epoch in one batch" in shown
    assert "70000" not in shown
    assert "all 50,000 fp32  PP" in drawn(run, 50)


@pytest.mark.parametrize("samples", [None, 50_000])
def test_nothing_is_told_of_an_epoch_that_does_not_matter(samples: int | None):
    assert "the whole epoch" not in drawn(of_an_epoch(samples, (40, 45, 49)), 80)


@pytest.mark.parametrize(("asked_size", "is_told"), [(300, False), (301, True), (None, False)])
def test_a_batch_of_more_samples_than_an_epoch_has_is_told_of(asked_size: int | None, is_told: bool):
    run = of_an_epoch(300, (400, 450, 500), options=FitsOptions(batch_size=asked_size))
    told = "No such batch can be made: an epoch has 300 samples."
    assert fits_view(run).answer.endswith(told) == is_told


def test_the_gpu_that_is_here_is_marked():
    run = fits_run(five(), measured_on="a10g", prediction=predicted(five(), path=PredictionPath.LOOP_ON_GPU))
    assert "a10g (here)" in [row[0] for row in table_of(run).rows]
    assert "nothing ran on any other GPU" in drawn(run, 200)


def test_a_speed_that_was_measured_here_is_told_of():
    run = fits_run(five(), prediction=predicted(five(), speed_factor=0.8))
    told = "roofline model of each traced op, times 0.80 as measured on the GPU here, +-30%"
    assert told in drawn(run, 200)
    assert "as measured on" not in drawn(fits_run(five()), 200)


def test_doubts_are_told_of():
    run = fits_run(five(), prediction=predicted(five(), doubts=("recurrent layers",), margin=0.25))
    view = fits_view(run)
    assert [(note.severity, note.text) for note in view.notes] == [(Severity.WARNING, "recurrent layers")]
    assert "margin 25% either way, with 1 doubt (below)" in drawn(run, 200)


def test_a_loader_that_was_not_looked_at_is_told_of():
    run = fits_run(five(), prediction=predicted(five(), loader_measured=None))
    assert "Loader: n/a here" in drawn(run, 200)


def test_the_next_command_names_the_one_gpu_that_was_asked_for():
    run = fits_run(five()[4:6], options=FitsOptions(gpus=("t4",)))
    assert fits_view(run).next_steps[0].endswith("tunekit search --gpu t4 -- python train.py")
    builtin = fits_run(five(), target=target(builtin="images"))
    assert fits_view(builtin).next_steps == ("tunekit fits -- python train.py",)


def test_without_a_prediction_the_reason_is_shown():
    assert fits_view(fits_run(why_not="the loop has no DataLoader")).answer == (
        "Nothing can be predicted: the loop has no DataLoader."
    )
    for status, told in (
        (RunStatus.INTERRUPTED, "it was interrupted"),
        (RunStatus.RUNNING, "status: running"),
    ):
        assert told in fits_view(fits_run(status=status)).answer
