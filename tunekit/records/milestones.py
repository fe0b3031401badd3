"""A project's milestones: what each takes and costs, and the choices among their machines."""

from enum import StrEnum
from typing import Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.finding import Finding
from tunekit.records.interval import Interval
from tunekit.records.plan import ChoiceKind, PlanRequest, PlanRow


class HardwareKind(StrEnum):
    """What a milestone's hardware names."""

    GPU = "gpu"
    INSTANCE = "instance"
    PROVIDER = "provider"
    MEASURED = "measured"
    """The machine that the rate was measured on, whoever owns it."""


class Hardware(Record):
    """What a milestone has to run on."""

    kind: HardwareKind
    name: str
    """Profile id, or the name of the instance or provider."""
    typed: str | None = None
    """As it was written, where that is another name."""


class Milestone(Record):
    """One stage of a project: independent runs of a training, over some data."""

    name: str = Field(min_length=1, max_length=60)
    samples_per_epoch: PositiveInt
    data: str
    """The size of its data as it was written, such as "x4"."""
    epochs: PositiveInt
    """Of each run."""
    epochs_from: str | None = None
    """What gave its epochs; None for itself."""
    runs: PositiveInt = 1
    """Trainings that don't need each other, such as seeds or folds."""
    hardware: Hardware | None = None
    """None where it is left open."""
    gpus: PositiveInt | None = None
    """Of each machine; None where it is left open."""
    instances: PositiveInt | None = None
    """Machines that train at once; None for as many as there are runs."""
    validation_share: NonNegativeFloat = 0.0
    """Time of the validation, as a share of the time of the training."""
    checkpoint_every_s: PositiveFloat | None = None
    """Work between two checkpoints; None for the best, where they are needed."""

    @model_validator(mode="after")
    def _machines_have_runs(self) -> Self:
        if self.instances is not None and self.instances > self.runs:
            raise ValueError(f"{self.instances} instances have only {self.runs} runs to share; give fewer")
        return self


class RunsWay(StrEnum):
    """How the runs of a milestone share machines."""

    ONE = "one run"
    IN_TURN = "in turn"
    """One machine, one run after another, each on all its GPUs."""
    INSTANCES = "at once"
    """Several machines at once, each run on all GPUs of one."""
    GPUS = "a GPU each"
    """As many runs at once as a machine has GPUs, each on one of them."""


class MilestoneOption(Record):
    """A milestone on one kind of machine, in one way. Hours and dollars are those of all its runs."""

    milestone: str
    way: RunsWay
    machines: PositiveInt
    """That train at once."""
    machine_gpus: PositiveInt
    """Of each machine."""
    row: PlanRow
    """One run of it: on the whole machine, or on the part of it that a run has."""
    on_spot: bool
    hours: Interval
    """Until the last run is done."""
    usd: Interval | None
    """None on a machine of the user's own whose price nobody said."""
    epoch_hours: Interval
    """Of one run's epoch, with what belongs to it."""
    iterations_per_epoch: PositiveInt | None
    """Optimizer steps; None where the samples of one are not known."""
    sessions: Interval | None = None
    """Of all runs; None where they are not limited."""
    validation_hours: Interval | None = None
    """Machine hours of all runs; None without validation."""
    validation_usd: Interval | None = None
    checkpoint_hours: Interval | None = None
    """Machine hours of all runs; None where no checkpoint is written."""
    checkpoint_usd: Interval | None = None


class GivenUp(Record):
    """A choice beside another one."""

    beside: ChoiceKind
    hours_more: float
    """Negative where it takes less."""
    usd_more: float | None
    """Negative where it costs less; None where dollars are unknown."""


class Programme(Record):
    """All milestones, one after another, with a machine for each."""

    kind: ChoiceKind
    options: tuple[MilestoneOption, ...] = Field(min_length=1)
    """In the order of the milestones."""
    hours: Interval
    usd: Interval | None
    """Of the milestones that have a price; None where none has."""
    hours_over: PositiveFloat | None = None
    """Beyond the deadline; None where it is held."""
    usd_over: PositiveFloat | None = None
    """Beyond the most dollars; None where they are held."""
    given_up: tuple[GivenUp, ...] = ()


class GpuBreakEven(Record):
    """From when on a faster, dearer GPU costs no more in all, its start counted."""

    row: PlanRow
    beside: PlanRow
    """The machine that it is held against."""
    usd_per_h: PositiveFloat
    beside_usd_per_h: PositiveFloat
    usd_per_epoch: Interval
    beside_usd_per_epoch: Interval
    start_usd: NonNegativeFloat
    """What starting on it costs more, a search of its own included where the rate comes from one."""
    epochs: NonNegativeFloat | None
    """By the expected figures; None where it never does."""
    hours: NonNegativeFloat | None
    """Of those epochs on the dearer GPU."""
    epochs_low: NonNegativeFloat | None
    """At the best end of its range."""
    epochs_high: NonNegativeFloat | None
    """At the worst end of its range; None for never."""


class TuningBreakEven(Record):
    """What the search took, against what its speed-up saves on the machine that it was made on."""

    search_hours: PositiveFloat
    usd_per_h: PositiveFloat | None
    """Of that machine; None where its price is not known."""
    speedup: Interval
    epochs: NonNegativeFloat | None
    """Of the run's data set, after which the search is paid back; None for never."""
    hours: NonNegativeFloat | None = None
    """Of training at the tuned rate until then; None for never."""
    epochs_low: NonNegativeFloat | None
    epochs_high: NonNegativeFloat | None
    saved_hours: Interval
    """Over all runs of all milestones, on that machine; a loss is below 0."""


class MilestonePlan(Record):
    """What milestones take and cost, and the machines that stand out."""

    schema_version: Literal[1] = SCHEMA_VERSION
    made_on: str = Field(pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$")
    """The day that prices were judged old or new by."""
    request: PlanRequest
    """The training that the milestones are made of; data sizes are multiples of its data set."""
    milestones: tuple[Milestone, ...] = Field(min_length=1)
    drops_last: bool
    """Whether an epoch leaves out its last, partial batch."""
    max_usd: PositiveFloat | None = None
    deadline: str | None = None
    """As it was written."""
    deadline_h: PositiveFloat | None = None
    """Hours from now until then."""
    choices: tuple[Programme, ...] = ()
    """Those that hold both limits; none where nothing does."""
    left_out: tuple[Programme, ...] = ()
    """What would stand out but for the limits."""
    nearest: tuple[Programme, ...] = ()
    """Where nothing holds both limits: what holds one of them, or comes nearest to it."""
    together: tuple[MilestoneOption, ...] = ()
    """Of milestones with several runs: the cheapest with an instance of one GPU for each, and the
    cheapest with a GPU for each on instances of several."""
    gpu_break_evens: tuple[GpuBreakEven, ...] = ()
    """Dearer, faster GPUs, those with the least dollars for an epoch first."""
    tuning: TuningBreakEven | None = None
    """None where the rate comes from no search."""
    with_quota: tuple[str, ...] = ()
    """Machines that are left out, as all runs of all milestones would share their weekly quota."""
    findings: tuple[Finding, ...] = ()
    """Of the machines of the choices, or of what comes nearest."""
    sources: tuple[str, ...] = ()
    """Where the prices of the choices come from."""
