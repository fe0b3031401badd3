"""What tunekit recommends, the evidence for it, and why the configs are as fast as they are."""

from enum import StrEnum
from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.base import Record
from tunekit.records.config import TrainConfig
from tunekit.records.data_check import DataCheck
from tunekit.records.details import LargestSamples
from tunekit.records.interval import Interval

Verdict = Literal["faster", "slower", "no gain", "no difference", "inconclusive"]
"""What a ratio of two rates shows: "no gain" for a speedup over the baseline, "no difference" for a
comparison where neither side is expected to win."""

Confidence = Literal["high", "medium", "low"]
"""How reliable a figure is."""


class Tier(StrEnum):
    """A headroom policy."""

    CONSERVATIVE = "conservative"
    BALANCED = "balanced"
    AGGRESSIVE = "aggressive"


class LearningRateRule(StrEnum):
    """How the learning rate follows the global batch."""

    LINEAR = "linear"
    """lr x k with warm-up, for SGD: Goyal et al. 2017, arXiv 1706.02677."""
    SQRT = "sqrt"
    """lr x sqrt(k), for Adam-type optimizers: Malladi et al. 2022, arXiv 2205.10287."""


class LearningRate(Record):
    """A scaled learning rate and how it was derived."""

    value: PositiveFloat
    rule: LearningRateRule
    base_lr: PositiveFloat
    base_batch: PositiveInt
    """Global batch that base_lr belongs to."""
    source: Literal["baseline", "flags"]
    """Whether the base was read from the baseline's optimizer or given with --lr / --base-batch."""


class ScalingRow(Record):
    """One tier on several GPUs of one host."""

    tier: Tier
    gpus: PositiveInt
    total_batch: PositiveInt
    total_workers: NonNegativeInt
    buffer_bytes: NonNegativeInt
    ram_bytes: NonNegativeInt
    """RAM needed on the host: main and worker processes, plus the buffer."""
    lr_linear: PositiveFloat | None
    lr_sqrt: PositiveFloat | None


class NoiseFloor(Record):
    """How much fresh processes of one config differ on this machine, as measured in this run."""

    relative: NonNegativeFloat
    """Typical |rate ratio - 1| of two consecutive fresh processes of the baseline."""
    pairs: PositiveInt
    processes: PositiveInt


class SetAside(Record):
    """A config that a tier would have picked if confirmation had not ruled it out."""

    config: TrainConfig
    search_trial: NonNegativeInt
    """The trial that found it."""
    confirm_trials: tuple[NonNegativeInt, ...]
    speedup: Interval
    """Against the baseline, over interleaved rounds."""


class RamVerdict(StrEnum):
    """Whether a host's RAM can hold the loader's buffer."""

    SAFE = "Safe"
    """The buffer takes at most 20% of the RAM limit."""
    RISKY = "Risky"
    """The buffer is neither Safe nor OOM."""
    OOM = "OOM"
    """Base and buffer together exceed 85% of the RAM limit, or the queue does not fit /dev/shm."""


class MemoryNeed(Record):
    """The memory that a config needs, from the processes that ran it."""

    peak_reserved_bytes: NonNegativeInt | None
    """Peak device memory, including on a batch of the largest samples."""
    device_memory_bytes: PositiveInt | None
    buffer_bytes: NonNegativeInt
    """Predicted size of the loader's full queues. If sample sizes vary, it assumes batches of the largest
    samples: an upper bound, as a queue hardly ever holds only such batches."""
    buffer_verdict: RamVerdict | None
    """None if the buffer is empty."""
    held_bytes_per_sample: NonNegativeFloat
    """What one sample takes in RAM while its batch waits: more than its data in pinned memory."""
    shared_bytes_per_sample: NonNegativeFloat
    """The same in /dev/shm."""
    base_ram_bytes: NonNegativeInt
    """RAM of the process tree without the buffer."""
    largest: LargestSamples | None = None
    """What a process measured on the data set's largest samples; None if sizes don't vary or that is
    unknown."""


class ConfigFigures(MemoryNeed):
    """What was measured for a config, by its fresh processes if there are any."""

    config: TrainConfig
    rate_samples_per_s: Interval
    epoch_time_s: PositiveFloat | None
    finish_time_s: PositiveFloat | None = None
    """Time of the planned training, start-up and compilation included; None if the user planned none."""
    tokens_per_s: PositiveFloat | None = None
    """Padding included; None unless the batches hold token ids."""
    joules_per_sample: PositiveFloat | None = None
    """Energy of the GPUs in the steady window; None without energy counters, or if others used the GPUs."""
    flops_per_s: PositiveFloat | None = None
    """Model FLOP/s of one GPU: the rate times the traced FLOPs of a sample; None if they were not traced."""
    mfu: PositiveFloat | None = None
    """Model FLOP utilization: flops_per_s over the GPU's dense peak in the config's precision."""


