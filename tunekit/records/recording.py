"""A recording of a real training: the loop's and the machine's figures in intervals, and what follows."""

from typing import Literal, TypeVar

from pydantic import ConfigDict, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.finding import Finding


class _Stretch(Record):
    """Figures of some seconds; unless a field says otherwise they are sums over the interval."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)
    at_s: PositiveFloat
    """Its start, in seconds since the epoch of Unix."""
    duration_s: NonNegativeFloat

    @property
    def end_s(self) -> float:
        """Its end, in seconds since the epoch of Unix."""
        return self.at_s + self.duration_s


class LoopInterval(_Stretch):
    """What the loop did in one interval, as the agent saw it in one rank."""

    steps: NonNegativeInt
    """Optimizer steps."""
    batches: NonNegativeInt
    """Batches of the training loader; 0 without a loader."""
    samples: NonNegativeInt
    tokens: NonNegativeInt = 0
    """Elements of `input_ids`, padding included."""
    step_s: NonNegativeFloat
    """Time in steps, without what follows."""
    wait_s: NonNegativeFloat
    """Wait for the training loader."""
    checkpoint_s: NonNegativeFloat = 0.0
    checkpoints: NonNegativeInt = 0
    validation_s: NonNegativeFloat = 0.0
    other_s: NonNegativeFloat = 0.0
    """Long pauses without a known reason."""
    epoch: NonNegativeInt = 0
    """Epochs that had begun when the interval ended."""
    epoch_batch: NonNegativeInt = 0
    epoch_batches: PositiveInt | None = None
    world_size: PositiveInt = 1

    @property
    def iterations(self) -> int:
        """Batches, or steps of a loop without a loader; the first step, whose time is unknown, is none."""
        return self.batches or (self.steps if self.duration_s else 0)


class HostInterval(_Stretch):
    """What the training's processes and GPUs did in one interval, as seen from outside."""

    cpu_s: NonNegativeFloat
    others_cpu_s: NonNegativeFloat
    """CPU time of all other processes of the machine, and what its hypervisor took."""
    read_bytes: NonNegativeFloat
    pss_bytes: NonNegativeInt
    """The highest."""
    gpu_busy_s: NonNegativeFloat | None = None
    """Mean over the GPUs that the training uses."""
    vram_bytes: NonNegativeInt | None = None
    """The highest, on the fullest GPU: all of its memory where the driver doesn't divide it by process."""


AnyInterval = TypeVar("AnyInterval", LoopInterval, HostInterval)


class RecordingStart(Record):
    """What is known when a recording begins: recording.json."""

    schema_version: Literal[1] = SCHEMA_VERSION
    tunekit_version: str
    started_at_s: PositiveFloat
    """In seconds since the epoch of Unix."""
    command: tuple[str, ...]
    pid: PositiveInt
    """The training's first process."""
    has_loop: bool = True
    """Whether an agent records the loop; not if the training ran already."""
    cpus: PositiveInt
    ram_limit_bytes: PositiveInt
    gpus: dict[int, str]
    """Names of the GPUs that the training may use, by their place in the driver's order."""
    vram_limit_bytes: PositiveInt | None = None
    """Memory of the smallest of them."""
    usd_per_h: NonNegativeFloat | None = None
    """The given price."""


class Change(Record):
    """A figure that rose for good at some time."""

    at_s: PositiveFloat
    """In seconds since the epoch of Unix."""
    before: NonNegativeFloat
    after: NonNegativeFloat
    others_cpus: float
    """By how many CPUs the use of other processes rose then."""


class Growth(Record):
    """Memory that grows steadily."""

    bytes_per_h: NonNegativeFloat
    grown_bytes: NonNegativeFloat
    """Over the time that is looked at."""
    last_bytes: NonNegativeFloat
    hours_left: NonNegativeFloat | None
    """Until it reaches the limit; None without one."""


class RecordingRates(Record):
    """Rates and loads of some time; None of what is unknown."""

    it_per_s: float | None = None
    """Of one rank; the other rates are of all ranks together."""
    samples_per_s: float | None = None
    tokens_per_s: float | None = None
    data_wait_share: float | None = None
    gpu_busy_share: float | None = None
    vram_bytes: NonNegativeInt | None = None
    """The highest."""
    pss_bytes: NonNegativeInt | None = None
    """The highest."""
    cpus: float | None = None
    """CPUs in use by the training."""
    read_bytes_per_s: float | None = None


class RecordingFigures(Record):
    """What a recording shows of the whole training so far."""

    elapsed_s: NonNegativeFloat
    """Since the command started."""
    start_s: NonNegativeFloat
    """Until the first step."""
    step_s: NonNegativeFloat = 0.0
    wait_s: NonNegativeFloat = 0.0
    checkpoint_s: NonNegativeFloat = 0.0
    validation_s: NonNegativeFloat = 0.0
    other_s: NonNegativeFloat = 0.0
    """Pauses without a known reason, and what came after the last step."""
    checkpoints: NonNegativeInt = 0
    steps: NonNegativeInt = 0
    iterations: NonNegativeInt = 0
    goodput: float | None = None
    """Time in training steps over all time."""
    rates: RecordingRates = RecordingRates()
    step_change: Change | None = None
    """Seconds per iteration, without waits and pauses."""
    wait_change: Change | None = None
    """Seconds per iteration."""
    ram: Growth | None = None
    vram: Growth | None = None
    usd: NonNegativeFloat | None = None


class Recording(Record):
    """A recording as it is read from its folder."""

    schema_version: Literal[1] = SCHEMA_VERSION
    start: RecordingStart
    loop: tuple[LoopInterval, ...]
    host: tuple[HostInterval, ...]
    ended_at_s: PositiveFloat | None
    """When the training ended, or was last seen if its end was not; None if it goes on."""
    epochs: PositiveInt | None = None
    """Epochs that the script was asked for, by the option of its parser."""
    max_steps: PositiveInt | None = None
    """Steps that it was asked for."""
    figures: RecordingFigures
    findings: tuple[Finding, ...] = ()


class MonitorReading(Record):
    """The training now: a line of `tunekit monitor --json`."""

    schema_version: Literal[1] = SCHEMA_VERSION
    time: str
    pid: PositiveInt
    latest: RecordingRates
    """Of the last seconds."""
    figures: RecordingFigures
    """Of the whole training so far."""
    epoch: PositiveInt | None
    epochs: PositiveInt | None
    eta_s: NonNegativeFloat | None
    findings: tuple[Finding, ...]
