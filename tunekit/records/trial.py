"""One trial on disk: what was asked for and how it ended."""

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
    """Why a trial has no measurement. Decided by evidence, never by parsing the output."""

    DEVICE_OOM = "device_oom"
    """The GPU's memory ran out."""
    HOST_OOM = "host_oom"
    """The RAM ran out; the message names the limit or the peak."""
    SHM_EXHAUSTED = "shm_exhausted"
    """/dev/shm is full, so a loader worker could not pass its batch on."""
    TIMEOUT = "timeout"
    """The trial took longer than --trial-limit; one that starts or compiles has as long again for it."""
    HANG = "hang"
    """No batch, step or other work was seen for --no-progress-limit."""
    WORKER_CRASH = "worker_crash"
    """A loader worker died."""
    NONFINITE_LOSS = "nonfinite_loss"
    """The loss became NaN or infinite."""
    TOO_SHORT = "too_short"
    """The script ended before the loop was steady."""
    NO_TRAINING_LOOP = "no_training_loop"
    """No optimizer of torch.optim stepped."""
    SAMPLES_UNKNOWN = "samples_unknown"
    """The loop makes its own batches and ran well, but the number of samples in a batch is unknown."""
    SCRIPT_ERROR = "script_error"
    """The script failed by itself; its last lines are shown."""
    KILLED = "killed"
    """Something else ended it, with a signal."""
    HARM_DENIED = "harm_denied"
    """The script tried to change the user's files, and ended because the trial prevented it."""
    AGENT_ABSENT = "agent_absent"
    """Python started without tunekit's agent, as with `python -S`."""
    AGENT_ERROR = "agent_error"
    """The agent itself failed: a bug in tunekit that says nothing about the script or its config."""
    REFUSED = "refused"
    """Predicted RAM or /dev/shm exceeds what the machine grants, so it was not started."""
    COMPILE_NO_EFFECT = "compile_no_effect"
    """torch.compile changed nothing."""
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
    """What happened, with the relevant value."""
    remedy: str | None = None
    last_lines: tuple[str, ...] = Field(default=(), max_length=50)
    """The script's own last output lines."""
    largest: LargestSamples | None = None
    """What is known about the data set's largest samples, if a batch of them ended the trial."""
    returncode: int | None = None
    """Exit status, negative for a signal; None if the trial was ended from outside."""

    @property
    def text(self) -> str:
        """The kind and the message; only the message for a knob that isn't in force, as it says it all."""
        return self.message if self.kind is OutcomeKind.KNOB_NOT_APPLIED else f"{self.kind}: {self.message}"

    @property
    def with_remedy(self) -> str:
        """The text with its remedy, if there is one."""
        return "; ".join(filter(None, (self.text, self.remedy)))


class TrialRole(StrEnum):
    """The purpose of a trial."""

    BASELINE = "baseline"
    SEARCH = "search"
    CONFIRM = "confirm"
    """A fresh process of the baseline or of a chosen config, interleaved with the others."""
    NUMERICS = "numerics"
    """The baseline with only precision or compile changed, run for its losses, not its rate."""
    TRACE = "trace"
    """The baseline at another batch size, traced for a script that makes its own batches."""

    ABLATION = "ablation"
    """The answer's config with or without one knob reset, interleaved, to measure each knob's gain."""

    @property
    def is_candidate(self) -> bool:
        """Whether its config may be chosen for its rate, unlike trials that confirm or check losses."""
        return self in (TrialRole.BASELINE, TrialRole.SEARCH)


class WrittenFile(Record):
    """A write that didn't go where the script intended."""

    path: str
    action: Literal["diverted", "denied", "created"]


class TrialRecord(Record):
    """Everything that one trial recorded; a run is rebuilt from these."""

    schema_version: Literal[1] = SCHEMA_VERSION
    number: NonNegativeInt
    role: TrialRole
    round: NonNegativeInt | None = None
    """Number of the interleaved confirmation round, from 0."""
    config: TrainConfig | None
    """None if unknown: a baseline that ended before its loader was built."""
    is_baseline_config: bool
    """Whether the target ran exactly as the user runs it."""
    host_name: str | None = None
    """The machine that ran it in a shared search; None in a search on one machine."""
    started_at: str
    """ISO 8601, UTC."""
    duration_s: NonNegativeFloat
    measurement: Measurement | None = None
    failure: Failure | None = None
    dry: DryRun | None = None
    """Set instead of both for a trial that skipped the script's arithmetic and so has no rate."""
    discovery: Discovery | None = None
    learning_rate: NonNegativeFloat | None = None
    """The base learning rate of all optimizers; None if they differ or it is unknown."""
    step_numbers: tuple[StepNumber, ...] = Field(default=(), max_length=128)
    """Step counts in the script's schedules and step limits."""
    written: tuple[WrittenFile, ...] = Field(default=(), max_length=1000)
    faults: tuple[str, ...] = Field(default=(), max_length=100)
    """Faults of the file guard and of tunekit itself that the trial survived."""
    telemetry: Telemetry | None = None
    """None for a trial that ended before two samples were taken."""
    sandbox: SandboxKind | None = None
    """What protected the user's files in addition to the agent's guard; None if unknown."""
    processes: PositiveInt | None = None
    """Requested number of local processes; None for as many as the command starts."""
    no_sync: bool = False
    """Whether its ranks trained without summing gradients, after the first steps."""
    predicted_peaks: tuple[PeakAt, ...] = Field(default=(), max_length=64)
    """Device memory at several batch sizes, its own among them, predicted from the steps that it traced."""

    @model_validator(mode="after")
    def _one_outcome(self) -> Self:
        if sum(one is not None for one in (self.measurement, self.failure, self.dry)) != 1:
            raise ValueError("a trial has exactly one of a measurement, a failure and a dry run")
        return self

    @property
    def details(self) -> Details | None:
        """The details of the loop; None if none were requested, and for a failed trial."""
        seen = self.measurement or self.dry
        return seen.details if seen else None

    @property
    def rate_samples_per_s(self) -> float | None:
        """Measured samples/s; None for a failed trial and for a dry one."""
        return self.measurement.rate_samples_per_s if self.measurement else None

    @property
    def neighbours(self) -> tuple[GpuProcess, ...]:
        """Other processes that started on its GPUs during the trial and so weaken it as evidence."""
        gpus = self.telemetry.gpus if self.telemetry else ()
        return tuple(one for gpu in gpus if gpu.is_used for one in gpu.neighbours)

    @property
    def is_abandoned(self) -> bool:
        """Whether it was given up early as too slow: its rate is real but too uncertain for a choice."""
        return self.measurement is not None and self.measurement.loop.is_abandoned
