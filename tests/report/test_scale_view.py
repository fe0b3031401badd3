"""A measured scaling on a terminal and on the page: whole at 80 columns, predictions marked."""

import re

import pytest
from build_records import failure, profile
from build_scaling import SPLITS, Step, bare_run, failed_trial, scaled, seen
from hypothesis import given
from hypothesis import strategies as st
from machine.shipped import PROFILES
from read_report import Read
from read_report import drawn as drawn_blocks

from tunekit.diagnose.scaling import scaling_findings
from tunekit.recommend.measured_scaling import KNOBS, with_figures
from tunekit.records.data_parallel import DataParallelKind
from tunekit.records.interval import EXACTLY_ONE
from tunekit.records.run import RunStatus
from tunekit.records.scaling import Hosts, ScalingMode
from tunekit.records.scaling_run import ScaleOptions, ScalingRun, StepSplit
from tunekit.records.trial import OutcomeKind
from tunekit.report.blocks import Basis, Chart, Table
from tunekit.report.scale import scaling_page, scaling_report

AT_80 = """

4 processes train 3.34x (3.34 to 3.34) as fast as one: efficiency 83.4% (83.4 to
83.4%) (measured).
Most is lost to exposed communication: 15.0 ms of the 121 ms that an iteration
takes on 4.
Weak scaling, each process keeps its batch: batch 128, workers 2 x prefetch 2,
fp32, persistent, DistributedDataParallel over nccl, gradients 44.0 MiB.

Samples/s of all processes (measured; ~ predicted)
processes  samples/s  linear  efficiency         range  fitted      predicted
        1      1,266   1,266      100.0%                100.0%              -
        2      2,261   2,533       89.3%                 90.0%  89.9 to 99.9%
        4      4,227   5,066       83.4%  83.4 to 83.4   85.4%  89.8 to 99.9%
       ~8      8,419  10,132       83.1%  83.1 to 83.1       -              -
      ~16     16,571  20,264       81.8%  81.8 to 81.8       -              -
linear: if each process were as fast as one alone
fitted, without waiting for data: the law with 10.0% of a step for moving the
  gradients once and 2.0% of spread between the processes; three counts can't
  tell its error, a fourth would
~: predicted by the fitted law, without waiting for data
predicted: one process's step, its gradients over NVLink; ring all-reduce
  (nccl-tests, doc/PERFORMANCE.md), hidden behind the backward pass in buckets
  of 25 MiB (Li et al. 2020, VLDB 13(12)), NCCL's latencies and bandwidths; up
  to 10% less for what that leaves out

Where an iteration goes (measured)
processes  iteration      compute  communication  slowest process          data
        1     101 ms  100 ms  99%              -                -  1.00 ms   1%
        2     113 ms  101 ms  89%   9.09 ms   8%     1.03 ms   1%  2.00 ms   2%
        4     121 ms  101 ms  83%   15.0 ms  12%     1.57 ms   1%  4.00 ms   3%
communication: exposed, what an iteration takes beyond one in which no gradient
  is summed; slowest process: waiting for it; data: waiting for the loader

Batch, learning rate (predicted; * the rule of your optimizer), and this host
processes  batch  global batch  lr linear *  lr sqrt  workers  per CPU      RAM
        1    128           128          0.1      0.1        2     0.25  2.0 GiB
        2    128           256          0.2   0.1414        4     0.50  4.0 GiB
        4    128           512          0.4      0.2        8     1.00  8.0 GiB

Settings of DistributedDataParallel on 4 (measured, rate over that as it is)
                         factor         range
gradient_as_bucket_view   1.04x  1.04 to 1.04  faster
static_graph              1.20x  1.20 to 1.20  faster
bucket_cap_mb 10          1.00x  1.00 to 1.00  no gain
bucket_cap_mb 100         1.00x  1.00 to 1.00  no gain

note exposed-communication: the backward pass does not hide the sum of the
gradients
  seen: 15 ms of 121 ms an iteration on 4 processes
  do: accumulate gradients under no_sync(), or take a larger batch: both sum
  them less often
  gain: at most 1.14x (predicted)

Measured on a10g in 27 trials, 9m 00s: fresh processes in 3 rounds, every count
in turns; rates are of steady iterations, without the ends of epochs, 95%
intervals; A/A noise floor 0.2% over 3 fresh processes.

Next
  tunekit plan RUN --scaling 0.83..0.84  # RUN: a search on one GPU
  tunekit report reports/train-scale --html  (this as a page)
"""


