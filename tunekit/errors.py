"""Every error tunekit raises on purpose, drawn as one tree.

TunekitError (1)
├── UsageError (2)                a flag or value that can't be used
│   ├── UnknownGpuError (3)       `--gpu` names no profile
│   └── NoChartError (2)          a run has no chart of that name
├── TargetError (4)               the command can't be run as given
│   └── NoTrainingLoopError (5)   the command runs but never trains
├── EmptySpaceError (6)           nothing is left to search
├── BudgetTooSmallError (7)       the budget ends before the baseline does
├── RunFolderError (8)            the run folder can't be written
│   ├── RunFolderLockedError (8)  another search owns it
│   └── ShareError (8)            where the hosts of a shared search meet can't be used
├── TargetChangedError (9)        a resumed run belongs to another target
├── RecordError (10)              a file of a run can't be read
│   ├── DamagedRecordError (10)   not what a record of its kind looks like
│   └── NewerRecordError (10)     written by a newer tunekit
├── PricesError (1)               current prices can't be fetched
├── TrackerError (1)              an experiment tracker refuses a run
└── UnreadableError (1)           why a file can't be read; its reader says which file and what to do

The number is the exit code of the command line. 130 is Ctrl-C.

A message says what, the value and the remedy:
`prefetch_factor must be at least 1, got 0; use num_workers 0 to load in the main process`.
"""

from collections.abc import Sequence
from typing import ClassVar


class TunekitError(Exception):
    """Base of every error that tunekit raises on purpose."""

    exit_code: ClassVar[int] = 1

    @property
    def lines(self) -> tuple[str, ...]:
        """What is said, a line each: a line break within one is not tunekit's own."""
        return (str(self),)


class UsageError(TunekitError):
    """A flag or a value on the command line can't be used."""

    exit_code = 2


class UnknownGpuError(UsageError):
    """`--gpu` names a device that has no profile."""

    exit_code = 3


class NoChartError(UsageError, AttributeError):
    """A run has no chart of that name: there is none, or it has no figures for it."""


class TargetError(TunekitError):
    """The training command can't be run as it was given.

    Args:
        message: what, and the remedy.
        last_lines: the last that the command printed.
    """

    exit_code = 4

    def __init__(self, message: str, last_lines: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.last_lines = tuple(last_lines)

    @property
    def lines(self) -> tuple[str, ...]:
        """The message, then the last lines."""
        if not self.last_lines:
            return (self.message,)
        return (self.message, "  its last lines:", *(f"    {line}" for line in self.last_lines))

    def __str__(self) -> str:
        return "\n".join(self.lines)


class NoTrainingLoopError(TargetError):
    """The training command ran, but no optimizer ever stepped."""

    exit_code = 5


class EmptySpaceError(TunekitError):
    """Every knob is fixed or inert: there is nothing to search."""

    exit_code = 6


class BudgetTooSmallError(TunekitError):
    """The budget ends before the baseline could be measured."""

    exit_code = 7


class RunFolderError(TunekitError):
    """The run folder can't be created, written or read."""

    exit_code = 8


class RunFolderLockedError(RunFolderError):
    """Another search owns the run folder."""


class ShareError(RunFolderError):
    """The folder or the database where the hosts of a shared search meet can't be used."""


class TargetChangedError(TunekitError):
    """The run to resume was made for another command or another script text."""

    exit_code = 9


class RecordError(TunekitError):
    """A file of a run can't be read."""

    exit_code = 10


class DamagedRecordError(RecordError):
    """The file is not what a record of its kind looks like."""


class NewerRecordError(RecordError):
    """The file was written by a newer tunekit."""


class PricesError(TunekitError):
    """Current prices can't be fetched; those that are here stay."""


class TrackerError(TunekitError):
    """An experiment tracker refuses a run."""


class UnreadableError(TunekitError):
    """Why a file can't be read, as what follows its name; its reader makes an error of its own of it."""
