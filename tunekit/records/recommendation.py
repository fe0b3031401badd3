"""What tunekit recommends, with the evidence for it; and why its configs are as fast as they are."""

from enum import StrEnum
from typing import Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.base import Record
from tunekit.records.config import TrainConfig
from tunekit.records.data_check import DataCheck
from tunekit.records.details import LargestSamples
from tunekit.records.interval import Interval

Verdict = Literal["faster", "slower", "no gain", "no difference", "inconclusive"]
"""What a ratio of two rates shows: "no gain" of a speedup over the baseline, "no difference" where neither
direction is hoped for."""

Confidence = Literal["high", "medium", "low"]
"""How far a figure can be relied on."""


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
    """A scaled learning rate and how it came about."""

    value: PositiveFloat
    rule: LearningRateRule
    base_lr: PositiveFloat
    base_batch: PositiveInt
    """Global batch that base_lr belongs to."""
    source: Literal["baseline", "flags"]
    """Whether the base was read from the optimizer at the baseline or given by --lr / --base-batch."""


class ScalingRow(Record):
    """One tier on several GPUs of one host."""

    tier: Tier
    gpus: PositiveInt
    total_batch: PositiveInt
    total_workers: NonNegativeInt
    buffer_bytes: NonNegativeInt
    ram_bytes: NonNegativeInt
    """RAM needed on the host: worker processes and main processes, plus the buffer."""
    lr_linear: PositiveFloat | None
    lr_sqrt: PositiveFloat | None


class NoiseFloor(Record):
    """How much fresh processes of one config differ on this machine, measured in this run."""

    relative: NonNegativeFloat
    """Typical |rate ratio - 1| of two fresh processes of the baseline, one after the other."""
    pairs: PositiveInt
    processes: PositiveInt


class SetAside(Record):
    """What a tier would have picked, but for what its confirming processes showed."""

    config: TrainConfig
    search_trial: NonNegativeInt
    """The trial that found it."""
    confirm_trials: tuple[NonNegativeInt, ...]
    speedup: Interval
    """Against the baseline, over interleaved rounds."""


class RamVerdict(StrEnum):
    """What a loader's buffer means for a host."""

    SAFE = "Safe"
    RISKY = "Risky"
    OOM = "OOM"


class MemoryNeed(Record):
    """The memory that a config takes, by the processes that ran it."""

    peak_reserved_bytes: NonNegativeInt | None
    """Device memory, on a batch of the largest samples too."""
    device_memory_bytes: PositiveInt | None
    buffer_bytes: NonNegativeInt
    """Full queues of the loader, predicted. Where sizes vary, of batches of the largest samples: an upper
    bound, as a queue hardly ever holds such batches alone."""
    buffer_verdict: RamVerdict | None
    """None for 0 bytes, which need none."""
    held_bytes_per_sample: NonNegativeFloat
    """What one sample takes in RAM while its batch waits: in pinned memory more than its data."""
    shared_bytes_per_sample: NonNegativeFloat
    """The same in /dev/shm."""
    base_ram_bytes: NonNegativeInt
    """RAM of the process tree without the buffer."""
    largest: LargestSamples | None = None
    """What a process saw of the data set's largest samples; None where sizes do not vary, or where that is
    not known."""


class ConfigFigures(MemoryNeed):
    """What was measured of a config, by its fresh processes where there are any."""

    config: TrainConfig
    rate_samples_per_s: Interval
    epoch_time_s: PositiveFloat | None
    finish_time_s: PositiveFloat | None = None
    """Of the planned training, start-up and compiling included; None where the user planned none."""


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
    """Against the baseline, over interleaved rounds, in what the search looked for: rate, or finish time of
    the planned training; None when the baseline can't run here."""
    float32_matmul_precision: str | None
    learning_rate: LearningRate | None
    set_aside: SetAside | None = None
    """The tier's pick, where a smaller tier's config or the baseline's own took its place."""
    data_check: DataCheck | None = None
    """Whether it trains on the baseline's samples; None for the baseline's own config."""

    @property
    def ram_bytes(self) -> int:
        """RAM of the process tree, measured, with the loader's full queues, predicted."""
        return self.base_ram_bytes + self.buffer_bytes

    @property
    def vram_free_share(self) -> float | None:
        """Share of the device's memory that torch leaves unreserved, measured; None where it has none."""
        if self.peak_reserved_bytes is None or self.device_memory_bytes is None:
            return None
        return max(0.0, 1 - self.peak_reserved_bytes / self.device_memory_bytes)


OWN_NAME = "candidate"
"""Of a candidate's YAML file where no tier has its config."""


class Candidate(Record):
    """The fastest config beside the baseline's own, which the answer keeps."""

    name: str
    """Of its YAML file: a tier's where one recommends it."""
    config: TrainConfig
    trial: NonNegativeInt
    """The one that found it."""
    factor: float
    """How many times as fast as the baseline it is, in what the search looked for."""
    speedup: Interval | None
    """The same with its range, over interleaved rounds; None where one process alone tells."""
    rounds: NonNegativeInt
    learning_rate: LearningRate | None
    float32_matmul_precision: str | None
    memory: MemoryNeed


class AnswerKind(StrEnum):
    """How a search came out."""

    NONE = "none"
    """There is nothing to recommend yet, or there was no time."""
    RECOMMENDED = "recommended"
    """A tier has another config than the baseline's."""
    OPEN = "open"
    """The best config found may be faster: it was not confirmed."""
    EXCLUDED = "excluded"
    """Confirming rounds exclude a gain of the best config found."""
    NONE_FASTER = "none faster"
    NOT_MEASURED = "not measured"
    """No other config than the baseline's was measured."""


