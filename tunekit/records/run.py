"""What a search, `tunekit profile` and `tunekit fits` learned of a target: each rebuilt from its trials."""

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


class TrialOptions(Record):
    """What the user asked of any verb that runs trials."""

    window_s: PositiveFloat = 5.0
    """Steady time that a trial aims to measure."""
    trial_limit_s: PositiveFloat = TRIAL_LIMIT.default
    """A trial that has not finished measuring by then is ended; until its loop runs it has as long again."""
    no_progress_limit_s: PositiveFloat = NO_PROGRESS_LIMIT.default
    """A trial without a batch, a step or other work for this long is ended."""


class MeasuringOptions(TrialOptions):
    """What the user asked of a verb that measures a GPU's speed."""

    gpu: str = GPU.default
    budget_s: PositiveFloat | None = None
    """Time for the whole of it; None for as long as its trials need."""
    wait_quiet_s: PositiveFloat | None = None
    """Longest wait for other programs to leave the CPUs alone; None for no wait."""
    ignored: tuple[str, ...] = ()
    """Codes of findings to leave out."""


class SearchOptions(MeasuringOptions):
    """What the user asked of a search."""

    max_trials: PositiveInt | None = None
    """Search trials, the baseline included, confirmation not."""
    fixed: tuple[FixedKnob, ...] = ()
    ranges: tuple[KnobRange, ...] = ()
    max_batch: PositiveInt | None = None
    """Largest batch_size that is searched."""
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
    confirm_rounds: PositiveInt = CONFIRM.default
    ablate: bool = False
    """Whether to measure what each knob of the answer is worth."""
    skip_data_check: bool = False
    """Whether not to look at which samples the configs train on."""

    @property
    def asks_for_batch_size(self) -> bool:
        """Whether the user said which batch sizes to have."""
        fixed, bounded = ({one.knob for one in those} for those in (self.fixed, self.ranges))
        return "batch_size" in fixed | bounded or self.global_batch is not None


def usual_options(is_builtin: bool) -> SearchOptions:
    """Return what a search has where the user asks for nothing: the built-in workload's is a short one."""
    return SearchOptions(budget_s=240.0, window_s=3.0) if is_builtin else SearchOptions()


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
    commit: str | None = None
    """Of the working folder's git repository, followed by "-dirty" where tracked files differ from it."""
    target: Target
    host: Host
    profile: Profile
    """Of the GPU that was asked for."""
    machine_findings: tuple[Finding, ...] = ()
    """What was wrong with the machine before the first trial."""
    measured_on: str
    """Profile id, or device name, of the device that the trials really ran on."""
    thread_variables: dict[str, str] = Field(default_factory=dict)
    """Of THREAD_VARIABLES those set where tunekit ran, which trials inherit."""
    trials: tuple[TrialRecord, ...] = ()

    @property
    def machine_warnings(self) -> tuple[Finding, ...]:
        """What was wrong with the machine, but of GPUs that no trial computed on, where they are known."""
        seen = (trial.telemetry for trial in self.trials if trial.telemetry)
        used = {gpu.index for one in seen for gpu in one.gpus if gpu.is_used}
        return tuple(one for one in self.machine_findings if not used or one.gpu is None or one.gpu in used)

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
        """Ranks of the target's training."""
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


class SecondStage(Record):
    """Confirming rounds that were added because the first left it open whether there is a gain."""

    configs: tuple[TrainConfig, ...] = Field(min_length=1)
    """Beside the baseline."""
    first_round: NonNegativeInt
    rounds: PositiveInt


