"""The options of the verbs that run trials, each declared once.

The parser, the settings file, what a resumed run may change and "the same search again" follow from these
rows. `--help` reads them, so nothing here imports pydantic.
"""

from enum import StrEnum
from typing import Any, NamedTuple

from tunekit.units import typed_duration_text


class Kind(StrEnum):
    """What follows a flag, by the name that help has for it."""

    NAME = "NAME"
    COUNT = "N"
    NUMBER = "S"
    TIME = "TIME"
    CODE = "CODE"
    CHOICE = "CHOICE"
    SWITCH = ""
    """Nothing follows it."""


class Option(NamedTuple):
    """One option of the command line."""

    flag: str
    kind: Kind
    help: str
    field: str = ""
    """Of the options record that holds it; empty for the flag's own name."""
    default: Any = None
    """What the options record has without it."""
    metavar: str = ""
    choices: tuple[str, ...] = ()
    is_list: bool = False
    in_settings: bool = False
    """Whether the project's settings file may give it."""
    on_resume: bool = False
    """Whether a resumed search takes it; for all else the search keeps its own options."""

    @property
    def name(self) -> str:
        """Its name among the parsed options."""
        return self.field or self.flag[2:].replace("-", "_")

    def typed(self, value: Any) -> str:
        """Return a value as it is typed after the flag."""
        if self.kind is Kind.TIME:
            return typed_duration_text(value)
        return f"{value:.12g}" if self.kind is Kind.NUMBER else str(value)


GPU = Option(
    "--gpu", Kind.NAME, "GPU to tune for; auto is this machine's own", default="auto", in_settings=True
)
BIND = Option(
    "--bind",
    Kind.NAME,
    "how a knob, or lr, reaches the script: 'batch_size=--bs {}', 'batch_size=config.yaml:data.batch_size', "
    "batch_size=env:BS, batch_size=fixed or =inject",
    metavar="KNOB=HOW",
    is_list=True,
)
TRIAL_LIMIT = Option(
    "--trial-limit",
    Kind.TIME,
    "time limit of a trial; start-up and compiling get as much again",
    "trial_limit_s",
    300.0,
    in_settings=True,
)
NO_PROGRESS_LIMIT = Option(
    "--no-progress-limit",
    Kind.TIME,
    "end a trial after this long without a batch, a step or other work",
    "no_progress_limit_s",
    90.0,
    in_settings=True,
)
TARGET = (
    BIND,
    Option(
        "--samples-per-step",
        Kind.COUNT,
        "samples per forward and backward pass of one process, for a script without a DataLoader "
        "(default: the bound batch_size)",
        in_settings=True,
    ),
    TRIAL_LIMIT,
    NO_PROGRESS_LIMIT,
)
"""Of every verb that runs the training command."""

BASE_RATE = (
    Option(
        "--lr",
        Kind.NUMBER,
        "base learning rate (default: the script's)",
        "base_lr",
        metavar="LR",
        in_settings=True,
    ),
    Option(
        "--base-batch",
        Kind.COUNT,
        "global batch that the base lr belongs to (default: the script's)",
        in_settings=True,
    ),
)
WAIT_QUIET = Option(
    "--wait-quiet",
    Kind.TIME,
    "while other programs use the CPUs, wait before each trial, such as 5m: at most TIME in total, not "
    "counted in --budget (default: don't wait)",
    "wait_quiet_s",
    in_settings=True,
    on_resume=True,
)
WINDOW = Option(
    "--window",
    Kind.NUMBER,
    "steady-state seconds measured per trial (default: 5, fewer below --budget 5m)",
    "window_s",
    in_settings=True,
)
BUDGET = Option(
    "--budget",
    Kind.TIME,
    "time limit, such as 15m; fewer rounds are run to keep it, at least one per config (default: none)",
    "budget_s",
    in_settings=True,
    on_resume=True,
)
IGNORE = Option("--ignore", Kind.CODE, "silence a finding", "ignored", is_list=True, on_resume=True)

FIX = Option("--fix", Kind.NAME, "set a knob", metavar="KNOB=VALUE", is_list=True, in_settings=True)
EPOCHS = Option(
    "--epochs",
    Kind.COUNT,
    "planned epochs; from the fifth trial on, none may cost more time than it can save (default: not known; "
    "10 to decide whether compiling pays)",
    in_settings=True,
)
SEARCH_KNOBS = (
    Option(
        "--global-batch",
        Kind.COUNT,
        "keep the global batch at N samples; gradient accumulation follows the batch size",
        in_settings=True,
    ),
    FIX._replace(help="set a knob and leave it out of the search"),
    Option(
        "--range", Kind.NAME, "limit a numeric knob", metavar="KNOB=LO..HI", is_list=True, in_settings=True
    ),
    Option("--max-batch", Kind.COUNT, "largest batch_size to try", in_settings=True),
    *BASE_RATE,
    Option(
        "--objective",
        Kind.CHOICE,
        "maximise samples/s over whole epochs, or minimise the time of the planned run, start-up and "
        "compiling included (needs --epochs or --planned-steps)",
        default="rate",
        choices=("rate", "finish-time"),
        in_settings=True,
    ),
    EPOCHS,
    Option(
        "--planned-steps",
        Kind.COUNT,
        "planned optimizer steps at the script's own batch, such as 50k; overrides --epochs",
        in_settings=True,
    ),
)
CONFIRM = Option(
    "--confirm",
    Kind.COUNT,
    "confirmation rounds, interleaved with the baseline",
    "confirm_rounds",
    5,
    in_settings=True,
    on_resume=True,
)
SEARCH_TIME = (
    BUDGET._replace(
        help="time for the whole search, such as 30m; a plain number is seconds (default: enough for about "
        "12 search trials and their confirmation, at least 15m; 4m for the built-in workload)"
    ),
    Option(
        "--trials",
        Kind.COUNT,
        "maximum number of search trials, baseline included",
        "max_trials",
        in_settings=True,
        on_resume=True,
    ),
    CONFIRM,
    Option(
        "--ablate",
        Kind.SWITCH,
        "measure what each knob is worth: the answer with and without it",
        on_resume=True,
    ),
    Option(
        "--skip-data-check",
        Kind.SWITCH,
        "don't check that faster configs train on the same samples",
    ),
    WAIT_QUIET,
    WINDOW,
)
SEARCH = (GPU, *TARGET, *SEARCH_KNOBS, *SEARCH_TIME, IGNORE)
"""Options of a search, but for those that say where it writes and what it shows."""
