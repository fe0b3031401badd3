"""The walk of a loop profile: one look, rounds that take turns, nothing lost."""

from pathlib import Path
from typing import Any

import pytest
from build_loops import CPU, parts
from build_records import config, failure
from read_report import Read
from scripted_profile import LookingExecutor, against, fix, walk_in
from scripted_search import RecordingListener, learnt

from tunekit.diagnose.loop import LoopFacts
from tunekit.errors import TargetError, UsageError
from tunekit.records.attribution import LoaderWork, WorkerWork
from tunekit.records.details import Detail
from tunekit.records.run import FixedKnob, ProfileOptions, RunStatus
from tunekit.records.trial import TrialRole
from tunekit.report.loop_profile import profile_report
from tunekit.session.folder import load_saved
from tunekit.units import count_text

LOOK = (Detail.QUEUE, Detail.SYNCS, Detail.PEAKS, Detail.FLOORS)
ON_CPU: dict[str, Any] = {"learns": lambda spec: learnt(config(), device_type="cpu")}


def started(executor: LookingExecutor) -> list[tuple[int | None, int | None]]:
    """Round and workers of every trial, in order; None is the script as it is."""
    return [(spec.round, spec.config.num_workers if spec.config else None) for spec in executor.specs]


def said(listener: RecordingListener) -> str:
    return "\n".join(listener.heard("said"))


# --- one config ----------------------------------------------------------------------------


def test_one_trial_looks_into_the_script_as_it_is(tmp_path: Path):
    whole, executor = walk_in(tmp_path)
    (spec,) = executor.specs
    assert (spec.role, spec.config, spec.details) == (TrialRole.BASELINE, None, LOOK)
    (own,) = whole.contenders
    assert (own.name, own.trials, own.factor) == ("as it is", (0,), None)
    assert whole.status is RunStatus.FINISHED
    assert load_saved(tmp_path) == whole


@pytest.mark.parametrize(("half", "is_bound"), [(0.01, True), (0.5, False)])
def test_findings_follow_the_verdict_that_the_rates_range_leaves(half: float, is_bound: bool, tmp_path: Path):
    waits = {"device": CPU, "parts": parts(wait=0.36), "rate_interval_relative": half}
    whole, _ = walk_in(tmp_path, executor_options={"measured": lambda knobs: waits})
    assert ("data-bound" in {one.code for one in whole.findings}) == is_bound
    verdict = "Data-bound, " if is_bound else "Inconclusive ("
    assert Read(profile_report(whole)).answers[0].startswith(verdict)


def test_rounds_add_fresh_processes_to_the_look(tmp_path: Path):
    whole, executor = walk_in(tmp_path, ProfileOptions(rounds=3))
    assert started(executor) == [(None, None), (1, None), (2, None)]
    assert [spec.details for spec in executor.specs] == [LOOK, (), ()]
    assert whole.contenders[0].trials == (0, 1, 2)
    assert whole.noise_floor is not None
    assert whole.noise_floor.processes == 3


def test_fixed_knobs_are_looked_into_after_the_loop_is_learnt(tmp_path: Path):
    whole, executor = walk_in(tmp_path, ProfileOptions(fixed=fix(num_workers=4)))
    assert started(executor) == [(None, None), (0, 4)]
    assert [spec.details for spec in executor.specs] == [(), LOOK]
    assert executor.specs[1].role is TrialRole.CONFIRM
    assert whole.contenders[0].name == "as it is, num_workers 4"
    assert whole.profiled_trial == whole.trials[1]


def test_a_fixed_value_that_can_not_be_set_is_refused_with_the_reason(tmp_path: Path):
    with pytest.raises(UsageError, match="no effect on cpu"):
        walk_in(tmp_path, ProfileOptions(fixed=fix(pin_memory=True)), executor_options=ON_CPU)
    assert load_saved(tmp_path).status is RunStatus.FAILED


def test_a_script_that_runs_out_of_memory_can_be_looked_into_with_a_smaller_batch(tmp_path: Path):
    too_large = {"failing": lambda knobs, spec: failure() if knobs.batch_size > 64 else None}
    whole, _ = walk_in(tmp_path, ProfileOptions(fixed=fix(batch_size=32)), executor_options=too_large)
    assert whole.profiled_trial is not None
    assert whole.profiled_trial.number == 1
    with pytest.raises(TargetError, match="device_oom"):
        walk_in(tmp_path / "as it is", executor_options=too_large)


def test_ctrl_c_keeps_every_finished_trial(tmp_path: Path):
    with pytest.raises(KeyboardInterrupt):
        walk_in(tmp_path, ProfileOptions(rounds=4), executor_options={"interrupt_at": 2})
    saved = load_saved(tmp_path)
    assert saved.status is RunStatus.INTERRUPTED
    assert [trial.number for trial in saved.trials] == [0, 1]
    assert saved.contenders[0].trials == (0, 1)


# --- against another -----------------------------------------------------------------------


