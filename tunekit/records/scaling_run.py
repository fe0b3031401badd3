"""What `tunekit scale` learned: a target's training on 1, 2, 4, ... processes, rebuilt from its trials."""

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from tunekit.records.base import Record
from tunekit.records.data_parallel import DataParallelKind, DataParallelSeen
from tunekit.records.finding import Finding
from tunekit.records.interval import Interval
from tunekit.records.recommendation import LearningRateRule, NoiseFloor
from tunekit.records.run import MeasuringOptions, TargetRecord
from tunekit.records.scaling import ScaledStep, ScalingFit, ScalingMode


class ScaleOptions(MeasuringOptions):
    """Options of `tunekit scale`."""

    processes: tuple[PositiveInt, ...] = Field(min_length=1)
    """Process counts, without duplicates, in ascending order."""
    mode: ScalingMode = ScalingMode.WEAK
    rounds: PositiveInt = 3
    """How often each count is run in fresh processes, interleaved."""
    base_lr: PositiveFloat | None = None
    base_batch: PositiveInt | None = None


class StepSplit(Record):
    """Where the time of one iteration (one batch per process) goes, averaged over the rounds.

    The parts add up to `time_s`. Unknown parts are None and included in `compute_s`.
    """

    time_s: PositiveFloat
    compute_s: NonNegativeFloat
    """A process's own work: transfer, forward, backward, optimizer."""
    exposed_s: NonNegativeFloat | None
    """Communication that the backward pass doesn't hide: the iteration's time beyond that of the slowest
    process in a run that doesn't sum gradients."""
    straggler_s: NonNegativeFloat | None
    """How much longer than the mean the slowest process takes in that run."""
    data_wait_s: NonNegativeFloat


class ScaledCount(Record):
    """The training on one count of processes, measured or expected by the fitted law."""

    processes: PositiveInt
    trials: tuple[int, ...] = ()
    """Numbers of the trials of the unchanged training."""
    why_missing: str | None = None
    """Why it has no rate; all figures below are then None."""
    rate_samples_per_s: Interval | None = None
    """Rate of all processes in steady steps; epoch boundaries are left out."""
    linear_samples_per_s: PositiveFloat | None = None
    """The rate if each process were as fast as at the smallest count."""
    efficiency: Interval | None = None
    """Rate per process, as a share of that at the smallest count."""
    step: StepSplit | None = None
    batch_size: PositiveInt | None = None
    """Batch size of one process."""
    global_batch: PositiveInt | None = None
    """Samples per optimizer step over all processes, accumulation included."""
    epoch_samples: PositiveInt | None = None
    """Samples per epoch of one process."""
    threads: PositiveInt | None = None
    """CPU threads that one process computes with."""
    workers: NonNegativeInt | None = None
    """Loader workers of all processes together."""
    ram_bytes: NonNegativeInt | None = None
    """Peak RAM of all processes together."""
    predicted: ScaledStep | None = None
    """The step predicted from one process's step, its gradients and the link between GPUs; None if any of
    these is unknown."""
    fitted: PositiveFloat | None = None
    """Efficiency according to the fitted law, without waiting for data."""
    lr_linear: PositiveFloat | None = None
    lr_sqrt: PositiveFloat | None = None
    warnings: tuple[str, ...] = ()
    """Warnings where the learning-rate rule is known to fail."""


class ScalingRun(TargetRecord):
    """Everything that one `tunekit scale` learned, rebuilt from its trial records."""

    options: ScaleOptions
    counts: tuple[ScaledCount, ...] = ()
    mode: ScalingMode = ScalingMode.WEAK
    """The mode that was measured; it differs from the requested one if the script keeps the global batch
    itself."""
    fit: ScalingFit | None = None
    """The fitted law; None unless one process and two larger counts were measured, and for processes without
    a wrapper."""
    left_out: dict[PositiveInt, str] = Field(default_factory=dict)
    """Counts that could not be started as requested, and why."""
    expected: tuple[ScaledCount, ...] = ()
    """Counts that were not measured, predicted by the fitted law without waiting for data."""
    noise_floor: NoiseFloor | None = None
    """Noise floor of the smallest count's processes."""
    lr_rule: LearningRateRule | None = None
    """The learning-rate rule for the script's optimizers; None if there is none, or if they differ."""
    findings: tuple[Finding, ...] = ()
    scale_time_s: NonNegativeFloat = 0.0

    @property
    def measured(self) -> tuple[ScaledCount, ...]:
        """The counts that have a rate, in ascending order."""
        return tuple(one for one in self.counts if one.rate_samples_per_s is not None)

    @property
    def reference(self) -> ScaledCount | None:
        """The smallest count, which the others are compared with; None before it is measured."""
        return next(iter(self.measured), None)

    @property
    def largest(self) -> ScaledCount | None:
        """The largest measured count, if it isn't the reference."""
        return self.measured[-1] if len(self.measured) > 1 else None

    @property
    def data_parallel(self) -> DataParallelSeen | None:
        """How the processes of the largest count train together; None if unknown."""
        counted = self.largest or self.reference
        numbers = counted.trials if counted else ()
        measured = (one.measurement for one in self.trials if one.number in numbers)
        return next((one.loop.data_parallel for one in measured if one and one.loop.data_parallel), None)

    @property
    def is_without_wrapper(self) -> bool:
        """Whether no torch wrapper connects the processes, so that each may train a separate model."""
        seen = self.data_parallel
        return seen is not None and seen.kind is DataParallelKind.NONE
