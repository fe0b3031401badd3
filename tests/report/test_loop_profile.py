"""The screen of a loop profile: every figure from the record, whole at 80 and 120 columns."""

from pathlib import Path

import pytest
from build_loop_profiles import BATCH, DETAILS, looked_into, profiled
from build_loops import floors, measured, threads
from build_records import failure, loop, target, trial_record
from read_report import Read
from read_report import drawn as drawn_blocks
from scripted_profile import against, fix, loop_profile, walk_in

from tunekit.records.attribution import LeafSeen
from tunekit.records.details import Details
from tunekit.records.interval import Interval
from tunekit.records.run import AblationStep, LoopProfile, ProfileOptions, RunStatus
from tunekit.report.blocks import Passage
from tunekit.report.loop_memory import batch_lines, leaf_text
from tunekit.report.loop_profile import profile_report
from tunekit.report.loop_time import step_blocks, step_text
from tunekit.session.ablation import contender
from tunekit.trial.binding_syntax import parse_binding

AT_80 = """
Data-bound: 36% of step time is data wait, 17.0 ms of 47.0 ms per batch
(measured). 5,010 samples/s (4,960 to 5,060), 19.6 it/s (19.4 to 19.8), of one
process; --rounds 5 shows how processes differ.
What would help most: give the loader more workers (at most 1.60x, predicted).

The config
batch 256, workers 2 x prefetch 2, fp32, persistent

Step time (measured)
part                  per batch  of the step  source
data wait               17.0 ms          36%  host clock
compute                 26.0 ms          55%  host clock
optimizer               3.50 ms           7%  host clock
other                   0.50 ms           1%  host clock
  copy to the device    5.00 ms          11%  torch.profiler, 4 batches
  device idle           22.0 ms          47%  torch.profiler, 4 batches
step                    47.0 ms               100 batches
Loader alone 41.0 ms, training alone 30.0 ms, both 47.0 ms (measured): between
  the longer and the sum

warning waits-for-loader: the loop waits for its loader
  seen: data wait 17.0 ms of 47.0 ms per step
  do: give the loader more workers
  gain: at most 1.60x (predicted)

Before the steady loop (measured)
start-up, to the first batch asked for     2.0 s
first batch                               100 ms
first step                                 1.0 s
each epoch boundary, beyond steady steps  800 ms
one epoch                                 10.0 s

Memory
Batch of 256 samples: 154,142,720 B (measured), 1 smaller part not shown
  [0]: 256 x 3 x 224 x 224 x 4 = 154,140,672 B (float32)
A worker hands it over in 154,144,768 B of /dev/shm (measured), 90 B more
  through a pipe
RAM buffer: 2 workers x prefetch 2 x 147.0 MiB = 588.0 MiB (predicted)
/dev/shm with the queue full: 735.0 MiB (measured), 735.0 MiB for 5 batches
  (predicted)
RAM: training process 2.0 GiB with what workers share, each worker 300.0 MiB of
  its own, without buffer; process tree 3.3 GiB at most (PSS, measured)

RAM buffer by workers and prefetch (predicted)
workers      prefetch 1       prefetch 2      prefetch 4     prefetch 8
      1  147.0 MiB Safe   294.0 MiB Safe  588.0 MiB Safe   1.1 GiB Safe
      2  294.0 MiB Safe  *588.0 MiB Safe    1.1 GiB Safe   2.3 GiB Safe
      4  588.0 MiB Safe     1.1 GiB Safe    2.3 GiB Safe   4.6 GiB Safe
      8    1.1 GiB Safe     2.3 GiB Safe    4.6 GiB Safe  9.2 GiB Risky
     16    2.3 GiB Safe     4.6 GiB Safe   9.2 GiB Risky   18.4 GiB OOM
8 x 8: Risky, buffer 9.2 GiB (predicted) exceeds 20% of the RAM limit (6.4 GiB)
16 x 8: OOM, the loader's queue needs 18.5 GiB of /dev/shm (predicted), which
  has 16.0 GiB
Base: 2.7 GiB + 300.0 MiB per worker (measured); this host: 32.0 GiB RAM, 16.0
  GiB /dev/shm free; * is the present setting

Device memory (measured)
peak allocated 4.0 GiB, reserved 5.0 GiB of 22.0 GiB; by purpose n/a

System during training (measured)
2.4 CPU cores of 8, 12.3 MB/s from disk, page-cache hits 90%, over 4.5 s of the
  steady window
GPU 0: busy 63%, power 141 W, memory 6.0 GiB

Traced kernels, the longest (measured under torch.profiler)
kernel                                                calls  per batch
void cutlass_80_tensorop_s1688gemm_128x128_32x3_n...    160    12.5 ms
elementwise_kernel                                    1,200    2.50 ms
device busy 25.0 ms, host to device 5.00 ms, device to host 0.10 ms, idle 35.0
  ms per batch; 4 traced batches, 60.0 ms each: tracing slows them

Sync points (measured)
  train.py:42: aten::item, 1 per batch

Measured on a10g in 1 trial, 21.0 s: rates over whole epochs, 95% intervals;
time and memory are of trial 0.

Next
  tunekit profile --ablate -- python train.py
  tunekit search -- python train.py
  tunekit report reports/train-profile  (this again)
"""


