"""The user's training command, how knobs reach it, and what a baseline trial learned about it."""

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
    """Arguments on the command line."""
    FILE = "file"
    """A dotted key in the user's YAML, JSON or TOML file; trials read a rewritten copy."""
    ENV = "env"
    """An environment variable."""
    FIXED = "fixed"
    """It keeps the script's own value."""


class Binding(Record):
    """How one knob, or `lr`, reaches the loop."""

    knob: str
    kind: BindingKind
    words: tuple[str, ...] = ()
    """arg: the command-line arguments; `{}` in them stands for the value."""
    words_off: tuple[str, ...] = ()
    """arg without `{}`: the arguments for false, if any; `words` are those for true."""
    path: str | None = None
    """file: its path as the user wrote it, relative to the working directory."""
    key: str | None = None
    """file: the dotted key, such as `data.batch_size`."""
    variable: str | None = None
    """env: the name of the variable."""
    spelling: tuple[tuple[str, str], ...] = ()
    """How values are spelled for the script, as (value, text) pairs; empty for no change."""
    is_typed: bool = True
    """Whether it was given with --bind; False if it comes from the project's settings or a search found
    it."""

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
    """The Python file that the command runs, if one was found."""
    script_sha256: str | None
    """Digest of that file, so that a resumed run notices a change."""
    builtin: str | None = None
    """Name of the built-in workload, if the command runs one."""
    bindings: tuple[Binding, ...] = ()
    """The bindings; knobs without one are injected if possible."""
    samples_per_step: PositiveInt | None = None
    """Samples per loop batch of one process, given by the user for a script without a DataLoader."""
    unset_knobs: tuple[str, ...] = ()
    """Bound knobs for which the command had no value when it was searched: the script's default applied."""

    def binding_of(self, knob: str) -> Binding | None:
        """Return the binding of a knob, or None."""
        return next((binding for binding in self.bindings if binding.knob == knob), None)

    def is_bound(self, knob: str) -> bool:
        """Return whether the script sets the knob itself, from an argument, file or variable we change."""
        binding = self.binding_of(knob)
        return binding is not None and binding.kind in (BindingKind.ARG, BindingKind.FILE, BindingKind.ENV)


class LoaderAddress(Record):
    """How later trials recognise a loader that the baseline used."""

    call_stack: tuple[str, ...]
    """Innermost user frames of the construction, as "file:line+instruction", innermost first. The file is
    relative to its import root, such as "models/net.py"."""
    ordinals: tuple[NonNegativeInt, ...]
    """Which constructions from that call stack are meant, counted modulo the period."""
    period: PositiveInt = 1
    """Number of loaders that the call stack builds before the pattern repeats."""
    origin: "LoaderAddress | None" = None
    """The script's own loader, if this one wraps its batch sampler as accelerate does to shard it; the batch
    size is set there."""


class InputSeen(Record):
    """A tensor or list in a batch or among a root module's arguments."""

    path: str = Field(max_length=200)
    """Its path, such as "[0]" for the first argument."""
    sizes: tuple[NonNegativeInt, ...] = Field(min_length=1, max_length=16)
    """Its dimensions; for a list, its length."""


class LoaderSeen(LoaderKnobs):
    """One DataLoader as the baseline's script built it."""

    address: LoaderAddress
    dataset: str
    """Class name of the data set."""
    dataset_samples: NonNegativeInt | None
    """Length of the data set; None if it has none."""
    drop_last: bool
    iterable: bool
    shards_itself: bool = False
    """Whether it is an iterable data set that checks its worker id, so that workers don't repeat samples."""
    batch_size_bound: bool
    """Whether the agent can set the batch size; a custom batch sampler prevents it."""
    training: bool
    """Whether the optimizer steps consume its batches; if each loop batch draws from several loaders, only
    the one with the most samples counts."""
    step_samples: PositiveFloat | None = None
    """Samples that each loop batch takes from it; None if some take none."""
    batch: tuple[InputSeen, ...] = Field(default=(), max_length=64)
    """What a full batch contains; empty if none was seen."""


