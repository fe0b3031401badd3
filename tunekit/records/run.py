"""One whole search: rebuilt from its trial records, readable without tunekit."""

from enum import StrEnum
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.config import KnobValue, TrainConfig
from tunekit.records.finding import Finding
from tunekit.records.host import Host
from tunekit.records.model_summary import ModelSummary
from tunekit.records.prediction import DevicePrediction
from tunekit.records.profile import Profile
from tunekit.records.recommendation import MissingTier, NoiseFloor, Recommendation, ScalingRow
from tunekit.records.target import Discovery, Target
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import Trials


class FixedKnob(Record):
    """A knob that the user took out of the search with `--fix`."""

    knob: str
    value: KnobValue


class KnobRange(Record):
    """Bounds that the user set on a numeric knob with `--range`, both included."""

    knob: str
    low: NonNegativeInt
    high: NonNegativeInt


class Objective(StrEnum):
    """What a search looks for."""

    RATE = "rate"
    """The most samples/s over whole epochs."""
    FINISH_TIME = "finish-time"
    """The shortest planned training, with its start-up and compiling."""


class SearchOptions(Record):
    """What the user asked of a search."""

    gpu: str = "auto"
    budget_s: PositiveFloat | None = None
    """Of the whole search; None for as long as about a dozen trials and their confirmation need."""
    max_trials: PositiveInt | None = None
    """Search trials, the baseline included, confirmation not."""
    fixed: tuple[FixedKnob, ...] = ()
    ranges: tuple[KnobRange, ...] = ()
    base_lr: PositiveFloat | None = None
    base_batch: PositiveInt | None = None
    global_batch: PositiveInt | None = None
    """Samples per optimizer step over all ranks that every config has to keep."""
    objective: Objective = Objective.RATE
    epochs: PositiveInt = 10
    """Epochs of the planned training."""
    epochs_given: bool = False
    """Whether the user said so; else the number is no promise."""
    planned_steps: PositiveInt | None = None
    """Optimizer steps of the planned training, with the user's own config."""
    confirm_rounds: PositiveInt = 5
    trial_limit_s: PositiveFloat = 300.0
    """A trial that has not finished measuring by then is ended; until its loop runs it has as long again."""
    no_progress_limit_s: PositiveFloat = 90.0
    """A trial without a batch, a step or other work for this long is ended."""
    window_s: PositiveFloat = 5.0
    """Steady time that a trial aims to measure."""
    ignored: tuple[str, ...] = ()
    """Codes of findings to leave out."""


class KnobSpace(Record):
    """One knob of the search space."""

    knob: str
    values: tuple[KnobValue, ...] = Field(min_length=1)
    """Candidates; one value when the knob is not searched."""
    why_fixed: str | None = None
    """Why it is not searched: fixed by the user, inert here, out of reach, or following another knob."""
    batch_product: PositiveInt | None = None
    """The knob follows the batch size: its value times batch_size is this."""

    @property
    def is_searched(self) -> bool:
        """Whether the search chooses its value."""
        return len(self.values) > 1 and self.batch_product is None


class RunStatus(StrEnum):
    """How far a search came."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    FINISHED = "finished"


class TargetRecord(Record):
    """What trials on a machine tell of a target: the base of a search's run and of a loop profile."""

    schema_version: Literal[1] = SCHEMA_VERSION
    tunekit_version: str
    created_at: str
    """ISO 8601, UTC."""
    status: RunStatus
    target: Target
    host: Host
    profile: Profile
    """Of the GPU that was asked for."""
    machine_findings: tuple[Finding, ...] = ()
    """What was wrong with the machine before the first trial."""
    measured_on: str
    """Profile id, or device name, of the device that the trials really ran on."""
    trials: tuple[TrialRecord, ...] = ()

    @property
    def history(self) -> Trials:
        """The trials by what they were run for."""
        return Trials(self.trials)

    @property
    def discovery(self) -> Discovery | None:
        """What is known of the target: the first complete discovery, else the last partial one."""
        return self.history.discovery

    @property
    def world_size(self) -> int:
        """Processes that train together in the target."""
        seen = [trial.measurement.loop.world_size for trial in self.trials if trial.measurement]
        return max([*seen, self.discovery.world_size if self.discovery else 1])

    @property
    def rank_host(self) -> Host:
        """The share of the host that each of them can use; the limits that a config is held against."""
        return self.host.per_rank(self.world_size)

    @property
    def is_emulated(self) -> bool:
        """Whether the trials ran on another device than the one asked for."""
        return self.measured_on != self.profile.id


class Run(TargetRecord):
    """Everything one search learned."""

    options: SearchOptions
    space: tuple[KnobSpace, ...] = ()
    noise_floor: NoiseFloor | None = None
    recommendations: tuple[Recommendation, ...] = ()
    missing_tiers: tuple[MissingTier, ...] = ()
    scaling: tuple[ScalingRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    script_scales_lr: bool = False
    """Whether the script was seen to scale its learning rate with the batch, so that no rule is applied."""
    model: ModelSummary | None = None
    """Predicted; None while the search runs, and with too few measured trials to tell."""
    prediction: DevicePrediction | None = None
    """What fits the GPU that was asked for, by steps of the script's own loop; None on a CPU."""
    why_not_predicted: str | None = None
    """Why it is missing where one was wanted."""
    why_stopped: str | None = None
    """Why no further config was tried; None where time or --trials ended the search, or it goes on."""
    cut_short: str | None = None
    """What the budget had no room for, with a budget that would have; None where nothing was left out."""
    budget_s: PositiveFloat | None = None
    """That the search had: the user's, or as it was set once the baseline was known."""
    search_time_s: float = Field(default=0.0, ge=0)

    @property
    def baseline(self) -> TrialRecord | None:
        """The first baseline trial."""
        return self.history.baseline

    @property
    def baseline_config(self) -> TrainConfig | None:
        """The knob values that the user has now."""
        return self.baseline.config if self.baseline else None
