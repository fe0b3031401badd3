"""What `tunekit doctor` looked at on a machine, and what it found."""

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from tunekit.records.base import SCHEMA_VERSION, Record
from tunekit.records.finding import Finding
from tunekit.records.host import Host
from tunekit.records.storage import Storage


class LoaderPlan(Record):
    """How a training means to load its data, as far as it is known."""

    num_workers: NonNegativeInt
    """Of each training process."""
    prefetch_factor: PositiveInt = 2
    batch_bytes: PositiveInt | None = None
    held_batch_bytes: PositiveInt | None = None
    """What a batch takes while it waits in pinned memory; None where that is no more than its data."""
    processes: PositiveInt = 1
    """Training processes on this machine."""
    taken_from: str | None = None
    """Which config of a run it is, such as "balanced of reports/train"; None where flags say it."""

    @property
    def waiting_bytes(self) -> int | None:
        """What a batch takes while it waits, as far as it is known."""
        return self.held_batch_bytes or self.batch_bytes

    @property
    def total_workers(self) -> int:
        """Worker processes of all training processes together."""
        return self.num_workers * self.processes


class Checkup(Record):
    """One machine, looked at before training."""

    schema_version: Literal[1] = SCHEMA_VERSION
    tunekit_version: str
    created_at: str
    """ISO 8601, UTC."""
    host: Host
    why_no_torch: str | None = None
    """Why the training environment's torch could not be asked."""
    has_python_answered: bool = True
    """Whether the Python that training runs was asked in time; if not, it may have the torch missing here."""
    why_no_command: str | None = None
    """Why the training command can't be run as it was given."""
    storage: tuple[Storage, ...] = ()
    """What lies under each data set, in the order in which they were named."""
    loader: LoaderPlan | None = None
    environment: dict[str, str] = Field(default_factory=dict)
    """The variables that bear on training, as they are set."""
    compiler: str | None = None
    """The compiler that torch.compile would find: of C where there is a GPU, of C++ on a CPU."""
    findings: tuple[Finding, ...] = ()
