"""Runs one trial and returns its record; a Protocol lets the search be tested without processes."""

import contextlib
import errno
import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from tunekit.errors import RunFolderError, TargetError
from tunekit.machine.gpu.nvml import Nvml
from tunekit.machine.telemetry.sampler import GpuSampler
from tunekit.machine.telemetry.series import save_series
from tunekit.machine.telemetry.summary import summarise
from tunekit.records.agent_messages import AgentRequest, Arithmetic
from tunekit.records.config import KNOB, LOADER_KNOBS, WORKER_KNOBS, Precision, TrainConfig
from tunekit.records.details import Detail
from tunekit.records.host import SandboxKind
from tunekit.records.measurement import DryLoop, DryRun, LoopMeasurement, Measurement, Telemetry
from tunekit.records.target import Binding, Discovery, Target
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord, TrialRole
from tunekit.trial.binding_suggestions import (
    binding_hint,
    constant_batch,
    default_values,
    long_flags,
    possible_batch,
    step_numbers,
)
from tunekit.trial.binding_syntax import binding_text
from tunekit.trial.bindings import Bound, bind, bound_target, present_values
from tunekit.trial.cleanup import (
    DeviceMemory,
    close_folder,
    list_writes,
    masked_record,
    secrets_of_target,
)
from tunekit.trial.events import Evidence
from tunekit.trial.keeper import remove_tree
from tunekit.trial.knob_names import ALL_NAMES, plain_name
from tunekit.trial.launch import (
    AGENT_FOLDER,
    best_sandbox,
    is_cut_off,
    own_cache,
    start_trial,
    write_copies,
)
from tunekit.trial.outcome import measurement_of
from tunekit.trial.process_count import (
    THREADS_BY_LAUNCHER,
    on_first_devices,
    with_processes,
)
from tunekit.trial.processes import end_leftovers
from tunekit.trial.target import script_text_of
from tunekit.trial.watch import Limits, TrialProgress, TrialWatch

_MAX_SOCKET_PARENT = 50

ProgressCallback = Callable[[TrialProgress], None]


@dataclass(frozen=True)
class TrialSpec:
    """One trial to run."""

    number: int
    role: TrialRole
    config: TrainConfig | None
    """None runs the target exactly as the user has it."""
    round: int | None = None
    details: tuple[Detail, ...] = ()
    """What to examine after the measurement."""
    skips: Arithmetic = Arithmetic.TRACED
    """Which arithmetic to skip if the script trains on a CPU."""
    sizes: tuple[int, ...] = ()
    """Batch sizes for Detail.SIZES."""
    rate_to_beat: float | None = None
    """Steady samples/s of one rank; a trial that is surely slower is given up early."""
    lr: float | None = None
    """Learning rate to set through its binding; None keeps the script's own."""
    processes: int | None = None
    """Local training processes; None for as many as the command starts."""
    no_sync: bool = False
    """Whether to train without summing gradients, after the first steps."""
    bindings: tuple[Binding, ...] | None = None
    """Bindings to use instead of the target's; None for the target's own."""
    max_s: float = math.inf
    """Time limit of this trial, in seconds."""


@dataclass(frozen=True)
class KnownTarget:
    """What the baseline learnt: the loop, and the script's own knobs."""

    discovery: Discovery
    baseline: TrainConfig


class TrialInterrupted(KeyboardInterrupt):
    """Ctrl-C after the trial has reported a result.

    Args:
        record: the record of the trial so far.
    """

    def __init__(self, record: TrialRecord) -> None:
        super().__init__()
        self.record = record


class Executor(Protocol):
    """Runs trials."""

    def run(self, spec: TrialSpec, known: KnownTarget | None, on_progress: ProgressCallback) -> TrialRecord:
        """Run one trial to its end and return its record; the target's failures are records, not errors."""
        ...


