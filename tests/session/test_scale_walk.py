"""The walk of `tunekit scale`: rounds of every count in turns, all of it on disk."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from build_records import config, failure, profile
from build_scaling import ScalingExecutor, Step, bare_run, scaling_trial
from scripted_search import RecordingListener

from tunekit.errors import TargetError
from tunekit.records.run import RunStatus
from tunekit.records.scaling import ScalingMode
from tunekit.records.scaling_run import ScaleOptions, ScalingRun
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord, TrialRole
from tunekit.session.folder import RunFolder, load_saved
from tunekit.session.scale import ScaleWalk
from tunekit.trial.executor import KnownTarget, ProgressCallback, TrialInterrupted, TrialSpec


def walk_in(
    path: Path,
    step: Step | None = None,
    options: ScaleOptions | None = None,
    fails: Callable[[TrialSpec], Failure | BaseException | None] = lambda spec: None,
    listener: RecordingListener | None = None,
    **others: Any,
) -> tuple[ScalingRun, "KnowingExecutor"]:
    asked = options or ScaleOptions(processes=(1, 2, 4), rounds=2)
    with RunFolder(path) as folder:
        executor = KnowingExecutor(step, fails=fails, **others)
        run = bare_run(options=asked, mode=asked.mode)
        heard = listener or RecordingListener()
        walk = ScaleWalk(run, folder, executor, profile(), heard, clock=executor.clock)
        return walk.run(), executor


class KnowingExecutor(ScalingExecutor):
    """Keeps what each trial was told of the target."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.known: list[KnownTarget | None] = []

    def run(self, spec: TrialSpec, known: KnownTarget | None, on_progress: ProgressCallback) -> TrialRecord:
        self.known.append(known)
        return super().run(spec, known, on_progress)


def turns(executor: ScalingExecutor) -> list[tuple[int, bool]]:
    return [(one.processes or 0, one.no_sync) for one in executor.specs]


def test_every_count_takes_its_turn_in_each_round_and_every_other_round_runs_backwards(tmp_path: Path):
    run, executor = walk_in(tmp_path)
    forward = [(1, False), (2, False), (2, True), (4, False), (4, True)]
    assert turns(executor) == [*forward, *reversed(forward)]
    assert [one.round for one in executor.specs] == [0] * 5 + [1] * 5
    assert executor.specs[0].role is TrialRole.BASELINE
    assert {one.config for one in executor.specs} == {None}
    assert run.status is RunStatus.FINISHED
    assert [one.processes for one in run.measured] == [1, 2, 4]
    assert load_saved(tmp_path) == run


def test_strong_scaling_shares_the_scripts_own_batch_out(tmp_path: Path):
    options = ScaleOptions(processes=(1, 2, 4), rounds=1, mode=ScalingMode.STRONG)
    run, executor = walk_in(tmp_path, options=options)
    batches = [one.config.batch_size if one.config else None for one in executor.specs]
    assert batches == [None, None, 64, 64, None, 32, 32]
    assert [one.round for one in executor.specs if one.config is None] == [0, None, None]
    assert run.mode is ScalingMode.STRONG
    assert [one.global_batch for one in run.measured] == [128, 128, 128]


def test_each_count_learns_its_own_loader_as_frameworks_build_another_for_several_processes(tmp_path: Path):
    _, executor = walk_in(tmp_path / "weak")
    assert set(executor.known) == {None}
    options = ScaleOptions(processes=(1, 2), rounds=1, mode=ScalingMode.STRONG)
    _, executor = walk_in(tmp_path / "strong", options=options)
    assert [known is None for known in executor.known] == [True, True, False, False]


def test_a_count_that_the_global_batch_can_not_be_shared_by_is_left_out(tmp_path: Path):
    options = ScaleOptions(processes=(1, 2, 3), rounds=1, mode=ScalingMode.STRONG)
    listener = RecordingListener()
    run, executor = walk_in(tmp_path, options=options, listener=listener)
    assert [one.processes for one in executor.specs] == [1, 2, 2, 2, 3]
    assert run.counts[2].why_missing == "a global batch of 128 can't be shared by 3"
    assert load_saved(tmp_path) == run
    assert any("128 can't be shared by 3" in line for line in listener.heard("said"))


def out_of_memory_on(processes: int) -> Callable[[TrialSpec], Failure | None]:
    return lambda spec: failure() if spec.processes == processes else None


