"""What a search, `tunekit profile` and `tunekit fits` learned, each rebuilt from its trials."""

import hashlib
import math
from enum import StrEnum
from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.config import KnobValue, Precision, TrainConfig
from tunekit.records.finding import Finding
from tunekit.records.host import Host
from tunekit.records.interval import Interval
from tunekit.records.options import CONFIRM, GPU, NO_PROGRESS_LIMIT, TRIAL_LIMIT
from tunekit.records.prediction import DevicePrediction, OutsideTorch
from tunekit.records.profile import Profile
from tunekit.records.recommendation import (
    Bottleneck,
    Candidate,
    ConfigFigures,
    KnobGain,
    LossCheck,
    MissingTier,
    ModelSummary,
    NoiseFloor,
    Outcome,
    Recommendation,
    ScalingRow,
    Untried,
    Verdict,
)
from tunekit.records.target import Discovery, Target
from tunekit.records.trial import TrialRecord
from tunekit.records.trials import Trials

_WINDOWS, _MIN_WINDOW_S = 60.0, 1.5
"""Windows that a budget has room for, as a trial takes a multiple of its window; the shortest window."""


class FixedKnob(Record):
    """A knob that the user took out of the search with `--fix`."""

    knob: str
    value: KnobValue


class KnobRange(Record):
    """Inclusive bounds that the user set on a numeric knob with `--range`."""

    knob: str
    low: NonNegativeInt
    high: NonNegativeInt


class Objective(StrEnum):
    """What a search optimises."""

    RATE = "rate"
    """The highest rate in samples/s over whole epochs."""
    FINISH_TIME = "finish-time"
    """The shortest time for the planned training, start-up and compilation included."""


class TrialOptions(Record):
    """Options of any verb that runs trials."""

    window_s: PositiveFloat = 5.0
    """How much steady-state time a trial aims to measure."""
    trial_limit_s: PositiveFloat = TRIAL_LIMIT.default
    """A trial that takes longer to measure is ended; start-up has a separate limit of the same length."""
    no_progress_limit_s: PositiveFloat = NO_PROGRESS_LIMIT.default
    """A trial that shows no batch, step or other work for this long is ended."""


class MeasuringOptions(TrialOptions):
    """Options of a verb that measures a GPU's speed."""

    gpu: str = GPU.default
    budget_s: PositiveFloat | None = None
    """Time limit for the whole verb; None for no limit."""
    wait_quiet_s: PositiveFloat | None = None
    """Longest time to wait while other programs use the CPUs; None for no wait."""
    ignored: tuple[str, ...] = ()
    """Codes of findings to leave out."""


class SearchOptions(MeasuringOptions):
    """Options of a search."""

    max_trials: PositiveInt | None = None
    """Maximum number of search trials; the baseline counts, confirmation doesn't."""
    fixed: tuple[FixedKnob, ...] = ()
    ranges: tuple[KnobRange, ...] = ()
    max_batch: PositiveInt | None = None
    """Largest batch_size to search."""
    base_lr: PositiveFloat | None = None
    base_batch: PositiveInt | None = None
    global_batch: PositiveInt | None = None
    """Samples per optimizer step over all ranks, which every config has to keep."""
    objective: Objective = Objective.RATE
    epochs: PositiveInt = 10
    """Epochs of the planned training."""
    epochs_given: bool = False
    """Whether the user gave the number of epochs; if not, it is only a default."""
    planned_steps: PositiveInt | None = None
    """Optimizer steps of the planned training with the user's own config."""
    confirm_rounds: PositiveInt = CONFIRM.default
    ablate: bool = False
    """Whether to measure what each changed knob of the answer contributes."""
    skip_data_check: bool = False
    """Whether to skip the check that the configs train on the same samples."""

    @property
    def asks_for_batch_size(self) -> bool:
        """Whether the user restricted the batch size."""
        fixed, bounded = ({one.knob for one in those} for those in (self.fixed, self.ranges))
        return "batch_size" in fixed | bounded or self.global_batch is not None