class RootSeen(Record):
    """A root: an outermost module that holds optimized parameters."""

    class_name: str
    parameters: NonNegativeInt
    """Number of parameter elements; together with class_name and ordinal the root's address."""
    ordinal: NonNegativeInt
    """Position among outermost modules of the same class and size, in order of their first forward pass."""
    has_4d_weights: bool
    compiled: bool
    channels_last: bool
    autocast_dtype: str | None
    """dtype of the script's own autocast around this module."""
    inputs: tuple[InputSeen, ...] = Field(default=(), max_length=64)
    """The largest arguments in the observed steps."""

    @property
    def address(self) -> tuple[str, int, int]:
        """How a later trial recognises the root."""
        return (self.class_name, self.parameters, self.ordinal)


class OptimizerSeen(Record):
    """One optimizer that made steps."""

    class_name: str
    base_lr: float | None = Field(ge=0)
    """The first parameter group's learning rate after warm-up: max_lr, else initial_lr, else lr."""


class OptionForm(StrEnum):
    """How an option of a script is typed."""

    FLAG = "flag"
    """`--bs 8` or `--bs=8`."""
    OPTIONAL = "optional"
    """`--amp` with or without a value."""
    SWITCH = "switch"
    """`--amp`, and perhaps `--no-amp`."""
    KEY = "key"
    """`data.bs=8`, as Hydra and OmegaConf read it."""
    PAIR = "pair"
    """`DATA.BS 8`, as yacs reads it."""


class ScriptOption(Record):
    """One option of the script's own command line, as its parser defines it."""

    name: str = Field(max_length=80)
    """Its name in the parser: argparse's dest, click's parameter, or a config's dotted key."""
    form: OptionForm
    flags: tuple[str, ...] = Field(max_length=8)
    """What can be typed: `--batch-size` and `-b`, the dotted key, or what turns a switch on."""
    off: tuple[str, ...] = Field(default=(), max_length=8)
    """What turns a switch off."""
    choices: tuple[str, ...] = Field(default=(), max_length=16)
    """The only values that the parser accepts; empty for any."""
    value: bool | int | float | str | None
    """Its value after parsing, typed or default; None if it has none, or not a plain one."""


class StepNumber(Record):
    """A number of steps that the script computed or was given, such as a schedule's length or a limit."""

    source: str = Field(max_length=80)
    """The scheduler's class, or the option's flag."""
    name: str = Field(max_length=80)
    """The parameter's name, such as total_steps."""
    steps: PositiveInt
    is_option: bool = False


class Discovery(Record):
    """What one baseline trial learned about the target."""

    loaders: tuple[LoaderSeen, ...]
    roots: tuple[RootSeen, ...]
    roots_cover_step: bool
    """Whether the roots hold all optimized parameters."""
    optimizers: tuple[OptimizerSeen, ...]
    batches_per_step: PositiveInt
    """Loop batches per optimizer step: the script's own gradient accumulation."""
    scales_gradients: bool = False
    """Whether the script uses a gradient scaler."""
    autocast_dtype: str | None = None
    """dtype of any autocast that the script enters in its loop."""
    compiles: bool = False
    """Whether torch.compile captured graphs although no knob asked for it."""
    world_size: PositiveInt = 1
    """Number of ranks, one per device."""
    float32_matmul_precision: str | None
    tf32_in_matmul: bool | None = None
    """Whether the device computes float32 matrix products in TF32; None if unknown."""
    tf32_in_conv: bool | None = None
    """The same for convolutions, which torch runs in TF32 by default."""
    device_type: str
    """"cuda", "cpu" or "mps": where the roots' parameters live."""
    bf16_native: bool | None
    """Whether that device computes in bfloat16 without emulation; None if unknown."""
    torch_version: str
    python_version: str
    options: tuple[ScriptOption, ...] = Field(default=(), max_length=64)
    """Command-line options whose names say that they set a knob or the learning rate; empty if no parser was
    seen."""
    complete: bool = True
    """False if the script ended before a few steps were seen: the roots are unknown, the loader is the last
    one used."""

    @property
    def learning_rate(self) -> float | None:
        """The base learning rate of all optimizers; None if they differ or it is unknown."""
        rates = {optimizer.base_lr for optimizer in self.optimizers}
        return rates.pop() if len(rates) == 1 else None

    @property
    def training_loader(self) -> LoaderSeen | None:
        """The loader whose batches the optimizer steps consume."""
        return next((loader for loader in self.loaders if loader.training), None)


def script_name(target: Target) -> str | None:
    """Return the file name of a training's script, without its folder."""
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