def found(run: ScalingRun) -> ScalingRun:
    return run.changed(findings=scaling_findings(run))


def typical() -> ScalingRun:
    step = Step(wait_s=0.001, factors={"gradient_as_bucket_view": 1.04, "static_graph": 1.2})
    return found(scaled(step, rounds=3, settings=tuple(KNOBS.values()), here=PROFILES["a100-sxm-80"]))


def drawn(run: ScalingRun, width: int) -> str:
    return "\n" + drawn_blocks(scaling_report(run, "reports/train-scale", width).blocks, width)


def read(run: ScalingRun, width: int = 160) -> Read:
    return Read(scaling_report(run, "reports/train-scale", width))


def table(run: ScalingRun, begins: str, width: int = 160) -> Table:
    return next(one for one in read(run, width).tables if one.title.startswith(begins))


def test_a_measured_scaling_on_a_terminal_of_80_columns():
    assert drawn(typical(), 80) == AT_80


def test_processes_without_a_wrapper_are_no_training_that_goes_faster():
    bare = seen(kind=DataParallelKind.NONE, settings=None, gradient_bytes=None)
    run = found(scaled(loop=lambda n: {"data_parallel": bare if n > 1 else None}))
    first, second, *_ = read(run).answers
    assert first.startswith("4 processes do not seem to train together")
    assert second.startswith("Side by side, 4 processes take 3.4")
    assert "no law is fitted: nothing of torch's is seen to sum the gradients" in read(run).passage()
    assert not any(" train " in line and "as fast" in line for line in read(run).answers)
    assert not any("plan" in step for step in read(run).next_steps)


def test_processes_that_read_the_same_samples_end_their_epochs_no_sooner():
    run = found(scaled(loop=lambda n: {"epoch_samples": 48_000}))
    first, second, *_ = read(run).answers
    assert first.startswith("Every process read the same samples: an epoch on 4 processes takes 1.17x")
    assert second.startswith("Side by side, 4 processes take 3.4")
    assert not any("plan" in step for step in read(run).next_steps)


def test_a_warning_that_was_silenced_is_not_in_the_answer():
    run = scaled(loop=lambda n: {"epoch_samples": 48_000})
    assert read(run).answers[0].startswith("4 processes train 3.4")


@given(step=SPLITS, efficiency=st.floats(0.01, 1.5))
def test_no_more_is_said_to_be_lost_than_linear_scaling_would_save(step: StepSplit, efficiency: float):
    run = scaled(processes=(1, 2), rounds=1)
    least, largest = run.measured
    counts = (least, largest.changed(step=step, efficiency=EXACTLY_ONE.times(efficiency)))
    answers = read(run.changed(counts=counts)).answers
    times_ms = [float(one.replace(",", "")) for one in re.findall(r"([\d,.]+) ms", " ".join(answers[1:]))]
    if times_ms:
        lost_ms, whole_ms = times_ms
        assert lost_ms <= whole_ms * (1 - efficiency) * 1.02


def test_a_wider_terminal_has_the_ranges_of_rates_and_the_iterations_too():
    narrow, wide = (table(typical(), "Samples/s", width).columns for width in (80, 120))
    assert [one for one in wide if one not in narrow] == ["it/s"]
    assert (narrow.count("range"), wide.count("range")) == (1, 2)


def test_counts_that_the_law_speaks_of_are_marked_as_predicted():
    rates = table(typical(), "Samples/s")
    assert rates.basis is Basis.MEASURED
    assert rates.predicted_rows == (3, 4)
    assert [row[0] for row in rates.rows] == ["1", "2", "4", "~8", "~16"]


def test_processes_that_wait_for_data_are_no_ground_to_speak_of_more():
    waits = scaled(Step(wait_s=0.005))
    assert len(table(waits, "Samples/s").rows) == 3
    assert any("more processes are not predicted" in line for line in read(waits).passage())


def test_a_count_that_failed_says_why_and_what_others_came_to():
    kept = scaled(processes=(1, 2))
    lost = failed_trial(4, 4, OutcomeKind.DEVICE_OOM, "CUDA out of memory")
    run = with_figures(
        kept.changed(options=ScaleOptions(processes=(1, 2, 4)), trials=(*kept.trials, lost)), profile()
    )
    assert read(run).answers[0].startswith("2 processes train")
    assert "4 processes: not measured, device_oom: CUDA out of memory" in read(run).passage()
    assert table(run, "Samples/s").rows[2][:2] == ("4", "n/a")
    assert read(run).notes == ()