@dataclass
class ProcessExecutor:
    """Runs each trial as a real child process under a keeper."""

    target: Target
    trials_folder: Path
    """Receives one subfolder per trial."""
    limits: Limits
    window_s: float
    """Steady seconds to measure."""
    hide_gpus: bool = False
    """Train on the CPU even if there is a GPU."""
    nvml: Nvml = field(default_factory=Nvml)
    gpus: Sequence[int] = ()
    """The trials' GPUs, by their index in the driver's order."""
    telemetry_store: Path | None = None
    """Receives each trial's time series; by default only their summary is kept."""
    device_memory_bytes: int | None = None
    """Limit on what torch may reserve on a CUDA device; None for no limit."""
    sandbox: SandboxKind | None = None
    """The sandbox that protects the user's files; None for the best one that works here."""

    def __post_init__(self) -> None:
        # The children run in the target's folder, where a relative path would mean something else.
        self.trials_folder = self.trials_folder.resolve()
        self.gpus = () if self.hide_gpus else tuple(self.gpus)

    def run(self, spec: TrialSpec, known: KnownTarget | None, on_progress: ProgressCallback) -> TrialRecord:
        """Run one trial in a fresh process tree.

        Raises:
            TargetError: the command can't be started this way.
            TrialInterrupted: Ctrl-C, after the trial had measured, or learnt its loop without arithmetic.
            KeyboardInterrupt: Ctrl-C before that. In either case, the process tree is gone.
        """
        target = self.target if spec.bindings is None else bound_target(self.target, spec.bindings)
        guessed = possible_batch(target) if spec.role is TrialRole.BASELINE else None
        if guessed is not None:
            target = target.changed(bindings=(*target.bindings, guessed))
        if target != self.target:
            return replace(self, target=target).run(replace(spec, bindings=None), known, on_progress)
        bound = self._bound(spec, known)
        end_leftovers()
        folder = self._fresh_folder(spec.number)
        secrets = secrets_of_target(self.target, os.environ)
        stopped = None
        try:
            with DeviceMemory(self.nvml, self.gpus), _scratch_folder() as scratch:
                request = self._request(folder, scratch, bound, spec, known)
                keeper = self._start(folder, bound, request)
                gpus = GpuSampler(self.nvml, self.gpus)
                watch = TrialWatch(keeper, folder, self.limits.within(spec.max_s), gpus, on_progress)
                try:
                    evidence = watch.run()
                except KeyboardInterrupt as error:
                    evidence, stopped = watch.gathered(), error
                    if evidence.done is None:
                        raise
        finally:
            written = list_writes(folder, self.target.working_dir)
            faults = close_folder(folder, secrets)
        reported = {one.path for one in evidence.written}
        evidence.written += [one for one in written if one.path not in reported]
        evidence.faults += faults
        record = masked_record(self._record(spec, known, bound, request, evidence), secrets)
        if stopped is not None:
            raise TrialInterrupted(record) from stopped
        return record

    def _bound(self, spec: TrialSpec, known: KnownTarget | None) -> Bound:
        """Return how a trial's config and number of processes reach the target."""
        baseline, options = (known.baseline, known.discovery.options) if known else (None, ())
        bound = bind(self.target, spec.config, baseline, spec.lr, options=options)
        if spec.processes is None:
            return bound
        command = with_processes(bound.command, spec.processes, script_text_of(self.target))
        started = {**os.environ, **bound.environment}
        devices = on_first_devices(started, spec.processes, len(self.gpus))
        threads = {name: text for name, text in THREADS_BY_LAUNCHER.items() if name not in started}
        return replace(bound, command=command, environment={**bound.environment, **threads, **devices})

    def _record(
        self,
        spec: TrialSpec,
        known: KnownTarget | None,
        bound: Bound,
        request: AgentRequest,
        evidence: Evidence,
    ) -> TrialRecord:
        telemetry = self._telemetry_of(spec, evidence)
        result = measurement_of(
            evidence,
            bound,
            known.discovery if known else None,
            known.baseline.batch_size if known else self._bound_batch(),
            spec.sizes,
            spec.processes,
            spec.no_sync,
        )
        if isinstance(result, Failure):
            result = self._with_a_place_for_the_batch(result, evidence, bound, known)
        still_unknown = known is None or not known.discovery.complete
        found = evidence.discovery
        limits = step_numbers(self.target.changed(command=bound.command), found) if found else ()
        return TrialRecord(
            number=spec.number,
            role=spec.role,
            round=spec.round,
            config=spec.config or (known.baseline if known else _config_seen(evidence, result)),
            is_baseline_config=spec.config is None,
            started_at=datetime.fromtimestamp(request.started_at_s, UTC).isoformat(timespec="seconds"),
            duration_s=evidence.duration_s,
            measurement=result if isinstance(result, Measurement) else None,
            failure=result if isinstance(result, Failure) else None,
            dry=result if isinstance(result, DryRun) else None,
            discovery=found if still_unknown else None,
            learning_rate=evidence.learnt.discovery.learning_rate if evidence.learnt else None,
            step_numbers=(*evidence.learnt.step_numbers, *limits) if evidence.learnt else (),
            written=tuple(evidence.written),
            faults=tuple(evidence.faults),
            telemetry=telemetry,
            sandbox=request.sandbox,
            processes=spec.processes,
            no_sync=spec.no_sync,
        )

    def _telemetry_of(self, spec: TrialSpec, evidence: Evidence) -> Telemetry | None:
        """Save the time series if a store is given, and return their summary; errors never fail the trial."""
        try:
            if self.telemetry_store is not None:
                save_series(self.telemetry_store, spec.number, evidence.series)
            return summarise(evidence.series, evidence.sampling_cpu_s)
        except Exception as error:  # a full disk, or a corrupted store
            evidence.faults.append(f"the time series are lost: {type(error).__name__}: {error}")
            return None

    def _start(self, folder: Path, bound: Bound, request: AgentRequest) -> subprocess.Popen[bytes]:
        try:
            writable = (own_cache(os.environ),) if self.target.builtin else ()
            return start_trial(bound, request, self.hide_gpus, writable)
        except OSError as error:
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            raise TargetError(
                f"the trial could not be started in {self.target.working_dir} ({error.strerror}); "
                + (f"free some space for {folder}" if is_full else "check that the folder is there")
            ) from error

    def _samples_per_step(self, spec: TrialSpec, known: KnownTarget | None) -> int | None:
        """Return the samples per batch of a script that makes its own batches; None if unknown.

        If the batch size is bound, that is the config's value. For the baseline it is the value in the
        command, file or variable, the user's --samples-per-step, or the script's own default or constant.
        """
        if spec.config is not None and self.target.is_bound("batch_size"):
            return spec.config.batch_size
        own = known.baseline.batch_size if known else None
        return self._bound_batch() or self.target.samples_per_step or own

    def _bound_batch(self) -> int | None:
        """Return the batch size at the place it is bound to, unless it only repeats --samples-per-step."""
        present = present_values(self.target).get("batch_size")
        if present is None and self.target.samples_per_step is None:
            present = default_values(self.target).get("batch_size") or constant_batch(self.target)
        return present if isinstance(present, int) and present != self.target.samples_per_step else None

    def _with_a_place_for_the_batch(
        self, failure: Failure, evidence: Evidence, bound: Bound, known: KnownTarget | None
    ) -> Failure:
        """Return a failure with a binding as its remedy if an unbound batch size may be the cause."""
        if failure.kind is OutcomeKind.SAMPLES_UNKNOWN and failure.remedy and evidence.learnt:
            possible = possible_batch(self.target, evidence.learnt.discovery)
            words = binding_text(possible) if possible else "batch_size=--FLAG {}"
            return failure.changed(remedy=failure.remedy.replace("batch_size=--FLAG {}", words))
        if failure.kind is OutcomeKind.SCRIPT_ERROR and known and "batch_size" in bound.injected:
            hint = binding_hint("batch_size", known.discovery, known.baseline.batch_size, self.target)
            remedy = f"only the loader got the new batch size; if the script needs it too, add {hint}"
            return failure.changed(remedy=remedy)
        return failure

    def _fresh_folder(self, number: int) -> Path:
        folder = self.trials_folder / f"{number:04d}"
        if is_cut_off(folder):
            remove_tree(str(folder))
        try:
            (folder / AGENT_FOLDER).mkdir(parents=True)
        except FileExistsError as error:
            raise RunFolderError(f"{folder} is in the way of a trial; move it elsewhere") from error
        return folder

    def _request(
        self, folder: Path, scratch: str, bound: Bound, spec: TrialSpec, known: KnownTarget | None
    ) -> AgentRequest:
        loader = known.discovery.training_loader if known else None
        flags = (flag for binding in self.target.bindings for flag in long_flags(binding))
        return AgentRequest(
            trial_folder=str(folder / AGENT_FOLDER),
            scratch_folder=scratch,
            sandbox=self.sandbox or best_sandbox(self.trials_folder).kind,
            working_dir=self.target.working_dir,
            started_at_s=time.time(),
            redirected=write_copies(bound.file_texts, folder),
            option_names=(*ALL_NAMES, *map(plain_name, flags)),
            samples_per_step=self._samples_per_step(spec, known),
            knobs=bound.injected,
            no_sync=spec.no_sync,
            loader=loader.address if loader else None,
            roots=known.discovery.roots if known else (),
            details=spec.details,
            skips=spec.skips,
            sizes=spec.sizes,
            rate_to_beat=spec.rate_to_beat,
            device_memory_bytes=self.device_memory_bytes,
            ram_bytes=self.limits.ram_bytes,
            window_s=self.window_s,
        )