def test_a_count_that_fails_is_left_out_of_later_rounds_and_says_why(tmp_path: Path):
    run, executor = walk_in(tmp_path, fails=out_of_memory_on(4))
    assert [one.processes for one in executor.specs].count(4) == 1
    assert [one.processes for one in run.measured] == [1, 2]
    assert run.counts[2].why_missing == "device_oom: CUDA out of memory"
    assert run.status is RunStatus.FINISHED


def test_gradients_that_must_be_summed_leave_the_split_open(tmp_path: Path):
    refused = failure(OutcomeKind.KNOB_NOT_APPLIED, message="no DistributedDataParallel was built")
    run, executor = walk_in(tmp_path, fails=lambda spec: refused if spec.no_sync else None)
    assert [no_sync for _, no_sync in turns(executor)].count(True) == 2
    assert [one.step.exposed_s if one.step else 0 for one in run.measured] == [None, None, None]


def test_processes_that_do_not_train_together_end_it_at_once(tmp_path: Path):
    alone = failure(OutcomeKind.KNOB_NOT_APPLIED, message="no process group: each of 2 trains alone")
    with pytest.raises(TargetError, match="each of 2 trains alone"):
        walk_in(tmp_path, fails=lambda spec: alone if spec.processes == 2 else None)
    saved = load_saved(tmp_path)
    assert saved.status is RunStatus.FAILED
    assert [one.processes for one in saved.trials] == [1, 2]


def test_a_scaling_without_a_second_count_is_an_error(tmp_path: Path):
    options = ScaleOptions(processes=(1, 2), rounds=2)
    with pytest.raises(TargetError, match="only 1 process could be measured"):
        walk_in(tmp_path, options=options, fails=out_of_memory_on(2))


@pytest.mark.parametrize("kind", [OutcomeKind.SCRIPT_ERROR, OutcomeKind.HANG])
def test_with_nothing_left_to_compare_no_further_round_is_run(tmp_path: Path, kind: OutcomeKind):
    options = ScaleOptions(processes=(1, 2, 4), rounds=3)
    lost = failure(kind, message="boom")
    listener = RecordingListener()
    with pytest.raises(TargetError, match="boom"):
        walk_in(
            tmp_path,
            options=options,
            listener=listener,
            fails=lambda spec: lost if (spec.processes or 0) > 1 else None,
        )
    saved = load_saved(tmp_path)
    assert [one.processes for one in saved.trials] == [1, 2, 4]
    assert [one.processes for one in saved.measured] == [1]
    assert saved.status is RunStatus.FAILED
    assert not any("more round" in line for line in listener.heard("said"))


def test_what_was_measured_before_ctrl_c_is_kept_with_its_figures(tmp_path: Path):
    def interrupted(spec: TrialSpec) -> BaseException | None:
        if spec.number < 3:
            return None
        return TrialInterrupted(scaling_trial(3, 4))

    with pytest.raises(KeyboardInterrupt):
        walk_in(tmp_path, fails=interrupted)
    saved = load_saved(tmp_path)
    assert saved.status is RunStatus.INTERRUPTED
    assert [one.processes for one in saved.measured] == [1, 2, 4]
    assert len(saved.trials) == 4


@pytest.mark.parametrize(("budget_s", "rounds"), [(99.0, 1), (250.0, 2), (None, 3)])
def test_a_budget_leaves_out_rounds_that_would_end_after_it(
    tmp_path: Path, budget_s: float | None, rounds: int
):
    options, listener = ScaleOptions(processes=(1, 2, 4), rounds=3, budget_s=budget_s), RecordingListener()
    run, _ = walk_in(tmp_path, options=options, listener=listener)
    assert {len(one.trials) for one in run.measured} == {rounds}
    assert any("ends after" in line for line in listener.heard("said")) is (rounds < 3)


def test_the_script_that_keeps_the_global_batch_itself_is_strong_scaling(tmp_path: Path):
    with RunFolder(tmp_path) as folder:
        executor = ScalingExecutor()
        run = executor.run

        def shared(spec: TrialSpec, known: Any, on_progress: Any) -> Any:
            executor.own = config(batch_size=128 // (spec.processes or 1))
            return run(spec, known, on_progress)

        executor.run = shared  # type: ignore[method-assign]
        asked = ScaleOptions(processes=(1, 2, 4), rounds=1)
        walk = ScaleWalk(
            bare_run(options=asked), folder, executor, profile(), RecordingListener(), clock=executor.clock
        )
        found = walk.run()
    assert found.mode is ScalingMode.STRONG
    assert "global-batch-kept" in {one.code for one in found.findings}