def loop_profile_view(shown: LoopProfile, folder: str = "FOLDER") -> Read:
    return Read(profile_report(shown, folder))


def drawn(shown: LoopProfile, width: int = 80) -> str:
    return drawn_blocks(profile_report(shown, "reports/train-profile", width).blocks, width)


def ablated(folder: Path, **more: object) -> LoopProfile:
    return walk_in(folder, ProfileOptions(ablate=True, rounds=3), **more)[0]


def compared(folder: Path) -> LoopProfile:
    beside = against(lambda own: own.model_copy(update={"num_workers": 6}))
    return walk_in(folder, ProfileOptions(rounds=3), beside)[0]


def test_a_loop_profile_at_80_columns():
    assert drawn(profiled()) == AT_80


@pytest.mark.parametrize("width", [80, 120, 200])
def test_no_line_is_wider_than_the_terminal_nor_ends_in_spaces(width: int, tmp_path: Path):
    for shown in (profiled(), ablated(tmp_path / "a"), compared(tmp_path / "b")):
        for line in drawn(shown, width).splitlines():
            assert len(line) <= width
            assert line == line.rstrip()


def test_what_holds_the_loop_back_and_the_rate_of_one_process_come_first():
    first = loop_profile_view(profiled()).answers[0]
    assert first.startswith(
        "Data-bound: 36% of step time is data wait, 17.0 ms of 47.0 ms per batch (measured)."
    )
    assert "of one process; --rounds 5 shows how processes differ." in first


def test_the_threads_that_computed_stand_with_what_set_them():
    of = profiled(trials=(looked_into(threads=threads(2, OMP_NUM_THREADS="2")),))
    assert "\nCPU threads: 2 intra-op, 2 inter-op (OMP_NUM_THREADS=2)\n" in drawn(of)


def test_a_rate_without_an_interval_says_so():
    record = looked_into(rate_interval_relative=None)
    assert record.config is not None
    alone = contender("as it is", record.config, (record,))
    first = loop_profile_view(profiled(trials=(record,), contenders=(alone,))).answers[0]
    assert "of one process, its interval n/a; --rounds 5" in first


def test_a_range_that_may_be_anything_is_no_verdict_and_says_what_would_settle_it():
    record = looked_into(rate_interval_relative=0.97)
    assert record.config is not None
    alone = contender("as it is", record.config, (record,))
    first, second = loop_profile_view(profiled(trials=(record,), contenders=(alone,))).answers
    assert first.startswith("Inconclusive: the rate is too uncertain for a verdict, 36% of step time is")
    assert second == "What would settle it: a quiet machine, a longer --window 30, and --rounds 5."


def test_what_helps_most_is_a_prediction_that_says_so():
    assert loop_profile_view(profiled()).answers[1] == (
        "What would help most: give the loader more workers (at most 1.60x, predicted)."
    )


def test_a_measured_optimisation_is_named_before_any_prediction(tmp_path: Path):
    shown = loop_profile_view(ablated(tmp_path).model_copy(update={"findings": profiled().findings}))
    assert shown.answers[1].startswith("What helps most (measured): bf16, 1.5")


def test_nothing_measured_is_said_and_nothing_is_guessed():
    broken = trial_record(0, None, overrides={"failure": failure()})
    shown = drawn(loop_profile(status=RunStatus.FAILED, trials=(broken,)))
    assert "Nothing was measured: 1 trial, 1 of them failed (status: failed)." in shown
    assert "note: trial 0 failed, device_oom: CUDA out of memory" in shown
    assert "Step time" not in shown