class Recommendation(ConfigFigures):
    """A tier's config with its evidence."""

    tier: Tier
    search_trial: NonNegativeInt
    """The trial that found it."""
    confirm_trials: tuple[NonNegativeInt, ...]
    """Fresh interleaved processes that its rate and speedup come from."""
    same_as: Tier | None = None
    """An earlier tier with the same config."""
    is_baseline: bool
    it_per_s: Interval
    speedup: Interval | None
    """Speedup over the baseline across interleaved rounds, in the search's objective: rate, or finish time of
    the planned training. None if the baseline can't run here."""
    float32_matmul_precision: str | None
    learning_rate: LearningRate | None
    set_aside: SetAside | None = None
    """The tier's original pick, if a smaller tier's config or the baseline's replaced it."""
    data_check: DataCheck | None = None
    """Whether it trains on the same samples as the baseline; None for the baseline's own config."""

    @property
    def ram_bytes(self) -> int:
        """Measured RAM of the process tree plus the predicted size of the loader's full queues."""
        return self.base_ram_bytes + self.buffer_bytes

    @property
    def vram_free_share(self) -> float | None:
        """Measured share of the device's memory that torch leaves unreserved; None without device memory."""
        if self.peak_reserved_bytes is None or self.device_memory_bytes is None:
            return None
        return max(0.0, 1 - self.peak_reserved_bytes / self.device_memory_bytes)


OWN_NAME = "candidate"
"""Name of a candidate's YAML file if no tier has its config."""


class Candidate(Record):
    """The fastest config found when the answer is to keep the baseline's own."""

    name: str
    """Name of its YAML file: that of the tier that recommends it, if any."""
    config: TrainConfig
    trial: NonNegativeInt
    """The trial that found it."""
    factor: float
    """Its speedup over the baseline, in the search's objective."""
    speedup: Interval | None
    """The same with its range over interleaved rounds; None if only one process measured it."""
    rounds: NonNegativeInt
    learning_rate: LearningRate | None
    float32_matmul_precision: str | None
    memory: MemoryNeed


class AnswerKind(StrEnum):
    """How a search came out."""

    NONE = "none"
    """Nothing can be recommended yet, or there was no time."""
    RECOMMENDED = "recommended"
    """A tier has another config than the baseline's."""
    OPEN = "open"
    """The best config found may be faster, but that isn't confirmed."""
    EXCLUDED = "excluded"
    """Confirmation rounds exclude a gain of the best config found."""
    NONE_FASTER = "none faster"
    """Configs were measured, and none is faster than the baseline's."""
    NOT_MEASURED = "not measured"
    """No other config than the baseline's was measured."""


class OutcomeWord(StrEnum):
    """The first word of the answer."""

    CONFIRMED = "Confirmed"
    """The whole 95% range of the speedup lies above 1x, and the speedup is larger than the noise floor."""
    NO_GAIN = "No gain"
    """A gain of 5% or more is excluded, or no measured config is faster."""
    INCONCLUSIVE = "Inconclusive"
    """The range leaves open whether there is a gain."""
    SLOWER = "Slower"
    """The config is slower than your own, which breaks the limits of the tier."""
    NOT_CONFIRMED = "Not confirmed"
    """A trial was faster, but there was no time to repeat it."""
    NOT_ALL_TRIED = "Not all tried"
    """No config tried was faster, but an untried one is predicted to be 1.5x as fast or more."""


class Settling(StrEnum):
    """What would settle an open gain."""

    PROFILE = "profile"
    """Measuring both configs again with `tunekit profile`."""
    WAIT_QUIET = "wait-quiet"
    """Measuring while no other programs use the CPUs."""
    ROUNDS = "rounds"
    """More confirmation rounds."""
    WINDOW = "window"
    """A longer window, or a quieter machine."""


class Outcome(Record):
    """The result of a search; outputs show it and decide nothing themselves."""

    kind: AnswerKind = AnswerKind.NONE
    word: OutcomeWord | None = None
    """None if nothing is claimed."""
    confidence: Confidence | None = None
    """None if nothing is claimed or the answer is open."""
    is_busy: bool = False
    """Whether the noise floor is high enough to suggest a busy machine."""
    tier: Tier | None = None
    """The tier that answers; if the baseline's config stays, the first tier that has it."""
    speedup: Interval | None = None
    """Speedup over the baseline of the tier's config, or of the best one found."""
    verdicts: dict[Tier, Verdict] = Field(default_factory=dict)
    """What each tier's speedup shows; tiers with the baseline's config are left out."""
    tried: NonNegativeInt = 0
    """Number of configs that search trials measured."""
    settled_by: Settling | None = None
    rounds_to_settle: PositiveInt | None = None
    """Total number of rounds, if more rounds would settle it."""
    untried_factor: PositiveFloat | None = None
    """Predicted rate of the fastest untried config over the answer's, if it is considerably higher."""