OutcomeWord = Literal["Confirmed", "No gain", "Inconclusive", "Slower", "Not confirmed", "Not all tried"]
"""The first word of the answer."""


class Settling(StrEnum):
    """What would settle an open gain."""

    PROFILE = "profile"
    """Both configs once more."""
    WAIT_QUIET = "wait-quiet"
    ROUNDS = "rounds"
    """More confirming rounds."""
    WINDOW = "window"
    """A longer one, or a quieter machine."""


class Outcome(Record):
    """What a search came to; every output draws it and decides nothing."""

    kind: AnswerKind = AnswerKind.NONE
    word: OutcomeWord | None = None
    """None where nothing is claimed."""
    confidence: Confidence | None = None
    """None where nothing is claimed, or where the answer is open."""
    is_busy: bool = False
    """Whether the noise floor is that of a busy machine."""
    tier: Tier | None = None
    """The one that answers; where the baseline's config stays, the first that has it."""
    speedup: Interval | None = None
    """Of the tier's config, or of the best one found, over the baseline."""
    verdicts: dict[Tier, Verdict] = Field(default_factory=dict)
    """Of each tier's speedup; none for the baseline's config."""
    tried: NonNegativeInt = 0
    """Configs that search trials measured."""
    settled_by: Settling | None = None
    rounds_to_settle: PositiveInt | None = None
    """In all, where rounds would settle it."""
    untried_factor: PositiveFloat | None = None
    """Predicted rate of the fastest untried config over the answer's, where that is large."""


class LossOutcome(StrEnum):
    """What the losses of a candidate say."""

    OK = "ok"
    NONFINITE = "nonfinite"
    DIVERGENT = "divergent"
    UNKNOWN = "unknown"


class LossCheck(Record):
    """What came of the losses in another precision or with another compile, measured."""

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
    """What limits the rate of a config, by the throughput model."""

    LOADER = "loader"
    TRAINING = "training"
    CORES = "cores"
    """Loader and training could each go on faster, but not on the same cores."""
    BOTH = "both"
    """Loader and training allow the same, within a tenth."""
    TURNS = "turns"
    """Without workers one waits for the other."""


class Bound(StrEnum):
    """What holds a loop back."""

    DATA = "data"
    TURNS = "turns"
    """Training is the longer half, yet clearly waits for its data: the two do not overlap."""
    COMPUTE = "compute"
    HOST = "host"
    """The host gives a GPU its work too late: launches, Python, synchronisation."""
    COPIES = "copies"
    """Batches are copied to the GPU while it computes nothing."""
    BALANCED = "balanced"
    """Loader and training take the same time side by side."""
    EPOCHS = "epochs"
    """What happens between epochs, not within their steps."""
    NO_LOADER = "no loader"
    """The script makes its batches itself, which can't be told from computing."""
    UNCLEAR = "unclear"
    """The host waits for data beside a device whose own time was not measured."""
    UNEXPLAINED = "unexplained"
    """Loader and training are each fast alone and slow together: neither is the one to fix."""
    UNSETTLED = "unsettled"
    """The rate is so uncertain that the parts of its step may be anything too."""


class Bottleneck(Record):
    """What holds a config back, by its own measured step."""

    tier: Tier | None = None
    """The tier that recommends the config; None for the baseline."""
    trial: NonNegativeInt
    """The one that shows it."""
    bound: Bound
    wait_share: NonNegativeFloat | None
    """Share of the step that is data wait; None without a DataLoader."""
    is_model_refuted: bool = False
    """Whether the model names another part, or says that the config can't be as fast as it was."""


class PredictedLimits(Record):
    """What each part of the loop allows alone in one config; samples/s of all ranks, predicted."""

    tier: Tier | None
    """The tier that recommends the config; None for the baseline."""
    loader_samples_per_s: PositiveFloat | None
    """Over whole epochs, their boundaries included; None where no trial showed what a batch takes to make."""
    training_samples_per_s: PositiveFloat | None
    """From data that is always at hand."""
    cores_samples_per_s: PositiveFloat | None
    """What the cores allow that loader and training share; None without workers."""
    limit: Limit | None
    """None where loader or training are unknown."""
    rate_samples_per_s: Interval
    """The model's own rate of the config over whole epochs, with its 95% range."""
    measured_samples_per_s: PositiveFloat
    """What was measured of it, by fresh confirming processes where there are any."""


class KnobGain(Record):
    """What one knob brings to the recommended config: measured, the config beside itself without it."""

    knob: str
    before: bool | int | str | None
    """The baseline's value."""
    after: bool | int | str | None
    """The recommended one."""
    factor: Interval
    """Rate of the recommended config over that of the same config with this knob as before."""


class Untried(Record):
    """The untried config with the highest predicted rate."""

    config: TrainConfig
    rate_samples_per_s: PositiveFloat


class ModelSummary(Record):
    """Why the configs of a run are as fast as they are, and how far the model can be trusted."""

    limits: tuple[PredictedLimits, ...]
    """Of the baseline where it was measured, then of each tier."""
    missed_relative: NonNegativeFloat | None
    """Mean |predicted / measured - 1| of configs, each predicted from the trials of the others."""
    checked_configs: PositiveInt | None
    """Measured configs that this is the mean of; both None with fewer than two."""
