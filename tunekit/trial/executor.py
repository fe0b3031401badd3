"""Runs one trial and returns its record; the Protocol lets the search be tested without processes."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from tunekit.errors import TargetError
from tunekit.hardware.nvml import Nvml
from tunekit.hardware.nvml_library import NvmlLibrary
from tunekit.hardware.telemetry.gpu import GpuSampler
from tunekit.hardware.telemetry.store import save_series
from tunekit.hardware.telemetry.summary import summarise
from tunekit.records.agent_messages import AgentRequest
from tunekit.records.config import Precision, TrainConfig
from tunekit.records.details import Detail
from tunekit.records.measurement import Measurement
from tunekit.records.target import Discovery, Target
from tunekit.records.telemetry import Telemetry
from tunekit.records.trial import Failure, OutcomeKind, TrialRecord, TrialRole
from tunekit.trial.binding_syntax import binding_text
from tunekit.trial.bindings import Bound, bind, present_values
from tunekit.trial.device_memory import DeviceMemory
from tunekit.trial.launch import start_trial, write_copies
from tunekit.trial.outcome import measurement_of
from tunekit.trial.suggest import default_values, possible_batch
from tunekit.trial.watch import Evidence, Limits, TrialProgress, TrialWatch

_LONGEST_SOCKET_PARENT = 50

ProgressCallback = Callable[[TrialProgress], None]


@dataclass(frozen=True)
class TrialSpec:
    """One trial to run."""

    number: int
    role: TrialRole
    config: TrainConfig | None
    """None: the target exactly as the user has it."""
    round: int | None = None
    details: tuple[Detail, ...] = ()
    """What to look at once it is measured."""
    sizes: tuple[int, ...] = ()
    """Batch sizes for Detail.SIZES."""
    rate_to_beat: float | None = None
    """Steady samples/s of one rank below which, surely, the trial is given up early."""


@dataclass(frozen=True)
class KnownTarget:
    """What the baseline taught: how knobs reach the loop."""

    discovery: Discovery
    baseline: TrainConfig


class Executor(Protocol):
    """Runs trials."""

    def run(self, spec: TrialSpec, known: KnownTarget | None, on_progress: ProgressCallback) -> TrialRecord:
        """Run one trial to its end and return its record; the target's failures are records, not errors."""
        ...