def test_what_was_not_looked_at_is_not_available_with_its_reason():
    record = looked_into(batch=None)
    assert record.measurement is not None
    bare = record.measurement.model_copy(update={"details": Details(faults=("floors: the loop ended",))})
    shown = drawn(profiled(trials=(record.model_copy(update={"measurement": bare, "telemetry": None}),)))
    assert "Loader alone and training alone: n/a, they were not looked at" in shown
    assert "its parts n/a" in shown
    assert "with the queue held full n/a" in shown
    assert "what more workers would take is n/a and left out" in " ".join(shown.split())
    assert "note: not seen: floors: the loop ended" in shown
    assert "Traced kernels" not in shown


def test_a_missing_half_says_why():
    floors = Details(floors={"why_not": "the loader is an iterator"})
    record = looked_into()
    assert record.measurement is not None
    seen = record.measurement.model_copy(update={"details": floors})
    shown = drawn(profiled(trials=(record.model_copy(update={"measurement": seen}),)))
    assert "Loader alone and training alone: n/a, the loader is an iterator" in shown


@pytest.mark.parametrize(
    ("of", "judged"),
    [
        (floors(0.01, 0.008), "slow each other down"),
        (floors(0.06, 0.038), "slower than the sum by less than the noise of 5%"),
        (floors(0.06, 0.05), "between the longer and the sum"),
        (floors(0.102, 0.05), "faster than the longer by less than the noise of 5%"),
        (floors(0.12, 0.05), "the training alone was slower"),
    ],
)
def test_the_halves_are_set_beside_the_loop(of: Details, judged: str):
    _, told = step_blocks(measured(of))
    assert isinstance(told, Passage)
    assert judged in told.lines[0]


def test_a_leaf_is_written_as_its_formula():
    assert leaf_text(BATCH.leaves[0]) == "[0]: 256 x 3 x 224 x 224 x 4 = 154,140,672 B (float32)"
    odd = LeafSeen(path="['text']", kind="text", bytes=7)
    assert leaf_text(odd) == "['text']: 7 B (text)"
    empty = LeafSeen(path="", kind="tensor", dtype="int64", shape=(0, 3), bytes=0)
    assert leaf_text(empty) == "batch: 0 B (int64)"


def test_leaves_that_hardly_count_are_counted_only():
    lines = batch_lines(loop(batch=BATCH, batch_bytes=BATCH.total_bytes))
    assert lines[0] == "Batch of 256 samples: 154,142,720 B (measured), 1 smaller part not shown"
    assert len([line for line in lines if line.startswith("  ")]) == 1


def test_the_present_setting_is_marked():
    text = drawn(profiled())
    (row,) = [line for line in text.splitlines() if line.lstrip().startswith("2  ") and "*" in line]
    assert "*588.0 MiB Safe" in row


def test_two_configs_stand_side_by_side(tmp_path: Path):
    shown = drawn(compared(tmp_path))
    assert "as it is" in shown
    assert "mine.yaml" in shown
    (rate,) = [line for line in shown.splitlines() if line.startswith("factor")]
    assert "1.5" in rate
    assert any(line.strip() == "faster" for line in shown.splitlines())
    (workers,) = [line for line in shown.splitlines() if line.startswith("num_workers")]
    assert workers.split() == ["num_workers", "2", "6"]


def test_an_ablation_says_that_factors_do_not_multiply(tmp_path: Path):
    shown = " ".join(drawn(ablated(tmp_path), 120).split())
    assert "no gain by itself: pin_memory inconclusive by itself: channels_last" in shown
    assert "the factors by themselves multiply to" in shown
    assert "loader workers: num_workers 4" in shown


def test_an_ablation_keeps_the_reason_of_what_failed(tmp_path: Path):
    breaks = {"failing": lambda knobs, spec: failure() if knobs.compile else None}
    shown = drawn(ablated(tmp_path, executor_options=breaks))
    (row,) = [line for line in shown.splitlines() if line.startswith("compile  ")]
    assert row.split()[:4] == ["compile", "failed", "not", "added"]
    assert "compile: device_oom: CUDA out of memory" in shown


@pytest.mark.parametrize(
    ("step_s", "text"), [(0.00089, "0.89 ms"), (0.0413, "41.3 ms"), (0.09996, "100 ms"), (2.5, "2,500 ms")]
)
def test_a_step_is_told_with_three_digits(step_s: float, text: str):
    assert step_text(step_s) == text


