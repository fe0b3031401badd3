"""Measured scalings for tests, without a process: a step of known parts, an executor that takes as long."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from build_records import GIB, MIB, config, discovery, failure, host, measurement, profile, target
from hypothesis import strategies as st
from scripted_search import loader

from tunekit.predict.scaling import expected_maximum
from tunekit.recommend.measured_scaling import with_figures
from tunekit.records.attribution import LoaderWork, ModelBytes, StepParts, WorkerWork
from tunekit.records.config import TrainConfig
from tunekit.records.data_parallel import DataParallelKind, DataParallelSeen, RankSeen
from tunekit.records.measurement import Threads
from tunekit.records.profile import Profile
from tunekit.records.run import RunStatus
from tunekit.records.scaling_run import ScaleOptions, ScalingRun, StepSplit
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord, TrialRole
from tunekit.trial.executor import KnownTarget, ProgressCallback, TrialSpec
from tunekit.trial.watch import TrialProgress

GRADIENTS = 44 * MIB


@dataclass(frozen=True)
class Step:
    """An iteration of a training on some processes, batch 128 in each."""

    compute_s: float = 0.100
    ring_s: float = 0.010
    """Exposed time of moving all gradients once."""
    spread: float = 0.02
    """Of the processes' step times, as a share of compute."""
    wait_s: float = 0.0
    """For data on one process; it grows with their number."""
    jitter: float = 0.002
    """By which every other round takes longer."""

    def time_s(self, processes: int, no_sync: bool, round_number: int, share: float = 1.0) -> float:
        """Seconds of one iteration, with a share of the batch."""
        own_s = share * self.compute_s + processes * self.wait_s * share
        if processes > 1 and not no_sync:
            own_s += self.spread * self.compute_s * share * expected_maximum(processes)
            own_s += self.ring_s * 2 * (processes - 1) / processes
        return own_s * (1 + self.jitter * (round_number % 2))


def seen(**overrides: Any) -> DataParallelSeen:
    """What DDP over gloo shows."""
    values: dict[str, Any] = {
        "kind": DataParallelKind.DDP,
        "backend": "nccl",
        "gradient_bytes": GRADIENTS,
        "syncs_gradients": True,
    }
    return DataParallelSeen(**(values | overrides))


def scaling_trial(
    number: int,
    processes: int,
    round_number: int = 0,
    no_sync: bool = False,
    step: Step | None = None,
    of: TrainConfig | None = None,
    baseline: TrainConfig | None = None,
    **loop: Any,
) -> TrialRecord:
    """A trial of a count, its parts as the step has them."""
    one, knobs, own = step or Step(), of or config(), baseline or config()
    share = knobs.batch_size / own.batch_size
    time_s = one.time_s(processes, no_sync, round_number, share)
    wait_s = min(time_s, processes * one.wait_s * share)
    batches = 100
    rate = knobs.batch_size / time_s
    # Apart, the last rank is slower than the others by the spread.
    rates = [rate] * (processes - 1) + [rate / (1 + one.spread) if no_sync else rate]
    values: dict[str, Any] = {
        "world_size": processes,
        "steady_batches": batches,
        "parts": StepParts(
            data_wait_s=batches * wait_s,
            compute_s=batches * (time_s - wait_s),
            optimizer_s=0.0,
            other_s=0.0,
        ),
        "loader_work": LoaderWork(
            workers=(WorkerWork(batches=batches, time_s=batches * 0.02),),
            cpu_s=batches * 0.02,
        ),
        "model": ModelBytes(
            parameters_bytes=GRADIENTS, buffers_bytes=0, gradients_bytes=GRADIENTS, optimizer_bytes=0
        ),
        "data_parallel": seen() if processes > 1 else None,
        "ranks": tuple(RankSeen(rank=rank, samples_per_s=value) for rank, value in enumerate(rates))
        if processes > 1
        else (),
        "threads": Threads(intra_op=1, inter_op=1, variables={"OMP_NUM_THREADS": "1"}),
        "epoch_samples": 48_000 // processes,
        "epoch_batches": 48_000 // processes // knobs.batch_size,
        "boundary_s": None,
        "boundaries_seen": 0,
    }
    is_first = number == 0
    return TrialRecord(
        number=number,
        role=TrialRole.BASELINE if is_first else TrialRole.CONFIRM,
        round=round_number,
        config=knobs,
        is_baseline_config=knobs == own,
        started_at="2026-01-02T03:04:05Z",
        duration_s=20.0,
        measurement=measurement(rate, knobs, base_bytes=processes * 2 * GIB, **(values | loop)),
        discovery=discovery(loaders=(loader(knobs),)) if is_first else None,
        learning_rate=0.1,
        processes=processes,
        no_sync=no_sync,
    )