def usual_options(is_builtin: bool, budget_s: float | None = None) -> SearchOptions:
    """Return a search's default options: a built-in workload or a short budget makes it short."""
    usual = SearchOptions(budget_s=240.0, window_s=3.0) if is_builtin else SearchOptions()
    longest_s = max(_MIN_WINDOW_S, (budget_s or math.inf) / _WINDOWS)
    return usual.changed(window_s=min(usual.window_s, longest_s))


class KnobSpace(Record):
    """One knob of the search space."""

    knob: str
    values: tuple[KnobValue, ...] = Field(min_length=1)
    """Candidate values; only one when the knob isn't searched."""
    why_fixed: str | None = None
    """Why it isn't searched: fixed by the user, without effect here, out of reach, or tied to another
    knob."""
    batch_product: PositiveInt | None = None
    """For a knob that follows the batch size: the product of its value and batch_size."""

    @property
    def is_searched(self) -> bool:
        """Whether the search chooses this knob's value."""
        return len(self.values) > 1 and self.batch_product is None


class RunStatus(StrEnum):
    """How far a search got."""

    RUNNING = "running"
    INTERRUPTED = "interrupted"
    FAILED = "failed"
    FINISHED = "finished"


class TargetRecord(Record):
    """What trials on one machine showed about a target: the base of every verb's saved run."""

    schema_version: Literal[1] = SCHEMA_VERSION
    tunekit_version: str
    created_at: str
    """ISO 8601, UTC."""
    status: RunStatus
    commit: str | None = None
    """Commit of the working folder's git repository, with "-dirty" appended if tracked files differ from
    it."""
    target: Target
    host: Host
    profile: Profile
    """The profile of the requested GPU."""
    machine_findings: tuple[Finding, ...] = ()
    """Problems that the machine had before the first trial."""
    measured_on: str
    """Profile id, or device name, of the device that the trials actually ran on."""
    thread_variables: dict[str, str] = Field(default_factory=dict)
    """Those THREAD_VARIABLES that were set when tunekit ran; trials inherit them."""
    trials: tuple[TrialRecord, ...] = ()

    @property
    def id(self) -> str:
        """Its name in trackers and logs, which stays when the run is resumed."""
        return hashlib.sha256(f"{self.created_at} {self.target.name}".encode()).hexdigest()[:8]

    @property
    def machine_warnings(self) -> tuple[Finding, ...]:
        """The machine findings, without those of GPUs that are known to be unused by the trials."""
        seen = (trial.telemetry for trial in self.trials if trial.telemetry)
        used = {gpu.index for one in seen for gpu in one.gpus if gpu.is_used}
        return tuple(one for one in self.machine_findings if not used or one.gpu is None or one.gpu in used)

    @property
    def history(self) -> Trials:
        """The trials, grouped by their role."""
        return Trials(self.trials)

    @property
    def discovery(self) -> Discovery | None:
        """What is known about the target: the first complete discovery, else the last partial one."""
        return self.history.discovery

    @property
    def world_size(self) -> int:
        """Number of ranks of the target's training."""
        seen = [trial.measurement.loop.world_size for trial in self.trials if trial.measurement]
        return max([*seen, self.discovery.world_size if self.discovery else 1])

    @property
    def rank_host(self) -> Host:
        """The share of the host that each rank can use: the limits that a config has to respect."""
        return self.host.per_rank(self.world_size)

    @property
    def is_emulated(self) -> bool:
        """Whether the trials ran on another device than the requested one."""
        return self.measured_on != self.profile.id


class SecondStage(Record):
    """Confirmation rounds that were added because the first ones were inconclusive."""

    configs: tuple[TrainConfig, ...] = Field(min_length=1)
    """The configs that were run again, in addition to the baseline."""
    first_round: NonNegativeInt
    rounds: PositiveInt