def test_details_of_a_gpu_are_all_there():
    assert DETAILS.kernels is not None
    shown = drawn(profiled(), 120)
    for text in ("cutlass", "device busy 25.0 ms", "idle 35.0 ms", "train.py:42: aten::item"):
        assert text in shown


# --- what was compared, and what comes next ------------------------------------------------


def unchanged(step: AblationStep) -> AblationStep:
    within = Interval(value=1.02, low=0.78, high=1.3)
    return step.model_copy(update={"alone": step.alone.model_copy(update={"factor": within})})


def test_optimisations_within_the_noise_are_said_to_bring_nothing(tmp_path: Path):
    whole = ablated(tmp_path)
    assert whole.ablation is not None
    nothing = whole.ablation.model_copy(
        update={
            "steps": tuple(unchanged(step) for step in whole.ablation.steps),
            "together": Interval(value=1.45, low=0.78, high=2.69),
        }
    )
    shown = whole.model_copy(update={"ablation": nothing, "findings": profiled().findings})
    assert loop_profile_view(shown).answers[1] == (
        "No optimisation brings more than the noise here (measured)."
    )
    told = " ".join(drawn(shown).split())
    assert "All together 1.45x (0.78 to 2.69), inconclusive (measured);" in told


def test_what_only_helps_together_is_said(tmp_path: Path):
    whole = ablated(tmp_path)
    assert whole.ablation is not None
    steps = tuple(unchanged(step) for step in whole.ablation.steps)
    only_all = whole.ablation.model_copy(
        update={"steps": steps, "together": Interval(value=1.4, low=1.3, high=1.5)}
    )
    assert loop_profile_view(whole.model_copy(update={"ablation": only_all})).answers[1] == (
        "No optimisation by itself brings more than the noise here, "
        "all together 1.40x (1.30 to 1.50) (measured)."
    )


def test_a_comparison_stands_right_below_the_answer(tmp_path: Path):
    for shown, title in (
        (compared(tmp_path / "a"), "Compared (measured"),
        (ablated(tmp_path / "b"), "What each optimisation brings"),
    ):
        text = drawn(shown, 120)
        assert text.index(title) < text.index("The config\n")


def test_ranges_that_say_nothing_leave_room_for_two_configs(tmp_path: Path):
    whole = compared(tmp_path)
    wide = Interval(value=131.0, low=0.1, high=4000.0)
    contenders = tuple(one.model_copy(update={"rate_samples_per_s": wide}) for one in whole.contenders)
    text = drawn(whole.model_copy(update={"contenders": contenders}))
    assert "131 (too wide)" in text
    assert max(len(line) for line in text.splitlines()) <= 80


def test_commands_keep_what_reaches_the_script():
    bound = target(
        bindings=(parse_binding("num_workers=--workers {}"), parse_binding("batch_size=env:BS")),
        samples_per_step=32,
    )
    asked = ProfileOptions(gpu="cpu", fixed=fix(num_workers=1, pin_memory=True))
    kept = (
        "--bind 'num_workers=--workers {}' --bind batch_size=env:BS --samples-per-step 32 -- python train.py"
    )
    assert loop_profile_view(profiled(target=bound, options=asked), "my runs/a").next_steps == (
        f"tunekit profile --ablate --gpu cpu --fix num_workers=1 --fix pin_memory=true {kept}",
        f"tunekit search --gpu cpu {kept}",
        "tunekit report 'my runs/a'  (this again)",
    )


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (
            RunStatus.INTERRUPTED,
            "Nothing was measured yet: it was interrupted before the first trial ended.",
        ),
        (RunStatus.RUNNING, "Nothing was measured yet: no trial has ended (status: running)."),
    ],
)
def test_without_a_trial_the_same_profile_comes_next(status: RunStatus, told: str):
    asked = ProfileOptions(rounds=2, against="a b.yaml", budget_s=90.0, kernels=True)
    shown = loop_profile_view(loop_profile(status=status, options=asked))
    assert shown.answers == (told,)
    assert shown.quiet == ()
    assert shown.next_steps == (
        "tunekit profile --against 'a b.yaml' --rounds 2 --budget 90s --trace-kernels -- python train.py",
    )


def test_after_a_failure_no_search_is_suggested_and_no_rates_are_spoken_of():
    broken = trial_record(0, None, overrides={"failure": failure()})
    shown = drawn(loop_profile(status=RunStatus.FAILED, trials=(broken,)))
    assert "intervals" not in shown
    assert shown.endswith("Next\n  tunekit profile -- python train.py\n")