class ProcessExecutor:
    """Runs each trial as a real child process under a keeper.

    Args:
        target: the training command.
        trials_folder: gets one sub-folder per trial.
        limits: when a trial is ended from outside.
        window_s: steady seconds to measure.
        hide_gpus: train on the CPU although a GPU is here.
        nvml: the GPUs' driver.
        gpus: the GPUs to sample while a trial runs, by their place in the driver's order.
        telemetry_store: gets the time series of each trial; by default only their summary is kept.
        device_memory_bytes: what torch may reserve on a CUDA device; None for all that it has.
    """

    def __init__(
        self,
        target: Target,
        trials_folder: Path,
        limits: Limits,
        window_s: float,
        hide_gpus: bool = False,
        nvml: Nvml | None = None,
        gpus: Sequence[int] = (),
        telemetry_store: Path | None = None,
        device_memory_bytes: int | None = None,
    ) -> None:
        self._target = target
        self._trials_folder = trials_folder
        self._limits = limits
        self._window_s = window_s
        self._hide_gpus = hide_gpus
        self._nvml = nvml or NvmlLibrary()
        self._telemetry_store = telemetry_store
        self._device_memory_bytes = device_memory_bytes
        self._gpus = () if hide_gpus else tuple(gpus)

    def run(self, spec: TrialSpec, known: KnownTarget | None, on_progress: ProgressCallback) -> TrialRecord:
        """Run one trial in a fresh process tree.

        Raises:
            KeyboardInterrupt: Ctrl-C; the tree is gone by then and no record is made.
        """
        folder = self._fresh_folder(spec.number)
        bound = bind(self._target, spec.config, known.baseline if known else None)
        request = self._request(folder, bound, spec, known)
        started_at = datetime.now(UTC).isoformat(timespec="seconds")
        with DeviceMemory(self._nvml):
            keeper = self._start(folder, bound, request)
            gpus = GpuSampler(self._nvml, self._gpus)
            evidence = TrialWatch(keeper, folder, self._limits_of(spec), gpus, on_progress).run()
        shutil.rmtree(folder / "diverted", ignore_errors=True)
        telemetry = self._telemetry_of(spec, evidence)
        result = measurement_of(
            evidence,
            bound,
            known.discovery if known else None,
            known.baseline.batch_size if known else self._bound_batch(),
            spec.sizes,
        )
        if isinstance(result, Failure) and result.kind is OutcomeKind.SAMPLES_UNKNOWN:
            result = self._naming_a_flag(result, evidence)
        still_unknown = known is None or not known.discovery.complete
        discovery = evidence.learnt.discovery if evidence.learnt and still_unknown else None
        return TrialRecord(
            number=spec.number,
            role=spec.role,
            round=spec.round,
            config=spec.config or (known.baseline if known else _config_seen(evidence, result)),
            is_baseline_config=spec.config is None,
            started_at=started_at,
            duration_s=evidence.duration_s,
            measurement=result if isinstance(result, Measurement) else None,
            failure=result if isinstance(result, Failure) else None,
            discovery=discovery,
            written=tuple(evidence.written),
            faults=tuple(evidence.faults),
            telemetry=telemetry,
        )

    def _telemetry_of(self, spec: TrialSpec, evidence: Evidence) -> Telemetry | None:
        """Keep the time series where that is wanted, and return their summary; no trial fails for them."""
        try:
            if self._telemetry_store is not None:
                save_series(self._telemetry_store, spec.number, evidence.series)
            return summarise(evidence.series, evidence.sampling_cpu_s)
        except Exception as error:  # a full disk, a store that something else has broken
            evidence.faults.append(f"the time series are lost: {type(error).__name__}: {error}")
            return None

    def _start(self, folder: Path, bound: Bound, request: AgentRequest) -> subprocess.Popen[bytes]:
        try:
            return start_trial(folder, bound, request, self._hide_gpus)
        except OSError as error:
            shutil.rmtree(request.scratch_folder, ignore_errors=True)
            raise TargetError(
                f"the trial could not be started in {self._target.working_dir} ({error.strerror}); "
                "check that the folder is there"
            ) from error

    def _samples_per_step(self, spec: TrialSpec) -> int | None:
        """Return the samples in a batch of a script without a DataLoader, None where they are not known.

        A bound batch size is what it says; the baseline's is what command, file or variable say, what the
        user declared, or the script's own default.
        """
        if spec.config is not None and self._target.is_bound("batch_size"):
            return spec.config.batch_size
        return self._bound_batch() or self._target.samples_per_step

    def _bound_batch(self) -> int | None:
        """Return the batch size of the script by the place that it is bound to, unless the user says it."""
        present = present_values(self._target).get("batch_size")
        if present is None and self._target.samples_per_step is None:
            present = default_values(self._target).get("batch_size")
        return present if isinstance(present, int) and present != self._target.samples_per_step else None

    def _naming_a_flag(self, failure: Failure, evidence: Evidence) -> Failure:
        """Return the failure with a place of the script's own for its batch size, if it seems to have one."""
        possible = possible_batch(self._target, evidence.learnt.discovery) if evidence.learnt else None
        if possible is None or failure.remedy is None:
            return failure
        remedy = failure.remedy.replace("batch_size=--FLAG {}", binding_text(possible))
        return failure.model_copy(update={"remedy": remedy})

    def _limits_of(self, spec: TrialSpec) -> Limits:
        """Return the limits; while torch.compile works, minutes may pass without a batch."""
        if spec.config is None or not spec.config.compile:
            return self._limits
        return replace(self._limits, no_progress_s=self._limits.trial_s)

    def _fresh_folder(self, number: int) -> Path:
        folder = self._trials_folder / f"{number:04d}"
        shutil.rmtree(folder, ignore_errors=True)  # left half-done by a search that was killed
        folder.mkdir(parents=True)
        return folder

    def _request(
        self, folder: Path, bound: Bound, spec: TrialSpec, known: KnownTarget | None
    ) -> AgentRequest:
        loader = known.discovery.training_loader if known else None
        return AgentRequest(
            trial_folder=str(folder.resolve()),
            scratch_folder=_scratch_folder(),
            working_dir=self._target.working_dir,
            started_at_s=time.time(),
            redirected=write_copies(bound.file_texts, folder),
            samples_per_step=self._samples_per_step(spec),
            knobs=bound.injected,
            loader=loader.address if loader else None,
            roots=known.discovery.roots if known else (),
            details=spec.details,
            sizes=spec.sizes,
            rate_to_beat=spec.rate_to_beat,
            device_memory_bytes=self._device_memory_bytes,
            window_s=self._window_s,
        )


def _scratch_folder() -> str:
    """Make a folder for the trial's sockets, whose paths may have no more than 107 characters."""
    usual = tempfile.gettempdir()
    return tempfile.mkdtemp(prefix="tunekit-", dir=usual if len(usual) <= _LONGEST_SOCKET_PARENT else "/tmp")


def _config_seen(evidence: Evidence, result: Measurement | Failure) -> TrainConfig | None:
    """Return the script's own knob values; None too where its batch size is not known."""
    is_unknown = isinstance(result, Failure) and result.kind is OutcomeKind.SAMPLES_UNKNOWN
    return None if is_unknown else baseline_config(evidence)


def baseline_config(evidence: Evidence) -> TrainConfig | None:
    """Return the knob values that the script itself has, once they are known."""
    if evidence.learnt is None:
        return None
    discovery = evidence.learnt.discovery
    loader = discovery.training_loader
    loop = evidence.done.loop if evidence.done else None
    mean_batch = round(loop.steady_samples / loop.steady_batches) if loop else None
    measured_batch = (loop.batch_size if loop else None) or mean_batch
    workers = loader.num_workers if loader else 0
    return TrainConfig(
        batch_size=(loader.batch_size if loader else None) or measured_batch or 1,
        num_workers=workers,
        prefetch_factor=loader.prefetch_factor if loader and workers else None,
        pin_memory=loader.pin_memory if loader else False,
        persistent_workers=bool(loader and workers and loader.persistent_workers),
        compile=discovery.compiles or any(root.compiled for root in discovery.roots),
        precision=_baseline_precision(discovery),
        channels_last=any(root.channels_last for root in discovery.roots),
        accumulate_grad_batches=discovery.batches_per_step,
    )


def _baseline_precision(discovery: Discovery) -> Precision:
    dtypes = {discovery.autocast_dtype, *(root.autocast_dtype for root in discovery.roots)}
    if "bfloat16" in dtypes:
        return Precision.BF16
    if "float16" in dtypes:
        return Precision.FP16
    tf32 = discovery.device_type == "cuda" and discovery.float32_matmul_precision in ("high", "medium")
    return Precision.TF32 if tf32 else Precision.FP32
