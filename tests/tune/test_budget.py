"""What a budget must hold, by whole searches of GPU jobs (gpu_jobs.py) on a scripted clock."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
from build_records import baseline_record, options
from gpu_jobs import GpuJob, gpu_jobs
from scripted_search import (
    RecordingListener,
    confirming,
    rounds_of_answer,
    search_context,
    search_in,
    searched,
)

from tunekit.recommend.knob_gains import knobs_put_back
from tunekit.recommend.recommendation import answer_of
from tunekit.records.details import Details
from tunekit.records.run import FixedKnob, Run
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.report.answer import answer_lead
from tunekit.report.run import method_lines
from tunekit.tune.budget import needed_s
from tunekit.tune.confirm import typical_duration_s
from tunekit.tune.space import build_space
from tunekit.units import typed_duration_text

JOBS = {job.name: job for job in gpu_jobs()}
USUAL, SLOW = "ResNet-50, ImageNet", pytest.mark.slow
OVERRUN = 1.05
"""The fewest rounds may overrun a budget a little, and processes differ."""


def search(
    folder: Path, job: GpuJob, budget_s: float | None, **asked: object
) -> tuple[Run, RecordingListener]:
    listener = RecordingListener()
    wanted = job.asked.model_copy(update={"budget_s": budget_s, **asked})
    whole, _ = search_in(
        folder / "run", wanted, listener, executor_options=job.executor_options, host=job.machine
    )
    return whole, listener


def plain_trial_s(whole: Run) -> float:
    """The mean of the baseline's confirming processes: a trial that looks at nothing else."""
    again = [one.duration_s for one in confirming(whole.trials) if one.is_baseline_config]
    return sum(again) / len(again)


def gain_within(job: GpuJob, whole: Run, trial_times: float) -> float:
    """The share of the reachable gain of the best that was tried within so many plain trials."""
    best, left_s = job.best_rate(whole.space), trial_times * plain_trial_s(whole)
    shares = [0.0]
    for record in whole.trials:
        left_s -= record.duration_s
        if left_s >= 0 and record in searched(whole.trials) and record.measurement:
            shares.append(job.gain_share(record, best))
    return max(shares)


@pytest.mark.parametrize("name", [USUAL, *(pytest.param(name, marks=SLOW) for name in JOBS if name != USUAL)])
def test_without_a_budget_a_job_gets_its_trials_and_its_rounds_or_is_told_what_it_needs(
    name: str, tmp_path: Path
):
    job = JOBS[name]
    whole, listener = search(tmp_path, job, None)
    assert whole.budget_s is not None and whole.budget_s >= 900
    assert listener.heard("said")[0].startswith("budget ") and "--budget TIME" in listener.heard("said")[0]
    tried = [record for record in searched(whole.trials) if record.measurement]
    assert (len(tried) >= 6 and rounds_of_answer(whole) >= 3) or "need --budget" in (whole.cut_short or "")
    assert gain_within(job, whole, 20) >= 0.9
    assert whole.search_time_s <= OVERRUN * whole.budget_s


@pytest.mark.parametrize("name", ["U-Net", pytest.param("diffusion fine-tune", marks=SLOW)])
def test_a_budget_that_is_given_is_kept_and_what_it_can_not_hold_is_said(name: str, tmp_path: Path):
    whole, listener = search(tmp_path, JOBS[name], 480.0)
    assert whole.budget_s == 480.0
    assert whole.search_time_s <= OVERRUN * 480
    assert whole.cut_short is not None
    assert "need --budget" in whole.cut_short
    assert listener.heard("said") == [whole.cut_short]
    assert any(whole.cut_short in line for line in method_lines(whole))


def test_what_the_fewest_rounds_of_would_overrun_the_budget_is_not_confirmed_but_told(tmp_path: Path):
    """Compile wins by far, but three rounds of it take most of the budget again."""
    whole, _ = search(tmp_path, JOBS["U-Net"], 900.0)
    fastest = max(searched(whole.trials), key=lambda record: record.rate_samples_per_s or 0.0)
    assert fastest.config is not None and fastest.config.compile
    assert f"trial {fastest.number}, " in (whole.cut_short or "")
    assert "was not confirmed" in (whole.cut_short or "")
    answer = answer_of(whole.recommendations)
    assert answer is not None and not answer.config.compile
    assert rounds_of_answer(whole) >= 3
    assert whole.search_time_s <= OVERRUN * 900


def test_a_budget_without_room_for_a_trial_and_its_rounds_ends_in_time_and_says_so(tmp_path: Path):
    whole, listener = search(tmp_path, JOBS["7B LoRA"], 480.0)
    assert not searched(whole.trials)
    assert whole.search_time_s <= 480
    assert whole.cut_short is not None and listener.heard("said") == [whole.cut_short]
    assert whole.cut_short in answer_lead(whole, answer_of(whole.recommendations)).sentence


