"""What the parent requests of the agent, and what the agent reports.

Events come from a process that runs other people's code: they are validated here, field by field,
before anything uses them.
"""

from enum import StrEnum
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import (
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    TypeAdapter,
)

from tunekit.records.base import Record
from tunekit.records.config import KnobValue
from tunekit.records.details import Detail, Details
from tunekit.records.host import SandboxKind
from tunekit.records.measurement import THREAD_VARIABLES, DryLoop, LoopMeasurement
from tunekit.records.target import Discovery, LoaderAddress, RootSeen, ScriptOption, StepNumber

_MAX_COUNTED = 1 << 53


class Arithmetic(StrEnum):
    """What a script's training on a CPU can skip computing in a trial."""

    NOTHING = "nothing"
    TRACED = "traced"
    """Arithmetic is skipped in the steps of Detail.TRACE."""
    ALL = "all"
    """Arithmetic is skipped from the first forward pass on: nothing is measured and the details start
    immediately."""


class AgentRequest(Record):
    """The content of a trial's request.json."""

    schema_version: Literal[1] = 1
    mode: Literal["observe", "apply", "record"] = "observe"
    records: bool = False
    """apply: whether the loop is also recorded, as with record."""
    trial_folder: str
    working_dir: str
    """The script's working folder."""
    scratch_folder: str
    """Folder with a short path for sockets and the like; the keeper removes it."""
    writable_folders: tuple[str, ...] = ()
    """observe: what the trial's processes may write to in addition to these two."""
    sandbox: SandboxKind = "none"
    """observe: what confines the trial's writes; without an overlay the agent redirects Python's."""
    started_at_s: PositiveFloat
    """When the trial started, in seconds since the epoch."""
    knobs: dict[str, KnobValue | float] = Field(default_factory=dict)
    """Knob values to set inside the process."""
    no_sync: bool = False
    """Whether DistributedDataParallel stops summing gradients after the first steps."""
    loader: LoaderAddress | None
    """The training loader; None for the baseline, which discovers it."""
    roots: tuple[RootSeen, ...]
    redirected: dict[str, str] = Field(default_factory=dict)
    """Rewritten copies of the user's files; reads of the key's path return the copy."""
    option_names: tuple[str, ...] = ()
    """Names of the script's command-line options to report, without separators; others are never reported."""
    thread_variables: tuple[str, ...] = THREAD_VARIABLES
    """Names of environment variables to report with the thread counts."""
    samples_per_step: int | None = None
    """Samples per batch of a script without a DataLoader; None if unknown."""
    world_size: PositiveInt = 1
    """apply: number of processes that trained together when the config was measured."""
    promised_it_per_s: tuple[float, float] | None = None
    """apply: the expected range of loop batches per second, which the real rate is compared with."""
    batches_per_step: PositiveInt = 1
    details: tuple[Detail, ...] = ()
    """What to examine once the measurement is complete."""
    skips: Arithmetic = Arithmetic.TRACED
    """What isn't computed if the script trains on a CPU."""
    sizes: tuple[PositiveInt, ...] = Field(default=(), max_length=64)
    """Batch sizes for Detail.SIZES, in the order to try them."""
    rate_to_beat: PositiveFloat | None = None
    """Steady samples/s of one rank; a loop that is clearly slower is given up early."""
    device_memory_bytes: PositiveInt | None = None
    """observe: limit on what torch may reserve on a CUDA device, to emulate a smaller GPU; None for no limit.
    A real training (apply) is never limited."""
    ram_bytes: PositiveInt | None = None
    """RAM limit for all processes of the trial together; None if unknown."""
    window_s: PositiveFloat
    interval_goal: PositiveFloat = 0.02


class AgentEvent(Record):
    """Base of everything the agent reports."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)
    time_s: float


class StartEvent(AgentEvent):
    """The agent runs in this process."""

    event: Literal["start"]
    pid: NonNegativeInt
    image: NonNegativeInt = 0
    """Address where its stack starts: forked children share it, executed programs have another; 0 if
    unknown."""


class ProgressEvent(AgentEvent):
    """The loop moved."""

    event: Literal["progress"]
    phase: str = Field(max_length=40)
    batches: NonNegativeInt
    steps: NonNegativeInt
    wait_s: NonNegativeFloat
    """Time spent in the loader's next() so far."""


class KnobsApplied(Record):
    """Where the knobs were set in the training process."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    addressed: bool
    """Whether the training loader is the one at the requested address."""
    roots_applied: tuple[RootSeen, ...]


class RankTurn(Record):
    """A rank's progress when it requested its latest batch."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    at_s: PositiveFloat
    """Time in seconds since the epoch."""
    samples: NonNegativeInt = Field(le=_MAX_COUNTED)
    """Samples that it had trained on by then."""
    batches: NonNegativeInt = Field(le=_MAX_COUNTED)
    """Batches that it had trained on by then, or steps of a loop that makes its own batches."""