def workers(count: int) -> Any:
    return against(lambda own: own.model_copy(update={"num_workers": count}))


def test_two_configs_take_turns_and_every_other_round_runs_backwards(tmp_path: Path):
    whole, executor = walk_in(tmp_path, ProfileOptions(rounds=3), workers(6))
    rounds = [(0, None), (0, 6), (1, 6), (1, None), (2, None), (2, 6)]
    assert started(executor) == [(None, None), *rounds]
    assert executor.specs[2].details == LOOK
    assert executor.specs[3].details == ()
    own, other = whole.contenders
    assert (own.trials, other.trials) == ((1, 4, 5), (2, 3, 6))
    assert other.name == "mine.yaml"


def test_the_same_config_is_said_and_looked_into_alone(tmp_path: Path):
    heard = RecordingListener()
    whole, executor = walk_in(tmp_path, ProfileOptions(against="mine.yaml"), workers(2), heard)
    assert "mine.yaml changes nothing: the config is that already" in said(heard)
    assert whole.status is RunStatus.FINISHED
    assert [one.name for one in whole.contenders] == ["as it is"]
    assert len(executor.specs) == 1
    answers = Read(profile_report(whole)).answers
    assert answers[1] == "mine.yaml changes nothing here."


# --- ablation and budget -------------------------------------------------------------------

ABLATE = ProfileOptions(ablate=True, rounds=2)


def test_an_ablation_tries_each_alone_then_adds_them_in_turn(tmp_path: Path):
    heard = RecordingListener()
    whole, executor = walk_in(tmp_path, ABLATE, listener=heard)
    assert whole.ablation is not None
    assert [step.name for step in whole.ablation.steps] == [
        "loader workers",
        "pin_memory",
        "tf32",
        "bf16",
        "channels_last",
        "compile",
    ]
    first_round = [spec for spec in executor.specs if spec.round == 0]
    assert len(first_round) == 1 + 6 + 5
    assert [len([s for s in executor.specs if s.round == number]) for number in (0, 1)] == [12, 12]
    assert "12 configs x 2 rounds: 24 trials at most, about 6m 00s (predicted)" in said(heard), (
        "24 of 10 s, and a minute for each of the two that compile first"
    )
    assert whole.ablation.steps[0].added is None
    assert whole.ablation.steps[-1].added is not None
    assert whole.ablation.steps[-1].added.factor == whole.ablation.together


def test_what_fails_by_itself_is_not_added_to(tmp_path: Path):
    breaks = {"failing": lambda knobs, spec: failure() if knobs.compile else None}
    whole, executor = walk_in(tmp_path, ABLATE, executor_options=breaks)
    assert whole.ablation is not None
    compiled = whole.ablation.steps[-1]
    assert compiled.alone.why_missing == "device_oom: CUDA out of memory"
    assert compiled.added is None
    assert sum(bool(spec.config and spec.config.compile) for spec in executor.specs) == 1
    assert whole.ablation.together == whole.ablation.steps[-2].added.factor


def test_what_fails_when_it_is_added_is_left_out_of_the_rest(tmp_path: Path):
    breaks = {
        "failing": lambda knobs, spec: failure() if knobs.pin_memory and knobs.num_workers == 4 else None
    }
    whole, _ = walk_in(tmp_path, ABLATE, executor_options=breaks)
    assert whole.ablation is not None
    pinned, tf32 = whole.ablation.steps[1:3]
    assert pinned.alone.rate_samples_per_s is not None
    assert pinned.added is not None
    assert pinned.added.rate_samples_per_s is None
    assert tf32.added is not None
    assert not tf32.added.config.pin_memory
    assert tf32.added.rate_samples_per_s is not None


@pytest.mark.parametrize(("budget_s", "done"), [(300.0, 2), (5.0, 1)])
def test_a_budget_runs_fewer_rounds_but_one_and_says_so(budget_s: float, done: int, tmp_path: Path):
    heard = RecordingListener()
    asked = ProfileOptions(ablate=True, rounds=3, budget_s=budget_s)
    _, executor = walk_in(tmp_path, asked, listener=heard)
    assert {spec.round for spec in executor.specs} == {None, *range(done)}
    assert f"ends after {count_text(done, 'round')} of 3" in said(heard)


def test_an_ablation_tries_the_workers_that_the_look_asks_for(tmp_path: Path):
    work = LoaderWork(workers=(WorkerWork(batches=100, time_s=100.0),), cpu_s=0.3)
    slow = {"measured": lambda knobs: {"loader_work": work}}
    whole, _ = walk_in(tmp_path, ProfileOptions(ablate=True, rounds=1), executor_options=slow)
    look = whole.profiled_trial
    assert look is not None and whole.ablation is not None
    suggested = LoopFacts(look, whole.target, whole.discovery, whole.rank_host, whole.profile).more_workers
    assert suggested not in (None, whole.rank_host.cpus // 2)
    assert whole.ablation.steps[0].changes[0] == FixedKnob(knob="num_workers", value=suggested)