def test_two_counts_have_no_law_and_are_told_what_it_takes():
    run = scaled(processes=(1, 2))
    assert any("it takes one process and two more counts" in line for line in read(run).passage())
    assert "fitted" not in table(run, "Samples/s").columns


def test_an_iteration_that_could_not_be_split_says_so():
    run = scaled(processes=(1, 2))
    apart = tuple(
        one
        if one.ddp is None
        else one.changed(measurement=None, failure=failure(OutcomeKind.KNOB_NOT_APPLIED))
        for one in run.trials
    )
    run = with_figures(run.changed(trials=apart), profile())
    assert table(run, "Where").rows[1][3] == "-"
    assert "-: not told apart, it is in compute" in read(run).passage()
    assert {note.text.partition(",")[0] for note in read(run).notes} == {"trial 2 failed", "trial 5 failed"}


def test_settings_tried_in_one_round_have_a_factor_and_no_verdict():
    run = scaled(Step(factors={"static_graph": 1.2}), rounds=1, settings=tuple(KNOBS.values()))
    rows = {row[0]: row[1:] for row in table(run, "Settings").rows}
    assert rows["static_graph"] == ("1.20x", "1.18 to 1.22", "-")
    assert any(line.startswith("-: one round") for line in read(run).passage())
    assert not any(line.startswith("-: one round") for line in read(typical()).passage())


def test_only_a_setting_that_failed_is_called_failed():
    gain = scaled(rounds=1, settings=(KNOBS["static_graph"],)).gains[0].changed(factor=None)
    lost = gain.changed(why_missing="crashed: no")
    run = scaled().changed(gains=(gain, lost))
    assert [row[1:] for row in table(run, "Settings").rows] == [("n/a", "n/a", "-"), ("failed", "n/a", "-")]
    assert "static_graph: crashed: no" in read(run).passage()


def test_strong_scaling_and_what_trains_the_processes_are_said():
    fsdp = seen(kind=DataParallelKind.FSDP, gradient_bytes=None, settings=None)
    run = scaled(loop=lambda n: {"data_parallel": fsdp}).changed(mode=ScalingMode.STRONG)
    (line,) = [one for one in read(run).quiet if one.startswith("Strong scaling")]
    assert line.endswith("FullyShardedDataParallel over nccl.")


def test_on_a_cpu_the_threads_of_a_process_are_said():
    (line,) = [one for one in read(scaled(measured_on="cpu")).quiet if one.startswith("Weak scaling")]
    assert "1 CPU thread each" in line
    assert not any("CPU thread" in one for one in read(scaled()).quiet)


def test_the_rule_of_the_optimizer_is_starred_and_its_limit_is_said():
    run = scaled(processes=(1, 128))
    assert "lr linear *" in table(run, "Batch").columns
    assert any("beyond what the source of the linear rule shows" in line for line in read(run).passage())


def test_next_a_plan_takes_the_measured_efficiency_and_the_settings_are_tried():
    steps = read(scaled(rounds=3)).next_steps
    assert steps[0].startswith("tunekit plan RUN --scaling 0.85..0.86")
    assert steps[1] == "tunekit scale --knobs --processes 1,2,4 -- python train.py"
    assert all("--knobs" not in one for one in read(typical()).next_steps)
    on_cpu = read(scaled(measured_on="cpu")).next_steps
    assert not any("plan" in one for one in on_cpu)


def test_several_hosts_are_said_and_typed_again():
    asked = ScaleOptions(processes=(1, 2), hosts=Hosts(nodes=2, endpoint="node1:29400"))
    run = scaled(processes=(1, 2), options=asked, loop=lambda n: {"world_size": 2 * n})
    assert read(run).answers[0].startswith("4 processes train")
    assert [row[0] for row in table(run, "Samples/s").rows] == ["2", "4"]
    assert "--nnodes 2 --rdzv-endpoint node1:29400" in read(run).next_steps[0]


def on_two_hosts(lost: int | None = None) -> ScalingRun:
    """One and two processes on each of two hosts, and a count that failed."""
    counts = (1, 2) if lost is None else (1, 2, lost)
    asked = ScaleOptions(processes=counts, hosts=Hosts(nodes=2, endpoint="node1:29400"), tries_knobs=True)
    knobs = (KNOBS["static_graph"],)
    run = scaled(
        processes=(1, 2), rounds=1, settings=knobs, options=asked, loop=lambda n: {"world_size": 2 * n}
    )
    if lost is not None:
        oom = failed_trial(len(run.trials), lost, OutcomeKind.DEVICE_OOM, "CUDA out of memory")
        run = run.changed(trials=(*run.trials, oom))
    return with_figures(run, profile())


