"""What the parent asks of the agent, and what the agent reports.

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
    """What a script's training on a CPU need not compute for a trial."""

    NOTHING = "nothing"
    TRACED = "traced"
    """The steps of Detail.TRACE."""
    ALL = "all"
    """Everything from the first forward on: nothing is measured, and the details follow at once."""


class AgentRequest(Record):
    """request.json of one trial."""

    schema_version: Literal[1] = 1
    mode: Literal["observe", "apply"] = "observe"
    trial_folder: str
    working_dir: str
    """Of the script."""
    scratch_folder: str
    """Short-named folder for sockets and the like; the keeper removes it."""
    writable_folders: tuple[str, ...] = ()
    """observe: what the trial's processes may write to beside these two."""
    sandbox: SandboxKind = "none"
    """observe: what holds the trial's writes; without an overlay the agent redirects those of Python."""
    started_at_s: PositiveFloat
    """When the trial started, in seconds since the epoch."""
    knobs: dict[str, KnobValue | float] = Field(default_factory=dict)
    """What to set inside the process."""
    no_sync: bool = False
    """Whether DistributedDataParallel stops summing gradients after the first steps."""
    loader: LoaderAddress | None
    """The training loader; None at the baseline, which learns it."""
    roots: tuple[RootSeen, ...]
    redirected: dict[str, str] = Field(default_factory=dict)
    """Rewritten copies of the user's files, by the real path whose reads see them."""
    option_names: tuple[str, ...] = ()
    """Plain names of the options of the script's command line to report; others never are."""
    thread_variables: tuple[str, ...] = THREAD_VARIABLES
    """Names of environment variables to report beside the thread counts."""
    samples_per_step: int | None = None
    """Samples in a batch of a script without a DataLoader, None where they are not known."""
    world_size: PositiveInt = 1
    """apply: processes that trained together when the config was measured."""
    promised_it_per_s: tuple[float, float] | None = None
    """apply: the range that the real rate is watched against."""
    batches_per_step: PositiveInt = 1
    details: tuple[Detail, ...] = ()
    """What to look at once the measurement is complete."""
    skips: Arithmetic = Arithmetic.TRACED
    """What is not computed where the script trains on a CPU."""
    sizes: tuple[PositiveInt, ...] = Field(default=(), max_length=64)
    """Batch sizes for Detail.SIZES, in the order in which they are tried."""
    rate_to_beat: PositiveFloat | None = None
    """Steady samples/s of one rank below which, surely, the measurement is given up early."""
    device_memory_bytes: PositiveInt | None = None
    """observe: what torch may reserve on a CUDA device, as on a smaller GPU; None for all that it has. A real
    training (apply) is never held to less than there is."""
    ram_bytes: PositiveInt | None = None
    """What all processes of the trial may take; None for an unknown limit."""
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
    """Where its stack starts: forked children share it, what it executes has another; 0 if unknown."""


class ProgressEvent(AgentEvent):
    """The loop moved."""

    event: Literal["progress"]
    phase: str = Field(max_length=40)
    batches: NonNegativeInt
    steps: NonNegativeInt
    wait_s: NonNegativeFloat
    """In the loader's next() so far."""


class KnobsApplied(Record):
    """Where the knobs were set in the training process."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    addressed: bool
    """Whether the loader that trains is the one that the address meant."""
    roots_applied: tuple[RootSeen, ...]


class RankTurn(Record):
    """How far a rank had come when it asked for its latest batch."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    at_s: PositiveFloat
    """In seconds since the epoch."""
    samples: NonNegativeInt = Field(le=_MAX_COUNTED)
    """That it had trained on by then."""
    batches: NonNegativeInt = Field(le=_MAX_COUNTED)
    """Of which these were; steps of a loop that makes its batches itself."""


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
    """A parser of this process's command line has parsed; every option that is known by now."""

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
    """Of the schedulers that are stepped with the optimizer."""


class RerunsMainEvent(AgentEvent):
    """A process that spawn or forkserver started asks a loader for a batch while it imports the script."""

    event: Literal["reruns_main"]


class DoneEvent(AgentEvent):
    """The measurement is complete."""

    event: Literal["done"]
    loop: LoopMeasurement | DryLoop
    is_final: bool = True
    """Whether the process now waits for its end; else it looks at details and reports again."""
    details: Details | None = None
    """What was looked at so far."""
    next_within_s: NonNegativeFloat = 0.0
    """When what is looked at now is given up, at the loop's next turn; 0 where nothing is."""


class NonfiniteEvent(AgentEvent):
    """The last loss was NaN or infinite."""

    event: Literal["nonfinite"]
    loss: str = Field(max_length=40)
    steps: NonNegativeInt


class ByHandEvent(AgentEvent):
    """The loop updates its parameters without an optimizer of torch, as far as can be seen."""

    event: Literal["by_hand"]
    passes: NonNegativeInt
    """Gradients that it asked for."""
    changes: NonNegativeInt
    """Those after which parameters had changed; 0 where no parameter could be seen to."""
    seconds: NonNegativeFloat
    """Since the first."""


class ErrorSeen(Record):
    """The exception that ended the script."""

    model_config = ConfigDict(frozen=True, extra="ignore")
    types: tuple[str, ...] = Field(min_length=1, max_length=32)
    """Qualified names along the exception's method resolution order."""
    message: str
    traceback: tuple[str, ...] = Field(max_length=100)
    raised_in: str = ""
    """Module and function of the innermost frame."""
    worker_exit_codes: tuple[int, ...] = Field(default=(), max_length=1000)
    """Exit status of the workers that failed, of the loader that was being asked for a batch."""
    device_free_share: float | None = Field(default=None, ge=0, le=1)
    """Of the memory of the fullest CUDA device of the process; None where it can't be read any more."""


class ExitEvent(AgentEvent):
    """The interpreter shut down before the measurement was complete."""

    event: Literal["exit"]
    steps: NonNegativeInt
    batches: NonNegativeInt
    gradients: NonNegativeInt = 0
    """Backward passes, and calls of torch.autograd.grad, before the first optimizer step."""
    error: ErrorSeen | None


class WrittenEvent(AgentEvent):
    """A write did not go where the script meant."""

    event: Literal["written"]
    path: str = Field(max_length=4096)
    action: Literal["diverted", "denied", "created"]


class GuardErrorEvent(AgentEvent):
    """The guard of the user's files failed once; the call went on as the script meant it, or was refused."""

    event: Literal["guard_error"]
    message: str


class AgentErrorEvent(AgentEvent):
    """The agent itself failed; the script goes on."""

    event: Literal["agent_error"]
    message: str
    place: str = ""
    """Its file, line and function."""
    knobs: tuple[str, ...] = Field(default=(), max_length=32)
    """Those that it could not set, where it was at that."""
    is_over: bool = True
    """Whether it observes no more; else one figure is missing."""
    traceback_file: str | None = None
    """In the trial's folder; None where it could not be written."""
    error: ErrorSeen | None = None
    """None where it could not be looked at."""


_ANY_EVENT: Any = Annotated[reduce(or_, AgentEvent.__subclasses__()), Field(discriminator="event")]
_EVENT: TypeAdapter[AgentEvent] = TypeAdapter(_ANY_EVENT)


def parse_event(line: str | bytes) -> AgentEvent:
    """Return the event in one line of an event file.

    Raises:
        pydantic.ValidationError: the line is no event that this tunekit knows.
    """
    return _EVENT.validate_json(line)