@pytest.mark.parametrize("budget_s", [60.0, 90.0])
def test_what_a_budget_had_room_for_is_said_once(budget_s: float, tmp_path: Path):
    listener = RecordingListener()
    whole, _ = search_in(tmp_path / "run", options(budget_s=budget_s), listener)
    (told,) = listener.heard("said")
    trials, rounds = len(searched(whole.trials)), rounds_of_answer(whole)
    assert re.findall(r"had time for (\d+) search trials? and (\d+) confirming", told) == [
        (str(trials), str(rounds))
    ]
    assert whole.cut_short == told
    assert told.endswith(f"--budget {typed_duration_text(whole.longer_budget_s or 0.0)}")


@pytest.mark.parametrize(
    ("most", "budget_s", "says"), [(1, 60.0, 0), (2, 80.0, 0), (2, 60.0, 1), (4, 80.0, 1)]
)
def test_what_trials_leaves_out_is_not_the_budgets(most: int, budget_s: float, says: int, tmp_path: Path):
    listener = RecordingListener()
    whole, _ = search_in(tmp_path / "run", options(budget_s=budget_s, max_trials=most), listener)
    assert (len(listener.heard("said")), whole.cut_short is not None) == (says, bool(says))
    assert all(f"the full {most - 1} + 5 need --budget" in said for said in listener.heard("said"))


# --- an ablation ---------------------------------------------------------------------------


def ablated(folder: Path, budget_s: float, **asked: Any) -> tuple[Run, RecordingListener]:
    listener = RecordingListener()
    whole, _ = search_in(folder / "run", options(budget_s=budget_s, ablate=True, **asked), listener)
    return whole, listener


def ablation_rounds(whole: Run) -> int:
    return len({record.round for record in whole.trials if record.role is TrialRole.ABLATION})


def test_an_ablation_has_its_time_in_the_budget_beside_the_fewest_rounds(tmp_path: Path):
    """Without it, trials and rounds fill 7 of these 9 minutes."""
    whole, _ = ablated(tmp_path, 540.0)
    assert (rounds_of_answer(whole), ablation_rounds(whole), whole.cut_short) == (3, 3, None)
    assert whole.search_time_s <= 540
    answer = answer_of(whole.recommendations)
    assert answer is not None and whole.baseline_config is not None
    assert {one.knob for one in whole.knob_gains} == set(knobs_put_back(answer.config, whole.baseline_config))


def test_the_new_answer_of_a_resumed_search_is_ablated_too(tmp_path: Path):
    before, _ = ablated(tmp_path, 540.0, max_trials=4)
    whole, _ = ablated(tmp_path, 1500.0)
    old, new = (answer_of(one.recommendations) for one in (before, whole))
    assert old and new and old.config != new.config
    assert before.knob_gains and whole.knob_gains


@pytest.mark.parametrize(("budget_s", "rounds"), [(290.0, 1)])
def test_an_ablation_that_is_left_out_for_want_of_time_is_said_and_kept_in_the_run(
    budget_s: float, rounds: int, tmp_path: Path
):
    whole, listener = ablated(tmp_path, budget_s)
    assert (rounds_of_answer(whole), ablation_rounds(whole)) == (3, rounds)
    assert whole.search_time_s <= budget_s
    assert whole.cut_short is not None
    assert (
        f"(--ablate got {rounds} of 3 rounds); the full 12 + 5 with --ablate need --budget" in whole.cut_short
    )
    assert listener.heard("said")[-1] == whole.cut_short
    assert any(whole.cut_short in line for line in method_lines(whole))


# --- what it is worked out from ------------------------------------------------------------


def looked(record: TrialRecord, **durations: float) -> TrialRecord:
    """The trial with a look at details behind its measurement."""
    assert record.measurement is not None
    measured = record.measurement.model_copy(update={"details": Details()})
    return record.model_copy(update={"measurement": measured, **durations})


def test_what_the_baseline_looked_at_is_no_part_of_what_its_next_process_takes():
    first = looked(
        baseline_record(
            startup_s=30.0, first_batch_s=1.0, first_step_s=2.0, recompile_s=7.0, discarded_batches=10
        ),
        duration_s=90.0,
    )
    assert first.measurement is not None
    step_s = first.measurement.loop.step_time_s
    assert typical_duration_s([first], None) == pytest.approx(40 + (2 * 10 + 100) * step_s)
    assert typical_duration_s([looked(first, duration_s=20.0)], None) == 20.0


@pytest.mark.parametrize("rounds", [3, 5])
def test_a_whole_search_needs_more_where_compile_is_searched_and_more_rounds_are_asked(rounds: int):
    records = [baseline_record()]
    needed = {}
    for compiles in (True, False):
        fixed = () if compiles else (FixedKnob(knob="compile", value=False),)
        asked = options(confirm_rounds=rounds, fixed=fixed)
        needed[compiles] = needed_s(records, build_space(search_context(), asked), asked)
        more = asked.model_copy(update={"confirm_rounds": rounds + 1})
        assert needed_s(records, build_space(search_context(), more), more) > needed[compiles]
    assert needed[False] < needed[True]
    trial_s = records[0].duration_s
    assert needed[False] == 60 * math.ceil((1 + 12 + 2 + 3 * rounds) * trial_s / 60)