class RankEvent(AgentEvent):
    """A rank of a distributed job, with its device memory."""

    event: Literal["rank"]
    rank: NonNegativeInt
    world_size: NonNegativeInt
    peak_allocated_bytes: NonNegativeInt | None = None
    peak_reserved_bytes: NonNegativeInt | None = None
    allocation_retries: NonNegativeInt | None = None
    turn: RankTurn | None = None
    """None before its loop is known."""


class OptionsEvent(AgentEvent):
    """A command-line parser in this process has parsed; reports every option known so far."""

    event: Literal["options"]
    pid: NonNegativeInt
    options: tuple[ScriptOption, ...] = Field(max_length=64)


class LearntEvent(AgentEvent):
    """The loop's parts are known."""

    event: Literal["learnt"]
    pid: NonNegativeInt = 0
    discovery: Discovery
    applied: KnobsApplied
    step_numbers: tuple[StepNumber, ...] = Field(default=(), max_length=64)
    """Step counts of the schedulers that are stepped with the optimizer."""


class RerunsMainEvent(AgentEvent):
    """A process started by spawn or forkserver requests a batch while it imports the script."""

    event: Literal["reruns_main"]


class DoneEvent(AgentEvent):
    """The measurement is complete."""

    event: Literal["done"]
    loop: LoopMeasurement | DryLoop
    is_final: bool = True
    """Whether the process now only waits to be ended; else it examines details and reports again."""
    details: Details | None = None
    """The details examined so far."""
    next_within_s: NonNegativeFloat = 0.0
    """Time limit of the detail in progress, checked at the loop's next turn; 0 if none is in progress."""


class NonfiniteEvent(AgentEvent):
    """The last loss was NaN or infinite."""

    event: Literal["nonfinite"]
    loss: str = Field(max_length=40)
    steps: NonNegativeInt


class ByHandEvent(AgentEvent):
    """The loop seems to update its parameters without a torch optimizer."""

    event: Literal["by_hand"]
    passes: NonNegativeInt
    """How often it computed gradients."""
    changes: NonNegativeInt
    """How often parameters had changed afterwards; 0 if no change could be observed."""
    seconds: NonNegativeFloat
    """Time since the first gradients."""


class ErrorSeen(Record):
    """The exception that ended the script."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    types: tuple[str, ...] = Field(min_length=1, max_length=32)
    """Qualified names along the exception's method resolution order."""
    message: str
    traceback: tuple[str, ...] = Field(max_length=100)
    raised_in: str = ""
    """Module and function of the innermost stack frame."""
    worker_exit_codes: tuple[int, ...] = Field(default=(), max_length=1000)
    """Exit statuses of the failed workers of the loader that was making a batch."""
    device_free_share: float | None = Field(default=None, ge=0, le=1)
    """Free share of the memory of the process's fullest CUDA device; None if it can no longer be read."""


class ExitEvent(AgentEvent):
    """The interpreter shut down before the measurement was complete."""

    event: Literal["exit"]
    steps: NonNegativeInt
    batches: NonNegativeInt
    gradients: NonNegativeInt = 0
    """Backward passes, and calls of torch.autograd.grad, before the first optimizer step."""
    error: ErrorSeen | None


class WrittenEvent(AgentEvent):
    """A write didn't go where the script intended."""

    event: Literal["written"]
    path: str = Field(max_length=4096)
    action: Literal["diverted", "denied", "created"]


class GuardErrorEvent(AgentEvent):
    """The file guard failed once; the script's call went through unchanged, or was refused."""

    event: Literal["guard_error"]
    message: str


class AgentErrorEvent(AgentEvent):
    """The agent itself failed; the script continues."""

    event: Literal["agent_error"]
    message: str
    place: str = ""
    """File, line and function where it failed."""
    knobs: tuple[str, ...] = Field(default=(), max_length=32)
    """Knobs that it could not set, if it failed while setting them."""
    is_over: bool = True
    """Whether the agent stopped observing; if not, only one figure is missing."""
    traceback_file: str | None = None
    """File in the trial's folder; None if it could not be written."""
    error: ErrorSeen | None = None
    """The exception; None if it could not be inspected."""


_ANY_EVENT: Any = Annotated[reduce(or_, AgentEvent.__subclasses__()), Field(discriminator="event")]
_EVENT: TypeAdapter[AgentEvent] = TypeAdapter(_ANY_EVENT)


def parse_event(line: str | bytes) -> AgentEvent:
    """Return the event in one line of an event file.

    Raises:
        pydantic.ValidationError: the line isn't an event that this tunekit knows.
    """
    return _EVENT.validate_json(line)
