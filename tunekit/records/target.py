"""The user's training command, how knobs reach it, and what a baseline trial learnt about it."""

from enum import StrEnum
from pathlib import PurePath
from typing import Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from tunekit.records.base import Record
from tunekit.records.config import LoaderKnobs


class BindingKind(StrEnum):
    """How a knob reaches the loop."""

    INJECT = "inject"
    """The agent sets it inside the process."""
    ARG = "arg"
    """Words on the command line."""
    FILE = "file"
    """A dotted key in the user's YAML, JSON or TOML file; trials read a rewritten copy."""
    ENV = "env"
    """An environment variable."""
    FIXED = "fixed"
    """It is left as the script has it."""


class Binding(Record):
    """How one knob, or `lr`, reaches the loop."""

    knob: str
    kind: BindingKind
    words: tuple[str, ...] = ()
    """arg: the words to put on the command line; `{}` in them is the value."""
    words_off: tuple[str, ...] = ()
    """arg without `{}`: the words for false, when there are any; `words` are those for true."""
    path: str | None = None
    """file: as the user wrote it, relative to the working directory."""
    key: str | None = None
    """file: dotted key, such as `data.batch_size`."""
    variable: str | None = None
    """env: name of the variable."""
    spelling: tuple[tuple[str, str], ...] = ()
    """How values are written for the script, as (value, text) pairs; empty: as they are."""
    is_typed: bool = True
    """Whether it came by --bind; False for one of the project's settings, and one that a search found."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        needed = {BindingKind.ARG: self.words, BindingKind.FILE: self.path and self.key}
        needed[BindingKind.ENV] = self.variable
        if self.kind in needed and not needed[self.kind]:
            raise ValueError(f"a binding of kind {self.kind} lacks what it binds to")
        return self


class Target(Record):
    """The training command exactly as the user runs it."""

    name: str = Field(min_length=1, max_length=200)
    """Short name, used for the run folder."""
    command: tuple[str, ...] = Field(min_length=1)
    working_dir: str
    script: str | None
    """The Python file that the command runs, where one could be found."""
    script_sha256: str | None
    """Digest of that file, so that a resumed run can see that it changed."""
    builtin: str | None = None
    """Name of the built-in workload, when the command is ours."""
    bindings: tuple[Binding, ...] = ()
    """Knobs that are bound; all others are injected where that is possible."""
    samples_per_step: PositiveInt | None = None
    """Samples per loop batch of one process as the user declares them, for a script without a DataLoader."""
    unset_knobs: tuple[str, ...] = ()
    """Bound knobs whose place held no value when the target was searched: the script's own default held."""

    def binding_of(self, knob: str) -> Binding | None:
        """Return the binding of a knob, None when there is none."""
        return next((binding for binding in self.bindings if binding.knob == knob), None)

    def is_bound(self, knob: str) -> bool:
        """Return whether the script itself sets the knob, by a word, a file or a variable that we change."""
        binding = self.binding_of(knob)
        return binding is not None and binding.kind in (BindingKind.ARG, BindingKind.FILE, BindingKind.ENV)


class LoaderAddress(Record):
    """How later trials recognise a loader that the baseline saw."""

    call_stack: tuple[str, ...]
    """Innermost user frames of the construction, as "file:line+instruction", inner first; the file as it is
    imported, such as "models/net.py", wherever it lies."""
    ordinals: tuple[NonNegativeInt, ...]
    """Which constructions from that call stack are meant, modulo the period."""
    period: PositiveInt = 1
    """Loaders that the call stack builds before the pattern repeats."""
    origin: "LoaderAddress | None" = None
    """The script's own loader whose batch sampler this one wraps (accelerate's shard of it); the batch
    size is set there."""


class InputSeen(Record):
    """A tensor, or a list, in a batch or in what a root is called with."""

    path: str = Field(max_length=200)
    """Where it is, such as "[0]" for the first argument."""
    sizes: tuple[NonNegativeInt, ...] = Field(min_length=1, max_length=16)
    """Its dimensions; of a list, its length."""


class LoaderSeen(LoaderKnobs):
    """One DataLoader as the baseline's script built it."""

    address: LoaderAddress
    dataset: str
    """Class name of the data set."""
    dataset_samples: NonNegativeInt | None
    """Length of the data set; None for one without a length."""
    drop_last: bool
    iterable: bool
    shards_itself: bool = False
    """An iterable data set that asks which worker it is in, so that workers don't repeat its samples."""
    batch_size_bound: bool
    """Whether the agent can set the batch size: no custom batch sampler stands in the way."""
    training: bool
    """Whether the optimizer steps consume its batches; of several that each loop batch takes from, the one
    with the most samples."""
    step_samples: PositiveFloat | None = None
    """Samples that each loop batch takes from it; None where not each does."""
    batch: tuple[InputSeen, ...] = Field(default=(), max_length=64)
    """What a full batch of it holds; empty where none was seen."""


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
    inputs: tuple[InputSeen, ...] = Field(default=(), max_length=64)
    """The largest that it was called with in the steps that were looked at."""

    @property
    def address(self) -> tuple[str, int, int]:
        """How a later trial knows it again."""
        return (self.class_name, self.parameters, self.ordinal)