class Run(TargetRecord):
    """Everything one search learned."""

    options: SearchOptions
    shared_at: str | None = None
    """Where the hosts that share the search meet, without user and password; None for one host alone."""
    space: tuple[KnobSpace, ...] = ()
    noise_floor: NoiseFloor | None = None
    recommendations: tuple[Recommendation, ...] = ()
    missing_tiers: tuple[MissingTier, ...] = ()
    candidate: Candidate | None = None
    """The config whose gain is left open, where the answer is to keep the baseline's own."""
    outcome: Outcome = Outcome()
    """What the search came to; worked out last."""
    baseline_figures: ConfigFigures | None = None
    """What was measured of the baseline's config; None where nothing was."""
    bottlenecks: tuple[Bottleneck, ...] = ()
    """Of the baseline's config and of the answering tier's, where they were measured."""
    loss_checks: tuple[LossCheck, ...] = ()
    bound_steps: PositiveInt | None = None
    """Of the training as it is, by the option that is bound for them; None without one, or a known value."""
    longer_budget_s: PositiveFloat | None = None
    """With which a finished search could try another config."""
    scaling: tuple[ScalingRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    script_scales_lr: bool = False
    """Whether the script was seen to scale its learning rate with the batch, so that no rule is applied."""
    knob_gains: tuple[KnobGain, ...] = ()
    """Of the answer's config, each knob that differs from the baseline's and can be put back alone; empty
    where the user did not ask for it, or there was no time."""
    model: ModelSummary | None = None
    """Predicted; None while the search runs, and with too few measured trials to tell."""
    untried: Untried | None = None
    """None while the search runs, and where nothing is left to try or no model could be fitted."""
    prediction: DevicePrediction | None = None
    """What fits the GPU that was asked for, by steps of the script's own loop; None on a CPU."""
    why_not_predicted: str | None = None
    """Why it is missing where one was wanted."""
    why_stopped: str | None = None
    """Why no further config was tried; None where time or --trials ended the search, or it goes on."""
    cut_short: str | None = None
    """What the budget had no room for, with a budget that would have; None where nothing was left out."""
    second_stage: SecondStage | None = None
    """None where the first rounds told, more would not have, or there was no time for them."""
    budget_s: PositiveFloat | None = None
    """That the search had: the user's, or as it was set once the baseline was known or more was asked for."""
    search_time_s: float = Field(default=0.0, ge=0)

    @property
    def known_budget_s(self) -> float | None:
        """That the search has; None where the user gave none and it is not set yet."""
        return self.budget_s or self.options.budget_s

    @property
    def baseline(self) -> TrialRecord | None:
        """The first baseline trial."""
        return self.history.baseline

    @property
    def baseline_config(self) -> TrainConfig | None:
        """The knob values that the user has now."""
        return self.baseline.config if self.baseline else None


class ProfileOptions(MeasuringOptions):
    """What the user asked of a loop profile."""

    fixed: tuple[FixedKnob, ...] = ()
    """Knobs to set before looking; the rest is as the script has it."""
    rounds: PositiveInt = 1
    """Fresh processes of each config, interleaved."""
    kernels: bool = False
    ablate: bool = False
    against: str | None = None
    """The config file that was compared."""


class Contender(Record):
    """One config of a comparison, measured in fresh processes that took turns with the others."""

    name: str
    """"as it is", a file's name, or what was changed."""
    config: TrainConfig
    trials: tuple[int, ...]
    """Numbers of its trials; those that failed included."""
    rate_samples_per_s: Interval | None = None
    factor: Interval | None = None
    """Its rate over the first contender's, paired by round; None for that one."""
    verdict: Verdict | None = None
    """On that factor."""
    why_missing: str | None = None
    """Why it has no rate."""


class AblationStep(Record):
    """One optimisation: by itself, and added to those before it."""

    name: str
    changes: tuple[FixedKnob, ...] = Field(min_length=1)
    alone: Contender
    added: Contender | None = None
    """None for the first, which is both, and after one that failed."""
    step_factor: Interval | None = None
    """What adding it brought, beyond those before it."""


class Ablation(Record):
    """What each optimisation brings by itself and in turn."""

    steps: tuple[AblationStep, ...]
    left_out: tuple[str, ...] = ()
    """What was not tried, and why, such as "tf32: no effect on cpu"."""
    product_of_alone: PositiveFloat | None = None
    """What the factors would come to if they multiplied."""
    together: Interval | None = None
    """What they come to."""
    together_verdict: Verdict | None = None


class LoopProfile(TargetRecord):
    """Everything one `tunekit profile` learned; rebuilt from its trial records."""

    options: ProfileOptions
    contenders: tuple[Contender, ...] = ()
    """The config that was looked into, and the one it is compared with."""
    bottleneck: Bottleneck | None = None
    """Of the first contender's loop."""
    noise_floor: NoiseFloor | None = None
    ablation: Ablation | None = None
    findings: tuple[Finding, ...] = ()
    """Of the first contender's loop."""
    profile_time_s: float = Field(default=0.0, ge=0)

    @property
    def profiled_trial(self) -> TrialRecord | None:
        """The first contender's trial that its figures are of: the first that looked at details, else any."""
        asked = self.contenders[0].config if self.contenders else None
        measured = [
            trial
            for trial in self.trials
            if trial.measurement is not None and (asked is None or trial.config == asked)
        ]
        detailed = (one for one in measured if one.measurement and one.measurement.details is not None)
        return next(detailed, measured[0] if measured else None)


class FitsOptions(TrialOptions):
    """What the user asked of `tunekit fits`."""

    gpus: tuple[str, ...] = ()
    """Ids of the profiles to tell of; empty for all."""
    batch_size: PositiveInt | None = None
    """Which GPUs hold this one was asked."""
    window_s: PositiveFloat = 2.0


class BatchFit(StrEnum):
    """Whether a batch size fits a GPU."""

    YES = "yes"
    """With the margin, and the most outside of torch."""
    TIGHT = "tight"
    """Within the bounds of what is known."""
    NO = "no"
    """Not even if everything is at its best."""


class RequestedBatch(Record):
    """The batch size that was asked for, else the script's own, on one GPU in one precision: predicted."""

    profile_id: str
    precision: Precision
    batch_size: PositiveInt
    verdict: BatchFit
    reserved_bytes: NonNegativeInt
    """By torch, without the margin."""
    min_bytes: NonNegativeInt
    """That torch can have beside what may lie outside of it."""
    max_bytes: NonNegativeInt
    rate: Interval | None = None
    """Samples/s of one device at that batch; None where it does not fit, where an epoch has fewer samples, or
    where the GPU's rates are unknown."""
    compute: Interval | None = None
    """Samples/s that the GPU alone would reach; None as for `rate`."""
    loader: Interval | None = None
    """Samples/s that the loader could make there; None as for `rate`, or where only that is not known."""


class GpuFacts(Record):
    """What a prediction went by of one GPU, beside its profile's memory and rates."""

    profile_id: str
    outside: OutsideTorch
    instance: str | None = None
    """Whose vCPUs the loader has, by provider and name."""
    vcpus: PositiveFloat | None = None
    """Of it, for each GPU."""


class FitsRun(TargetRecord):
    """Everything one `tunekit fits` learned; the prediction is remade from the trial's files."""

    options: FitsOptions
    prediction: DevicePrediction | None = None
    why_not: str | None = None
    """Why there is no prediction; None also while the trial runs."""
    gpus: tuple[GpuFacts, ...] = ()
    asked: tuple[RequestedBatch, ...] = ()
    """One for each of the prediction's fits, at `batch_size`; none where that is unknown."""
    fits_time_s: NonNegativeFloat = Field(default=0.0)

    @property
    def batch_size(self) -> int | None:
        """The batch that was asked for, else the script's own, per device; None where neither is known."""
        config = self.script_config
        return self.options.batch_size or (config.batch_size if config else None)

    @property
    def script_config(self) -> TrainConfig | None:
        """What the script trains with; None where it did not come to that."""
        return next((trial.config for trial in self.trials if trial.config is not None), None)
