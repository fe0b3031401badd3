"""A loop profile without processes: the scripted executor, and one call that walks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from build_records import host, profile, target
from scripted_search import RecordingListener, ScriptedExecutor

from tunekit.diagnose.bottleneck import bottleneck
from tunekit.records.config import TrainConfig
from tunekit.records.details import Details
from tunekit.records.run import FixedKnob, LoopProfile, ProfileOptions, RunStatus
from tunekit.records.trial import TrialRecord
from tunekit.session.folder import RunFolder
from tunekit.session.profile import Against, ProfileWalk
from tunekit.trial.executor import KnownTarget, ProgressCallback, TrialSpec


class LookingExecutor(ScriptedExecutor):
    """Looks at details where a trial asks for them."""

    def run(self, spec: TrialSpec, known: KnownTarget | None, on_progress: ProgressCallback) -> TrialRecord:
        record = super().run(spec, known, on_progress)
        if not spec.details or record.measurement is None:
            return record
        looked = record.measurement.model_copy(update={"details": Details()})
        return record.model_copy(update={"measurement": looked})


def loop_profile(**overrides: Any) -> LoopProfile:
    """A loop profile on an A10G before its first trial."""
    values: dict[str, Any] = {
        "tunekit_version": "1.0.0",
        "created_at": "2026-01-02T03:04:05Z",
        "status": RunStatus.RUNNING,
        "target": target(),
        "options": ProfileOptions(),
        "host": host(),
        "profile": profile(),
        "measured_on": "a10g",
    }
    made = LoopProfile(**(values | overrides))
    rate = made.contenders[0].rate_samples_per_s if made.contenders else None
    seen = [made.profiled_trial] if made.profiled_trial else []
    return made.changed(bottleneck=bottleneck(seen, rate))


def fix(**knobs: Any) -> tuple[FixedKnob, ...]:
    return tuple(FixedKnob(knob=knob, value=value) for knob, value in knobs.items())


def against(change: Callable[[TrainConfig], TrainConfig], name: str = "mine.yaml") -> Against:
    return Against(name, lambda own, on_gpu: change(own))


def walk_in(
    folder: Path,
    asked: ProfileOptions | None = None,
    beside: Against | None = None,
    listener: RecordingListener | None = None,
    executor_options: dict[str, Any] | None = None,
    **overrides: Any,
) -> tuple[LoopProfile, LookingExecutor]:
    """Walk one whole loop profile in a folder; the executor shows what was started."""
    bare = loop_profile(options=asked or ProfileOptions(), **overrides)
    with RunFolder(folder) as owned:
        executor = LookingExecutor(owned.trials_folder, **(executor_options or {}))
        heard = listener or RecordingListener()
        walk = ProfileWalk(bare, owned, executor, bare.profile, heard, clock=executor.clock)
        return walk.run(beside), executor
