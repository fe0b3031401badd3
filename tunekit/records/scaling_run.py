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
    """What the user asked of `tunekit scale`."""

    processes: tuple[PositiveInt, ...] = Field(min_length=1)
    """Each count once, the least first."""
    mode: ScalingMode = ScalingMode.WEAK
    rounds: PositiveInt = 3
    """Fresh processes of each count, interleaved."""
    base_lr: PositiveFloat | None = None
    base_batch: PositiveInt | None = None


class StepSplit(Record):
    """Where the time of one iteration, a batch of each process, goes; means over the rounds.

    The parts add up to the whole. What is unknown is None and included in `compute_s`.
    """

    time_s: PositiveFloat
    compute_s: NonNegativeFloat
    """What a process takes for itself: transfer, forward, backward, optimizer."""
    exposed_s: NonNegativeFloat | None
    """Communication that the backward pass doesn't hide: what the iteration takes beyond that of the slowest
    process where no gradient is summed."""
    straggler_s: NonNegativeFloat | None
    """What the slowest process takes there beyond the mean of all."""
    data_wait_s: NonNegativeFloat


class ScaledCount(Record):
    """The training on one count of processes, measured or expected by the fitted law."""

    processes: PositiveInt
    trials: tuple[int, ...] = ()
    """Of the training as it is."""
    why_missing: str | None = None
    """Why it has no rate; the figures below are None then."""
    rate_samples_per_s: Interval | None = None
    """Of all processes in steady steps; an epoch's end is not in it."""
    linear_samples_per_s: PositiveFloat | None = None
    """The rate if each process were as fast as one of the least count."""
    efficiency: Interval | None = None
    """Rate of a process, as a share of that of the least count."""
    step: StepSplit | None = None
    batch_size: PositiveInt | None = None
    """Of one process."""
    global_batch: PositiveInt | None = None
    """Of all processes and accumulated batches."""
    epoch_samples: PositiveInt | None = None
    """That one process goes through."""
    threads: PositiveInt | None = None
    """That one process computes on the CPU with."""
    workers: NonNegativeInt | None = None
    """Of all loaders."""
    ram_bytes: NonNegativeInt | None = None
    """Peak of all processes."""
    predicted: ScaledStep | None = None
    """By one process's step, its gradients and the link between GPUs; None where one of them is unknown."""
    fitted: PositiveFloat | None = None
    """Efficiency by the fitted law, without waiting for data."""
    lr_linear: PositiveFloat | None = None
    lr_sqrt: PositiveFloat | None = None
    warnings: tuple[str, ...] = ()
    """Where the rule of the learning rate is known to fail."""


class ScalingRun(TargetRecord):
    """Everything one `tunekit scale` learned; rebuilt from its trial records."""

    options: ScaleOptions
    counts: tuple[ScaledCount, ...] = ()
    mode: ScalingMode = ScalingMode.WEAK
    """As it was measured: a script may keep the global batch by itself."""
    fit: ScalingFit | None = None
    """None with fewer than one process and two more counts, and for processes without a wrapper."""
    left_out: dict[PositiveInt, str] = Field(default_factory=dict)
    """Counts that could not be started as asked, and why."""
    expected: tuple[ScaledCount, ...] = ()
    """Counts that were not measured, by the fitted law, without waiting for data: predicted."""
    noise_floor: NoiseFloor | None = None
    """Of the least count's processes."""
    lr_rule: LearningRateRule | None = None
    """Of the optimizers that were seen; None where they have none, or several."""
    findings: tuple[Finding, ...] = ()
    scale_time_s: NonNegativeFloat = 0.0

    @property
    def measured(self) -> tuple[ScaledCount, ...]:
        """The counts that have a rate, the least first."""
        return tuple(one for one in self.counts if one.rate_samples_per_s is not None)

    @property
    def reference(self) -> ScaledCount | None:
        """The least count, which the others are held against; None before it is measured."""
        return next(iter(self.measured), None)

    @property
    def largest(self) -> ScaledCount | None:
        """The largest count that was measured beside the reference."""
        return self.measured[-1] if len(self.measured) > 1 else None

    @property
    def data_parallel(self) -> DataParallelSeen | None:
        """What trained the largest count's processes together; None where that is not known."""
        counted = self.largest or self.reference
        numbers = counted.trials if counted else ()
        measured = (one.measurement for one in self.trials if one.number in numbers)
        return next((one.loop.data_parallel for one in measured if one and one.loop.data_parallel), None)

    @property
    def is_without_wrapper(self) -> bool:
        """Whether no torch wrapper holds the processes: each may train its own model."""
        seen = self.data_parallel
        return seen is not None and seen.kind is DataParallelKind.NONE