class Run(TargetRecord):
    """Everything that one search learned."""

    options: SearchOptions
    shared_at: str | None = None
    """Address of the storage shared by the search's hosts, without credentials; None for a single host."""
    space: tuple[KnobSpace, ...] = ()
    noise_floor: NoiseFloor | None = None
    recommendations: tuple[Recommendation, ...] = ()
    missing_tiers: tuple[MissingTier, ...] = ()
    candidate: Candidate | None = None
    """The config whose gain is still open; only set where the answer is to keep the baseline's config."""
    outcome: Outcome = Outcome()
    """The search's result, worked out last."""
    baseline_figures: ConfigFigures | None = None
    """Measured figures of the baseline's config; None if it wasn't measured."""
    bottlenecks: tuple[Bottleneck, ...] = ()
    """The bottlenecks of the baseline's config and of the answering tier's, where these were measured."""
    loss_checks: tuple[LossCheck, ...] = ()
    bound_steps: PositiveInt | None = None
    """Step count of the unchanged training, read from the option bound to it; None if unbound or unknown."""
    longer_budget_s: PositiveFloat | None = None
    """A budget with which a finished search could try another config."""
    scaling: tuple[ScalingRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    script_scales_lr: bool = False
    """Whether the script itself scales its learning rate with the batch, so that no rule is applied."""
    knob_gains: tuple[KnobGain, ...] = ()
    """The gain of each knob that differs between the answer and the baseline and can be reset separately;
    empty if the user didn't ask for it or there was no time."""
    model: ModelSummary | None = None
    """The throughput model's predictions; None while the search runs, or with too few measured trials."""
    untried: Untried | None = None
    """The most promising untried config; None while the search runs, if none is left or no model could be
    fitted."""
    prediction: DevicePrediction | None = None
    """What fits the requested GPU, predicted from steps of the script's own loop; None on a CPU."""
    why_not_predicted: str | None = None
    """Why the prediction is missing, if one was wanted."""
    why_stopped: str | None = None
    """Why no further config was tried; None if time or --trials ended the search, or if it is still
    running."""
    cut_short: str | None = None
    """What was skipped for lack of time, and the budget that it needs; None if nothing was skipped."""
    second_stage: SecondStage | None = None
    """None if the first rounds were conclusive, if more would not help, or if there was no time for them."""
    budget_s: PositiveFloat | None = None
    """The search's budget: the user's, or the default derived from the baseline, or as extended on resume."""
    search_time_s: float = Field(default=0.0, ge=0)

    @property
    def known_budget_s(self) -> float | None:
        """The search's budget; None if the user gave none and the default isn't derived yet."""
        return self.budget_s or self.options.budget_s

    @property
    def baseline(self) -> TrialRecord | None:
        """The first baseline trial."""
        return self.history.baseline

    @property
    def baseline_config(self) -> TrainConfig | None:
        """The user's current knob values."""
        return self.baseline.config if self.baseline else None


class ProfileOptions(MeasuringOptions):
    """Options of `tunekit profile`."""

    fixed: tuple[FixedKnob, ...] = ()
    """Knobs to set before profiling; all others keep the script's values."""
    rounds: PositiveInt = 1
    """How many fresh processes of each config are run, interleaved."""
    kernels: bool = False
    ablate: bool = False
    against: str | None = None
    """The config file to compare with."""


class Contender(Record):
    """One config of a comparison, measured in fresh processes that took turns with the others."""

    name: str
    """"as it is", a file's name, or what was changed."""
    config: TrainConfig
    trials: tuple[int, ...]
    """Numbers of its trials, failed ones included."""
    rate_samples_per_s: Interval | None = None
    factor: Interval | None = None
    """Its rate over the first contender's, paired by round; None for the first contender."""
    verdict: Verdict | None = None
    """What that factor shows."""
    why_missing: str | None = None
    """Why it has no rate."""


class AblationStep(Record):
    """One optimisation: on its own, and added to the previous ones."""

    name: str
    changes: tuple[FixedKnob, ...] = Field(min_length=1)
    alone: Contender
    added: Contender | None = None
    """None for the first step, where it equals `alone`, and after a failed step."""
    step_factor: Interval | None = None
    """What this step gained on top of the previous ones."""


class Ablation(Record):
    """What each optimisation gains on its own and cumulatively."""

    steps: tuple[AblationStep, ...]
    left_out: tuple[str, ...] = ()
    """What was not tried, and why, such as "tf32: no effect on cpu"."""
    product_of_alone: PositiveFloat | None = None
    """The product of the separate factors: the total if the gains were independent."""
    together: Interval | None = None
    """The measured total."""
    together_verdict: Verdict | None = None


class LoopProfile(TargetRecord):
    """Everything that one `tunekit profile` learned, rebuilt from its trial records."""

    options: ProfileOptions
    contenders: tuple[Contender, ...] = ()
    """The profiled config, and the one it is compared with."""
    bottleneck: Bottleneck | None = None
    """The bottleneck of the first contender's loop."""
    noise_floor: NoiseFloor | None = None
    ablation: Ablation | None = None
    findings: tuple[Finding, ...] = ()
    """Findings on the first contender's loop."""
    profile_time_s: float = Field(default=0.0, ge=0)

    @property
    def profiled_trial(self) -> TrialRecord | None:
        """The trial with the first contender's figures: its first one with details, else its first."""
        asked = self.contenders[0].config if self.contenders else None
        measured = [
            trial
            for trial in self.trials
            if trial.measurement is not None and (asked is None or trial.config == asked)
        ]
        detailed = (one for one in measured if one.measurement and one.measurement.details is not None)
        return next(detailed, measured[0] if measured else None)


class FitsOptions(TrialOptions):
    """Options of `tunekit fits`."""

    gpus: tuple[str, ...] = ()
    """Profile ids of the GPUs to report on; empty for all."""
    batch_size: PositiveInt | None = None
    """The batch size to check against each GPU."""
    window_s: PositiveFloat = 2.0


class BatchFit(StrEnum):
    """Whether a batch size fits a GPU."""

    YES = "yes"
    """It fits with the margin and the worst-case memory outside torch."""
    TIGHT = "tight"
    """It may fit: it depends on what is only known within bounds."""
    NO = "no"
    """It doesn't fit even in the best case."""


class RequestedBatch(Record):
    """Prediction for the requested batch size, else the script's own, on one GPU in one precision."""

    profile_id: str
    precision: Precision
    batch_size: PositiveInt
    verdict: BatchFit
    reserved_bytes: NonNegativeInt
    """What torch reserves, without the margin."""
    min_bytes: NonNegativeInt
    """Least that is left for torch, after the worst-case memory outside it."""
    max_bytes: NonNegativeInt
    rate: Interval | None = None
    """Samples/s of one device at that batch; None if it doesn't fit, if an epoch has fewer samples, or if the
    GPU's rates are unknown."""
    compute: Interval | None = None
    """Samples/s that the GPU alone would reach; None as for `rate`."""
    loader: Interval | None = None
    """Samples/s that the loader could make there; None as for `rate`, or if the loader's speed is unknown."""


class GpuFacts(Record):
    """What a prediction used about one GPU, in addition to its profile's memory and rates."""

    profile_id: str
    outside: OutsideTorch
    instance: str | None = None
    """Provider and name of the machine whose vCPUs the loader uses."""
    vcpus: PositiveFloat | None = None
    """vCPUs of that machine per GPU."""


class FitsRun(TargetRecord):
    """Everything that one `tunekit fits` learned; the prediction is recomputed from the trial's files."""

    options: FitsOptions
    prediction: DevicePrediction | None = None
    why_not: str | None = None
    """Why there is no prediction; None also while the trial runs."""
    gpus: tuple[GpuFacts, ...] = ()
    asked: tuple[RequestedBatch, ...] = ()
    """One for each of the prediction's fits, at `batch_size`; empty if that is unknown."""
    fits_time_s: NonNegativeFloat = Field(default=0.0)

    @property
    def batch_size(self) -> int | None:
        """The requested batch per device, else the script's own; None if neither is known."""
        config = self.script_config
        return self.options.batch_size or (config.batch_size if config else None)

    @property
    def script_config(self) -> TrainConfig | None:
        """The config that the script trains with; None if it never got that far."""
        return next((trial.config for trial in self.trials if trial.config is not None), None)
