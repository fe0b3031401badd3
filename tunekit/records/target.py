"""The user's training command, and what a baseline trial learnt about it."""

from pydantic import Field, NonNegativeInt, PositiveInt

from tunekit.records.base import Record


class Target(Record):
    """The training command exactly as the user runs it."""

    name: str = Field(min_length=1, max_length=200)
    """Short name, used for the run folder."""
    command: tuple[str, ...] = Field(min_length=1)
    working_dir: str
    script: str | None
    """The Python file that the command runs, where one could be told."""
    script_sha256: str | None
    """Digest of that file, so that a resumed run can see that it changed."""
    builtin: str | None = None
    """Name of the built-in workload, when the command is ours."""


class LoaderAddress(Record):
    """How later trials recognise a loader that the baseline saw."""

    call_stack: tuple[str, ...]
    """Innermost user frames of the construction, as "file:line+instruction", inner first."""
    ordinals: tuple[NonNegativeInt, ...]
    """Which constructions from that call stack are meant, modulo the period."""
    period: PositiveInt = 1
    """Loaders that the call stack builds before the pattern repeats."""


class LoaderSeen(Record):
    """One DataLoader as the baseline's script built it."""

    address: LoaderAddress
    dataset: str
    """Class name of the data set."""
    dataset_samples: NonNegativeInt | None
    """Length of the data set; None for one without a length."""
    batch_size: PositiveInt | None
    """None when the script batches by itself."""
    num_workers: NonNegativeInt
    prefetch_factor: PositiveInt | None
    pin_memory: bool
    persistent_workers: bool
    drop_last: bool
    iterable: bool
    batch_size_bound: bool
    """Whether the agent can set the batch size: no custom batch sampler stands in the way."""
    training: bool
    """Whether the optimizer steps consume its batches."""


class RootSeen(Record):
    """One outermost module that owns parameters which the optimizers step."""

    class_name: str
    parameters: NonNegativeInt
    """Number of parameter elements; with class_name and ordinal it is the root's address."""
    ordinal: NonNegativeInt
    """Order among outermost modules of the same class and size, by first forward."""
    has_4d_weights: bool
    compiled: bool
    channels_last: bool
    autocast_dtype: str | None
    """dtype of the autocast that the script itself runs this module under."""


class OptimizerSeen(Record):
    """One optimizer that stepped."""

    class_name: str
    base_lr: float | None = Field(ge=0)
    """The first parameter group's learning rate after warm-up: max_lr, else initial_lr, else lr."""
    parameter_groups: NonNegativeInt


class Discovery(Record):
    """What one baseline trial learnt about the target."""

    loaders: tuple[LoaderSeen, ...]
    roots: tuple[RootSeen, ...]
    roots_cover_step: bool
    """Whether the roots own every parameter that the optimizers step."""
    optimizers: tuple[OptimizerSeen, ...]
    batches_per_step: PositiveInt
    """Loop batches per optimizer step: the script's own gradient accumulation."""
    float32_matmul_precision: str | None
    device_type: str
    """"cuda", "cpu" or "mps": where the roots' parameters live."""
    bf16_native: bool | None
    """Whether that device computes in bfloat16 without emulation; None when unknown."""
    torch_version: str
    python_version: str
    complete: bool = True
    """False when the script ended before a few steps were seen: roots unknown, loader the last one used."""

    @property
    def training_loader(self) -> LoaderSeen | None:
        """The loader whose batches the optimizer steps consume."""
        return next((loader for loader in self.loaders if loader.training), None)
