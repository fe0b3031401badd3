"""The walk of `tunekit fits`: one traced trial, then a prediction, all of it on disk."""

from pathlib import Path
from typing import Any

import build_fits
import pytest
from build_fits import A10G, K80, T4, fits_run, traced_trial
from build_records import baseline_record, failure, profile, trial_record
from scripted_search import RecordingListener

from tunekit.errors import TargetError
from tunekit.records.agent_messages import Arithmetic
from tunekit.records.config import Precision
from tunekit.records.details import Detail
from tunekit.records.profile import Profile
from tunekit.records.run import BatchFit, FitsOptions, FitsRun, RunStatus
from tunekit.records.trial import OutcomeKind, TrialRecord
from tunekit.session.fits import FitsWalk
from tunekit.session.folder import RunFolder, load_saved
from tunekit.session.predicted import Outside
from tunekit.trial.executor import KnownTarget, ProgressCallback, TrialInterrupted, TrialSpec


class TracingExecutor:
    """Gives a trial with traces, as a script's agent would leave them; or raises what it is given."""

    def __init__(
        self,
        folder: RunFolder,
        instead: TrialRecord | BaseException | None,
        first: TrialRecord | None = None,
        **traced: Any,
    ) -> None:
        self.folder, self.instead, self.first, self.traced = folder, instead, first, traced
        self.interrupts = traced.pop("interrupts", False)
        self.specs: list[TrialSpec] = []

    def run(self, spec: TrialSpec, known: KnownTarget | None, on_progress: ProgressCallback) -> TrialRecord:
        self.specs.append(spec)
        if isinstance(self.instead, BaseException):
            raise self.instead
        if self.first is not None and spec.number == 0:
            return self.first
        if self.interrupts:
            raise TrialInterrupted(traced_trial(self.folder.trials_folder, **self.traced))
        made = self.instead or traced_trial(self.folder.trials_folder, **self.traced)
        if spec.number != made.number:  # the traces go where the walk looks for them
            folder = self.folder.trials_folder
            (folder / "0000").rename(folder / f"{spec.number:04d}")
        return made.model_copy(update={"number": spec.number})


def walk_in(
    path: Path,
    profiles: tuple[Profile, ...] = (K80, T4, A10G),
    instead: TrialRecord | BaseException | None = None,
    options: FitsOptions | None = None,
    here: Profile | None = None,
    outside: Outside = lambda profile: build_fits.outside(),
    **traced: Any,
) -> tuple[FitsRun, TracingExecutor]:
    with RunFolder(path) as folder:
        executor = TracingExecutor(folder, instead, **traced)
        run = fits_run(
            options=options or FitsOptions(),
            status=RunStatus.RUNNING,
            trials=(),
            profile=here or profile("cpu"),
        )
        walk = FitsWalk(run, folder, executor, run.profile, RecordingListener())
        return walk.run(profiles, outside), executor


def test_one_trial_predicts_every_gpu_and_all_is_saved(tmp_path: Path):
    run, executor = walk_in(tmp_path)
    assert [(spec.config, spec.skips) for spec in executor.specs] == [(None, Arithmetic.ALL)]
    assert {Detail.FLOORS, Detail.TRACE} <= set(executor.specs[0].details)
    assert run.status is RunStatus.FINISHED
    assert run.prediction is not None
    assert [one.profile_id for one in run.gpus] == ["k80", "t4", "a10g"]
    assert run.gpus[2].vcpus == 4
    assert {one.profile_id for one in run.prediction.fits} == {"k80", "t4", "a10g"}
    assert run.prediction.loader_measured == 16 / 0.008
    assert load_saved(tmp_path) == run


def test_a_batch_that_is_asked_for_is_judged_on_every_gpu_and_precision(tmp_path: Path):
    run, _ = walk_in(tmp_path, options=FitsOptions(batch_size=1000))
    assert run.prediction is not None
    assert [(one.profile_id, one.precision) for one in run.asked] == [
        (one.profile_id, one.precision) for one in run.prediction.fits
    ]
    assert run.asked[0].verdict is BatchFit.NO
    assert run.asked[0].reserved_bytes > run.asked[0].max_bytes
    assert run.asked[0].rate is None
    assert {one.batch_size for one in run.asked} == {1000}
    assert any(one.rate is not None for one in run.asked)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        ("the loop has no DataLoader", "no DataLoader; measure on the GPU itself instead: tunekit search"),
        ("4 ranks train together and can't be timed separately", "give the command of one process"),
        ("torch 2.1 does not tell when memory is freed; 2.4 does", "2.4 does; train with that torch"),
    ],
)
def test_steps_that_can_not_be_traced_say_why_and_what_to_do(tmp_path: Path, fault: str, told: str):
    with pytest.raises(TargetError, match="nothing can be predicted: ") as error:
        walk_in(tmp_path, traces=(), why_ended=fault)
    assert told in str(error.value)
    saved = load_saved(tmp_path)
    assert (saved.why_not, saved.status, saved.prediction) == (fault, RunStatus.FAILED, None)
    assert len(saved.trials) == 1


def test_gpus_without_the_scripts_precision_are_an_error(tmp_path: Path):
    with pytest.raises(TargetError, match="no GPU that was asked for computes in bf16"):
        walk_in(tmp_path, (K80,), precision=Precision.BF16, traces=(None,))
    assert load_saved(tmp_path).status is RunStatus.FAILED


def ended_dry(kind: OutcomeKind, is_learnt: bool = True) -> TrialRecord:
    """A trial without arithmetic that ended by itself."""
    found = baseline_record(0, 32.0).discovery if is_learnt else None
    why = failure(kind, message="the loss stands still")
    return trial_record(0, None, overrides={"failure": why, "discovery": found})


def test_a_script_that_needs_its_figures_is_run_with_them(tmp_path: Path):
    run, executor = walk_in(tmp_path, first=ended_dry(OutcomeKind.SCRIPT_ERROR))
    assert [spec.skips for spec in executor.specs] == [Arithmetic.ALL, Arithmetic.NOTHING]
    assert [one.number for one in run.trials] == [0, 1]
    assert run.prediction is not None
    assert run.status is RunStatus.FINISHED


def test_ctrl_c_keeps_what_the_trial_had_told(tmp_path: Path):
    with pytest.raises(KeyboardInterrupt):
        walk_in(tmp_path, interrupts=True)
    saved = load_saved(tmp_path)
    assert saved.status is RunStatus.INTERRUPTED
    assert saved.prediction is not None
    assert {one.profile_id for one in saved.prediction.fits} == {"k80", "t4", "a10g"}