@contextlib.contextmanager
def _scratch_folder() -> Iterator[str]:
    """Yield a folder for the trial's sockets, whose paths are limited to 107 characters.

    The keeper removes it too, in case tunekit is killed, and tunekit does in case the keeper is.
    """
    usual = tempfile.gettempdir()
    short = (one for one in (usual, "/tmp", "/dev/shm") if len(one) <= _MAX_SOCKET_PARENT)
    place = next((one for one in short if os.access(one, os.W_OK)), usual)
    folder = tempfile.mkdtemp(prefix="tunekit-", dir=place)
    try:
        yield folder
    finally:
        remove_tree(folder)


def _config_seen(evidence: Evidence, result: Measurement | DryRun | Failure) -> TrainConfig | None:
    is_unknown = isinstance(result, Failure) and result.kind is OutcomeKind.SAMPLES_UNKNOWN
    if evidence.learnt is None or is_unknown:
        return None
    discovery = evidence.learnt.discovery
    loader = discovery.training_loader
    loop = evidence.done.loop if evidence.done else None
    measured_batch = (loop.batch_size or _mean_batch(loop)) if loop else None
    own: dict[str, Any] = {name: getattr(loader, name) if loader else KNOB[name].off for name in LOADER_KNOBS}
    own["batch_size"] = own["batch_size"] or measured_batch or 1
    return TrainConfig(
        **own | ({} if own["num_workers"] else WORKER_KNOBS),
        compile=discovery.compiles or any(root.compiled for root in discovery.roots),
        precision=_baseline_precision(discovery),
        channels_last=any(root.channels_last for root in discovery.roots),
        accumulate_grad_batches=discovery.batches_per_step,
    )


def _mean_batch(loop: LoopMeasurement | DryLoop) -> int:
    """Return the samples in a batch of a loop whose loader declares no size."""
    if isinstance(loop, DryLoop):
        return loop.batch_samples
    return round(loop.steady_samples / loop.steady_batches)


def _baseline_precision(discovery: Discovery) -> Precision:
    dtypes = {discovery.autocast_dtype, *(root.autocast_dtype for root in discovery.roots)}
    if "bfloat16" in dtypes:
        return Precision.BF16
    if "float16" in dtypes:
        return Precision.FP16
    tf32 = discovery.tf32_in_matmul
    if tf32 is None:
        tf32 = discovery.device_type == "cuda" and discovery.float32_matmul_precision in ("high", "medium")
    return Precision.TF32 if tf32 else Precision.FP32
