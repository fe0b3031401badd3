"""One trial on disk: what was asked, what came of it."""

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt, model_validator

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.config import TrainConfig
from tunekit.records.details import Details, LargestSamples
from tunekit.records.host import GpuProcess, SandboxKind
from tunekit.records.measurement import DryRun, Measurement, Telemetry
from tunekit.records.prediction import PeakAt
from tunekit.records.target import Discovery, StepNumber


class OutcomeKind(StrEnum):
    """Why a trial has no measurement. Decided by evidence, never by words in the output."""

    DEVICE_OOM = "device_oom"
    HOST_OOM = "host_oom"
    SHM_EXHAUSTED = "shm_exhausted"
    TIMEOUT = "timeout"
    HANG = "hang"
    WORKER_CRASH = "worker_crash"
    NONFINITE_LOSS = "nonfinite_loss"
    TOO_SHORT = "too_short"
    NO_TRAINING_LOOP = "no_training_loop"
    SAMPLES_UNKNOWN = "samples_unknown"
    """A loop that makes its batches itself ran well, and nothing tells how many samples one holds."""
    SCRIPT_ERROR = "script_error"
    KILLED = "killed"
    HARM_DENIED = "harm_denied"
    """The script wanted to change what the user had, and ended because the trial did not let it."""
    AGENT_ABSENT = "agent_absent"
    AGENT_ERROR = "agent_error"
    """The agent itself failed: a fault of tunekit's, which says nothing of the script or its config."""
    REFUSED = "refused"
    COMPILE_NO_EFFECT = "compile_no_effect"
    KNOB_NOT_APPLIED = "knob_not_applied"
    """The script undid a knob, so the figures would belong to another config."""

    @property
    def is_memory(self) -> bool:
        """Whether a smaller config could succeed."""
        return self in (self.DEVICE_OOM, self.HOST_OOM, self.SHM_EXHAUSTED, self.REFUSED)


class Failure(Record):
    """A trial that gave no measurement, and why."""

    kind: OutcomeKind
    message: str
    """What happened, with the value that shows it."""
    remedy: str | None = None
    last_lines: tuple[str, ...] = Field(default=(), max_length=50)
    """The script's own last output lines."""
    largest: LargestSamples | None = None
    """What is known of the data set's largest samples, where a batch of them ended the trial."""
    returncode: int | None = None
    """Exit status; negative for a signal; None when the trial was ended from outside."""

    @property
    def text(self) -> str:
        """What happened, after its kind; of a knob that is not in force the message says it all."""
        return self.message if self.kind is OutcomeKind.KNOB_NOT_APPLIED else f"{self.kind}: {self.message}"

    @property
    def with_remedy(self) -> str:
        """The same and what to do about it, where that is known."""
        return "; ".join(filter(None, (self.text, self.remedy)))


class TrialRole(StrEnum):
    """What a trial was run for."""

    BASELINE = "baseline"
    SEARCH = "search"
    CONFIRM = "confirm"
    """A fresh process of the baseline or of a chosen config, interleaved with the others."""
    NUMERICS = "numerics"
    """The baseline with only precision or compile changed: for its losses, not for its rate."""
    TRACE = "trace"
    """The baseline with another batch size, which a script that makes its batches itself is traced at."""

    ABLATION = "ablation"
    """The answer's config, or it with one knob put back, interleaved: for what each knob is worth."""

    @property
    def is_candidate(self) -> bool:
        """Whether its config may be chosen for its rate: not what confirms it, guards losses or the like."""
        return self in (TrialRole.BASELINE, TrialRole.SEARCH)


class WrittenFile(Record):
    """A write of the script that did not go where the script meant."""

    path: str
    action: Literal["diverted", "denied", "created"]


class TrialRecord(Record):
    """Everything one trial left behind; the truth that a run is rebuilt from."""

    schema_version: Literal[1] = SCHEMA_VERSION
    number: NonNegativeInt
    role: TrialRole
    round: NonNegativeInt | None = None
    """Interleaved round of a confirmation, from 0."""
    config: TrainConfig | None
    """None while it is unknown: a baseline that ended before its loader was built."""
    is_baseline_config: bool
    """Whether the target ran exactly as the user has it."""
    host_name: str | None = None
    """Machine that ran it, of a search that several share; None where there was only one."""
    started_at: str
    """ISO 8601, UTC."""
    duration_s: NonNegativeFloat
    measurement: Measurement | None = None
    failure: Failure | None = None
    dry: DryRun | None = None
    """In place of both: a trial that skipped the script's arithmetic and has no rate."""
    discovery: Discovery | None = None
    learning_rate: NonNegativeFloat | None = None
    """The base learning rate that all optimizers had; None when they differ or it is unknown."""
    step_numbers: tuple[StepNumber, ...] = Field(default=(), max_length=128)
    """What the script's schedules and its own step limits are made of."""
    written: tuple[WrittenFile, ...] = Field(default=(), max_length=1000)
    faults: tuple[str, ...] = Field(default=(), max_length=100)
    """Faults of the guard of the user's files and of tunekit itself, which the trial went on after."""
    telemetry: Telemetry | None = None
    """None for a trial that was over before two samples."""
    sandbox: SandboxKind | None = None
    """What kept its processes from the user's files, beside the agent's guard; None where it is not known."""
    processes: PositiveInt | None = None
    """Local processes that were asked for; None for as many as the command starts."""
    no_sync: bool = False
    """Whether its ranks trained without summing gradients, after the first steps."""
    predicted_peaks: tuple[PeakAt, ...] = Field(default=(), max_length=64)
    """By steps that the trial traced: device memory at other batch sizes, its own among them."""

    @model_validator(mode="after")
    def _one_outcome(self) -> Self:
        if sum(one is not None for one in (self.measurement, self.failure, self.dry)) != 1:
            raise ValueError("a trial has either a measurement or a failure, or it was dry")
        return self

    @property
    def details(self) -> Details | None:
        """What was looked at of the loop; None where nothing was asked for, and for a failed trial."""
        seen = self.measurement or self.dry
        return seen.details if seen else None

    @property
    def rate_samples_per_s(self) -> float | None:
        """The objective, None for a failed trial and a dry one."""
        return self.measurement.rate_samples_per_s if self.measurement else None

    @property
    def neighbours(self) -> tuple[GpuProcess, ...]:
        """Other processes that started on its GPUs during the trial, which then is weak evidence."""
        gpus = self.telemetry.gpus if self.telemetry else ()
        return tuple(one for gpu in gpus if gpu.is_used for one in gpu.neighbours)

    @property
    def is_abandoned(self) -> bool:
        """Whether it was given up early as too slow: its rate is real, wide, and no ground for a choice."""
        return self.measurement is not None and self.measurement.loop.is_abandoned