def test_every_number_of_processes_is_that_of_all_hosts():
    run = on_two_hosts(lost=4)
    rates = table(run, "Samples/s")
    assert [row[0] for row in rates.rows] == ["2", "4", "8"]
    linear = [float(row[rates.columns.index("linear")].replace(",", "")) for row in rates.rows]
    assert linear == pytest.approx([linear[0], 2 * linear[0], 4 * linear[0]], rel=0.01)
    assert {"fitted", "predicted"}.isdisjoint(rates.columns)
    lines = read(run).passage()
    assert "8 processes: not measured, device_oom: CUDA out of memory" in lines
    assert "linear: if each process were as fast as with 2 processes" in lines
    assert "workers, per CPU and RAM: of this host, one of 2" in lines
    assert "no law is fitted: it goes by one process alone, and 2 hosts have at least 2" in lines
    assert read(run).answers[1].endswith("that an iteration takes on 4.")
    assert any(one.title.startswith("Settings of DistributedDataParallel on 4 ") for one in read(run).tables)


def test_the_law_leaves_waiting_for_data_out_and_says_so():
    run = scaled(Step(wait_s=0.001), processes=(1, 2, 4, 8), rounds=3)
    (line,) = (one for one in read(run).passage() if one.startswith("fitted"))
    assert line.startswith("fitted, without waiting for data: ")
    ahead = scaled(Step(jitter=0.0), processes=(1, 2, 4, 8))
    assert "~: predicted by the fitted law, without waiting for data" in read(ahead).passage()


def failed_beside_one(kind: OutcomeKind) -> ScalingRun:
    alone = scaled(processes=(1,), rounds=1, options=ScaleOptions(processes=(1, 2)))
    lost = failed_trial(1, 2, kind, "boom")
    run = alone.changed(trials=(*alone.trials, lost), status=RunStatus.FAILED)
    return with_figures(run, profile())


def test_what_failed_is_not_to_be_typed_again_as_it_was():
    crashed = read(failed_beside_one(OutcomeKind.SCRIPT_ERROR))
    (step,) = crashed.next_steps
    assert step.startswith("less reports/train-scale/trials/0001/output.log")
    (step,) = read(failed_beside_one(OutcomeKind.KNOB_NOT_APPLIED)).next_steps
    assert step.endswith("# once the script trains its processes together")
    shared = scaled(processes=(1,), rounds=1, options=ScaleOptions(processes=(1, 3), mode=ScalingMode.STRONG))
    (step,) = read(shared.changed(left_out={3: "a global batch of 128 can't be shared by 3"})).next_steps
    assert step.startswith("tunekit scale --processes 1,3 -- python train.py  #")


def test_a_setting_that_is_not_in_force_is_told_without_its_code():
    lines = read(failed_beside_one(OutcomeKind.KNOB_NOT_APPLIED)).passage()
    assert any(line.startswith("2 processes: not measured, boom") for line in lines)


def test_nothing_measured_is_said_with_the_command_again():
    run = with_figures(bare_run(status=RunStatus.INTERRUPTED), profile())
    assert read(run).answers == ("Nothing was measured.",)
    assert read(run).next_steps == ("tunekit scale --processes 1,2,4 -- python train.py",)


def test_the_page_draws_rates_beside_linear_fitted_and_predicted_and_the_parts_of_an_iteration():
    report = scaling_page(typical(), "reports/x", 160)
    rates, parts = (one for one in report.blocks if isinstance(one, Chart))
    assert [one.name for one in rates.series] == [
        "measured",
        "linear",
        "fitted law without waiting for data",
        "predicted from one",
    ]
    assert [one.basis for one in rates.series] == [Basis.MEASURED, *[Basis.PREDICTED] * 3]
    assert [point.x for point in rates.series[2].points] == [1, 2, 4, 8, 16]
    assert rates.x_places == (16, 8, 4, 2, 1)
    assert parts.y_title == "ms"
    assert parts.series[-1].points[0].text == f"{parts.series[-1].points[0].y:.0f} ms"
    total = sum(series.points[2].y for series in parts.series if series.mark == "bars")
    (totals,) = (one for one in parts.series if one.mark == "totals")
    assert total == pytest.approx(totals.points[2].y)


def test_a_page_of_nothing_has_no_charts():
    empty = with_figures(bare_run(), profile())
    assert [one for one in scaling_page(empty).blocks if isinstance(one, Chart)] == []