class LossOutcome(StrEnum):
    """What the losses of a candidate show."""

    OK = "ok"
    """They end as low as the baseline's, within the spread of its processes."""
    NONFINITE = "nonfinite"
    """They became NaN or infinite."""
    DIVERGENT = "divergent"
    """They end higher than the baseline's."""
    UNKNOWN = "unknown"
    """They could not be compared with the baseline's."""


class LossCheck(Record):
    """Measured effect of another precision or compile setting on the losses."""

    name: str
    """What it changes, such as "bf16 + compile"."""
    outcome: LossOutcome
    steps: NonNegativeInt
    """Backward passes that were compared with the baseline's."""


class MissingTier(Record):
    """A tier that no measured config satisfies."""

    tier: Tier
    reason: str


class Limit(StrEnum):
    """What limits the rate of a config, according to the throughput model."""

    LOADER = "loader"
    TRAINING = "training"
    CORES = "cores"
    """Loader and training could each be faster, but they share the same cores."""
    BOTH = "both"
    """Loader and training allow the same rate, within a tenth."""
    TURNS = "turns"
    """Without workers, loading and training take turns."""


class Bound(StrEnum):
    """What limits a loop."""

    DATA = "data"
    """The step waits for its batch: the loader is slower than training."""
    TURNS = "turns"
    """Training takes longer than loading, yet clearly waits for data: the two don't overlap."""
    COMPUTE = "compute"
    """Forward, backward and optimizer take the time."""
    HOST = "host"
    """The host submits work to the GPU too slowly: launches, Python, synchronisation."""
    COPIES = "copies"
    """The GPU sits idle while batches are copied to it."""
    BALANCED = "balanced"
    """Loader and training run in parallel and take the same time."""
    EPOCHS = "epochs"
    """The time goes to what happens between epochs, not within their steps."""
    NO_LOADER = "no loader"
    """The script makes its own batches, so data time and compute time can't be separated."""
    UNCLEAR = "unclear"
    """The host waits for data, but the device's own time was not measured."""
    UNEXPLAINED = "unexplained"
    """Loader and training are each fast on their own but slow together: neither is the one to fix."""
    UNSETTLED = "unsettled"
    """The rate is too uncertain for a breakdown of the step to mean anything."""


class Bottleneck(Record):
    """What limits a config, according to its own measured step."""

    tier: Tier | None = None
    """The tier that recommends the config; None for the baseline."""
    trial: NonNegativeInt
    """The trial that shows it."""
    bound: Bound
    wait_share: NonNegativeFloat | None
    """Share of the step that is data wait; None without a DataLoader."""
    is_model_refuted: bool = False
    """Whether the throughput model names another limit, or a lower rate than was measured."""


class PredictedLimits(Record):
    """Predicted rates that each part of the loop would allow in one config, in samples/s of all ranks."""

    tier: Tier | None
    """The tier that recommends the config; None for the baseline."""
    loader_samples_per_s: PositiveFloat | None
    """Loader's rate over whole epochs, boundaries included; None if no trial showed how long a batch takes to
    make."""
    training_samples_per_s: PositiveFloat | None
    """Training's rate if data is always ready."""
    cores_samples_per_s: PositiveFloat | None
    """Rate that the cores shared by loader and training allow; None without workers."""
    limit: Limit | None
    """None if the loader's or the training's rate is unknown."""
    rate_samples_per_s: Interval
    """The model's predicted rate of the config over whole epochs, with its 95% range."""
    measured_samples_per_s: PositiveFloat
    """The measured rate, by confirming processes if there are any."""


class KnobGain(Record):
    """The measured gain of one knob: the recommended config compared with itself without it."""

    knob: str
    before: bool | int | str | None
    """The baseline's value."""
    after: bool | int | str | None
    """The recommended value."""
    factor: Interval
    """Rate of the recommended config over that of the same config with this knob reset."""


class Untried(Record):
    """The untried config with the highest predicted rate."""

    config: TrainConfig
    rate_samples_per_s: PositiveFloat


class ModelSummary(Record):
    """Why the configs of a run are as fast as they are, and how accurate the model is."""

    limits: tuple[PredictedLimits, ...]
    """Limits of the baseline, if measured, then of each tier."""
    missed_relative: NonNegativeFloat | None
    """Mean |predicted / measured - 1| over configs, each predicted from the trials of the others."""
    checked_configs: PositiveInt | None
    """Number of measured configs in that mean; both None with fewer than two."""
