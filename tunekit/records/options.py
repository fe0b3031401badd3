"""The options of the verbs that run trials, each declared once.

The parser, the settings file, what a resumed run may change and "the same search again" follow from these
rows. `--help` reads them, so nothing here imports pydantic.
"""

from enum import StrEnum
from typing import Any, NamedTuple

from tunekit.units import typed_duration_text


class Kind(StrEnum):
    """What kind of value follows a flag; the text is what `--help` shows for it."""

    NAME = "NAME"
    COUNT = "N"
    NUMBER = "S"
    TIME = "TIME"
    NAMES = "NAMES"
    """A flag that may be repeated."""
    CODES = "CODE"
    """A flag that may be repeated, too."""
    SWITCH = ""
    """A flag without a value."""


class Option(NamedTuple):
    """One option of the command line."""

    flag: str
    kind: Kind
    help: str
    field: str = ""
    """The field of the options record that holds it; empty if it has the flag's name."""
    default: Any = None
    """The field's value when the flag isn't given."""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    in_settings: bool = True
    """Whether the project's settings file may set it."""
    on_resume: bool = False
    """Whether it may be changed when a search is resumed; all others keep their first value."""

    @property
    def is_list(self) -> bool:
        """Whether it may be repeated."""
        return self.kind in (Kind.NAMES, Kind.CODES)

    @property
    def name(self) -> str:
        """Its name among the parsed options."""
        return self.field or self.flag[2:].replace("-", "_")

    def typed(self, value: Any) -> str:
        """Return a value as it is typed after the flag."""
        if self.kind is Kind.TIME:
            return typed_duration_text(value)
        return f"{value:.12g}" if self.kind is Kind.NUMBER else str(value)


GPU = Option("--gpu", Kind.NAME, "GPU to tune for; auto is this machine's own", default="auto")
_HOW = "'batch_size=--bs {}', 'batch_size=config.yaml:data.batch_size', batch_size=env:BS, =fixed or =inject"
_BIND = f"how a knob, or lr, reaches the script: {_HOW}"
BIND = Option("--bind", Kind.NAMES, _BIND, metavar="KNOB=HOW", in_settings=False)
_PER_STEP = "samples per forward and backward pass of one process, for a script without a DataLoader"
_TRIAL_LIMIT = "time limit of a trial; start-up and compiling get as much again"
TRIAL_LIMIT = Option("--trial-limit", Kind.TIME, _TRIAL_LIMIT, "trial_limit_s", 300.0)
_NO_PROGRESS = "end a trial after this long without a batch, a step or other work"
NO_PROGRESS_LIMIT = Option("--no-progress-limit", Kind.TIME, _NO_PROGRESS, "no_progress_limit_s", 90.0)
SAMPLES_PER_STEP = Option("--samples-per-step", Kind.COUNT, f"{_PER_STEP} (default: the bound batch_size)")
TARGET = (BIND, SAMPLES_PER_STEP, TRIAL_LIMIT, NO_PROGRESS_LIMIT)
"""Options of every verb that runs the training command."""

LR = Option("--lr", Kind.NUMBER, "base learning rate (default: the script's)", "base_lr", metavar="LR")
BASE_BATCH = Option("--base-batch", Kind.COUNT, "global batch that --lr belongs to (default: the script's)")
_WAIT = "wait before a trial while other programs use the CPUs, at most TIME in total, on top of the budget"
WAIT_QUIET = Option("--wait-quiet", Kind.TIME, f"{_WAIT} (default: no wait)", "wait_quiet_s", on_resume=True)
_WINDOW = "steady-state seconds measured per trial (default: 5, fewer below --budget 5m)"
WINDOW = Option("--window", Kind.NUMBER, _WINDOW, "window_s")
_ROUNDS = "time limit, such as 15m; fewer rounds are run to keep it, at least one (default: none)"
BUDGET = Option("--budget", Kind.TIME, _ROUNDS, "budget_s", on_resume=True)
_ENOUGH = "enough for about 12 trials and their confirmation, at least 15m; 4m for the built-in workload"
IGNORE = Option("--ignore", Kind.CODES, "silence a finding", "ignored", in_settings=False, on_resume=True)

FIX = Option("--fix", Kind.NAMES, "set a knob to one value", metavar="KNOB=VALUE")
_EPOCHS = "planned epochs; no trial may cost more time than it can save (default: unknown)"
EPOCHS = Option("--epochs", Kind.COUNT, _EPOCHS)
_OBJECTIVE = "maximise samples/s over whole epochs, or minimise the planned run's time (needs its length)"
SEARCH_KNOBS = (
    Option("--global-batch", Kind.COUNT, "keep N samples per optimizer step; accumulation follows the batch"),
    FIX,
    Option("--range", Kind.NAMES, "limit a numeric knob", metavar="KNOB=LO..HI"),
    Option("--max-batch", Kind.COUNT, "largest batch_size to try"),
    LR,
    BASE_BATCH,
    Option("--objective", Kind.NAME, _OBJECTIVE, default="rate", choices=("rate", "finish-time")),
    EPOCHS,
    Option("--planned-steps", Kind.COUNT, "planned optimizer steps at the script's own batch, such as 50k"),
)
_CONFIRM = "confirmation rounds, interleaved with the baseline"
CONFIRM = Option("--confirm", Kind.COUNT, _CONFIRM, "confirm_rounds", 5, on_resume=True)
_ABLATE = "measure what each knob is worth: the answer with and without it"
_SKIP = "don't check that faster configs train on the same samples"
SEARCH_TIME = (
    BUDGET._replace(help=f"time for the whole search, such as 30m (default: {_ENOUGH})"),
    Option("--trials", Kind.COUNT, "search trials at most, baseline included", "max_trials", on_resume=True),
    CONFIRM,
    Option("--ablate", Kind.SWITCH, _ABLATE, in_settings=False, on_resume=True),
    Option("--skip-data-check", Kind.SWITCH, _SKIP, in_settings=False),
    WAIT_QUIET,
    WINDOW,
)
SEARCH = (GPU, *TARGET, *SEARCH_KNOBS, *SEARCH_TIME, IGNORE)
"""All options of a search except those that control where it writes and what it shows."""

CODECS = ("none", "lz4", "lz4-shuffle", "zstd-1", "zstd-1-shuffle", "zstd-5", "zstd-5-shuffle")
"""Compressors of a layout that are searched, and that `--codec` takes; the digit is the level."""