SPLITS = st.builds(
    lambda compute_s, exposed_s, straggler_s, data_wait_s: StepSplit(
        time_s=compute_s + exposed_s + straggler_s + data_wait_s,
        compute_s=compute_s,
        exposed_s=exposed_s,
        straggler_s=straggler_s,
        data_wait_s=data_wait_s,
    ),
    st.floats(1e-4, 1.0),
    *[st.floats(0.0, 1.0)] * 3,
)
"""Iterations of any parts."""


def failed_trial(number: int, processes: int, kind: OutcomeKind, message: str, **more: Any) -> TrialRecord:
    return TrialRecord(
        number=number,
        role=TrialRole.CONFIRM,
        config=config(),
        is_baseline_config=True,
        started_at="2026-01-02T03:04:05Z",
        duration_s=5.0,
        failure=failure(kind, message=message),
        processes=processes,
        **more,
    )


class ScalingExecutor:
    """Takes as long as a step says, or fails as it is told; its clock is that of the trials."""

    def __init__(
        self,
        step: Step | None = None,
        own: TrainConfig | None = None,
        fails: Callable[[TrialSpec], Failure | BaseException | None] = lambda spec: None,
        **loop: Any,
    ) -> None:
        self.step, self.own, self.fails, self.loop = step or Step(), own or config(), fails, loop
        self.specs: list[TrialSpec] = []
        self.now_s = 0.0

    def clock(self) -> float:
        return self.now_s

    def run(self, spec: TrialSpec, known: KnownTarget | None, on_progress: ProgressCallback) -> TrialRecord:
        self.specs.append(spec)
        self.now_s += 20.0
        assert spec.processes is not None
        on_progress(TrialProgress(phase="measuring", batches=10, elapsed_s=1.0))
        ended = self.fails(spec)
        if isinstance(ended, BaseException):
            raise ended
        record = scaling_trial(
            spec.number,
            spec.processes,
            spec.round or 0,
            spec.no_sync,
            self.step,
            spec.config or self.own,
            self.own,
            **self.loop,
        )
        learns = None if known is not None else discovery(loaders=(loader(self.own),))
        record = record.changed(discovery=learns, is_baseline_config=spec.config is None, round=spec.round)
        return record if ended is None else record.changed(measurement=None, failure=ended)


def bare_run(**overrides: Any) -> ScalingRun:
    """A scaling on A10Gs before its first trial."""
    values: dict[str, Any] = {
        "tunekit_version": "1.0.0",
        "created_at": "2026-01-02T03:04:05Z",
        "status": RunStatus.RUNNING,
        "target": target(),
        "options": ScaleOptions(processes=(1, 2, 4)),
        "host": host(),
        "profile": profile(),
        "measured_on": "a10g",
    }
    return ScalingRun(**(values | overrides))


def scaled(
    step: Step | None = None,
    processes: tuple[int, ...] = (1, 2, 4),
    rounds: int = 2,
    here: Profile | None = None,
    more: tuple[TrialRecord, ...] = (),
    loop: Callable[[int], dict[str, Any]] = lambda count: {},
    **overrides: Any,
) -> ScalingRun:
    """A finished scaling, its figures worked out."""
    trials: list[TrialRecord] = []
    for number in range(rounds):
        for count in processes:
            for no_sync in (False, True)[: 1 + (count > 1)]:
                trials.append(scaling_trial(len(trials), count, number, no_sync, step, **loop(count)))
    asked = overrides.pop("options", None) or ScaleOptions(processes=processes, rounds=rounds)
    kept = [one.changed(number=len(trials) + place) for place, one in enumerate(more)]
    run = bare_run(
        options=asked,
        status=RunStatus.FINISHED,
        trials=(*trials, *kept),
        scale_time_s=20.0 * len(trials),
        **overrides,
    )
    return with_figures(run, here or profile())