class OptimizerSeen(Record):
    """One optimizer that stepped."""

    class_name: str
    base_lr: float | None = Field(ge=0)
    """The first parameter group's learning rate after warm-up: max_lr, else initial_lr, else lr."""


class OptionForm(StrEnum):
    """How an option of a script is typed."""

    FLAG = "flag"
    """`--bs 8` or `--bs=8`."""
    OPTIONAL = "optional"
    """`--amp` alone or with a value."""
    SWITCH = "switch"
    """`--amp`, and perhaps `--no-amp`."""
    KEY = "key"
    """`data.bs=8`, as Hydra and OmegaConf read it."""
    PAIR = "pair"
    """`DATA.BS 8`, as yacs reads it."""


class ScriptOption(Record):
    """One option of the script's own command line, as its parser knows it."""

    name: str = Field(max_length=80)
    """Of the parser: argparse's dest, click's parameter, the dotted key of a config."""
    form: OptionForm
    flags: tuple[str, ...] = Field(max_length=8)
    """What may be typed: `--batch-size` and `-b`; for keys the key; of a switch, what turns it on."""
    off: tuple[str, ...] = Field(default=(), max_length=8)
    """What turns a switch off."""
    choices: tuple[str, ...] = Field(default=(), max_length=16)
    """The only values that the parser takes; empty: any."""
    value: bool | int | float | str | None
    """In force once the command was parsed, typed or by default; None: none, or no plain value."""


class StepNumber(Record):
    """A number of steps that the script computed or was given: a schedule's length, a limit."""

    source: str = Field(max_length=80)
    """Class of the scheduler, or the flag of an option."""
    name: str = Field(max_length=80)
    """Such as total_steps."""
    steps: PositiveInt
    is_option: bool = False


class Discovery(Record):
    """What one baseline trial learnt about the target."""

    loaders: tuple[LoaderSeen, ...]
    roots: tuple[RootSeen, ...]
    roots_cover_step: bool
    """Whether the roots own every parameter that the optimizers step."""
    optimizers: tuple[OptimizerSeen, ...]
    batches_per_step: PositiveInt
    """Loop batches per optimizer step: the script's own gradient accumulation."""
    scales_gradients: bool = False
    """Whether the script uses a gradient scaler."""
    autocast_dtype: str | None = None
    """dtype of an autocast that the script enters anywhere in its loop."""
    compiles: bool = False
    """Whether torch.compile captured graphs although no knob asked for it."""
    world_size: PositiveInt = 1
    """Ranks of the training, one per device."""
    float32_matmul_precision: str | None
    tf32_in_matmul: bool | None = None
    """Whether the device computes float32 matrix products in TF32; None when unknown."""
    tf32_in_conv: bool | None = None
    """The same of convolutions, which torch runs in TF32 unless told not to."""
    benchmarks_cudnn: bool | None = None
    """Whether the script has cuDNN try out its kernels for each new shape, on a device that has cuDNN
    (torch.backends.cudnn.benchmark)."""
    device_type: str
    """"cuda", "cpu" or "mps": where the roots' parameters live."""
    bf16_native: bool | None
    """Whether that device computes in bfloat16 without emulation; None when unknown."""
    torch_version: str
    python_version: str
    options: tuple[ScriptOption, ...] = Field(default=(), max_length=64)
    """Options of the script's command line that set a knob or the learning rate, by their names; empty where
    no parser was seen."""
    complete: bool = True
    """False when the script ended before a few steps were seen: roots unknown, loader the last one used."""

    @property
    def learning_rate(self) -> float | None:
        """The base learning rate of all optimizers, None when they differ or it is unknown."""
        rates = {optimizer.base_lr for optimizer in self.optimizers}
        return rates.pop() if len(rates) == 1 else None

    @property
    def training_loader(self) -> LoaderSeen | None:
        """The loader whose batches the optimizer steps consume."""
        return next((loader for loader in self.loaders if loader.training), None)


def script_name(target: Target) -> str | None:
    """Return the name of a training's script, wherever its checkout lies."""
    return PurePath(target.script).name if target.script else None


def command_words(target: Target) -> tuple[str, ...]:
    """Return a training command without the folders of its interpreter and its script."""
    script = script_name(target)
    words = list(target.command)
    program = PurePath(words[0]).name
    words[0] = "python" if program.startswith("python") else program
    place = next((at for at, word in enumerate(words) if PurePath(word).name == script), None)
    if place is not None and script is not None:
        words[place] = script
    return tuple(words)
