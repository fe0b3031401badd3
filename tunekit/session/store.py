"""Where the jobs and trial numbers of a search come from: this host alone, or hosts that share it."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tunekit.records.config import TrainConfig
from tunekit.records.trial import TrialRecord
from tunekit.tune.jobs import Job, Work

if TYPE_CHECKING:
    from tunekit.session.search import Search


class TrialStore(ABC):
    """Numbers trials, keeps their records and says which job of a search comes next.

    Attributes:
        host_name: this machine, where several share the search; None where it is alone.
    """

    host_name: str | None = None

    @abstractmethod
    def run(self, search: "Search") -> None:
        """Do the jobs of a search until it has its answer."""

    @abstractmethod
    def next_number(self, records: Sequence[TrialRecord]) -> int:
        """Return the number of the next trial that this host runs, after those of the records."""

    def keep(self, record: TrialRecord, spent_s: float) -> None:  # noqa: B027
        """Keep a record for all hosts, `spent_s` seconds into the search."""

    def lost_configs(self) -> tuple[TrainConfig, ...]:
        """Return the configs whose trials have cost two hosts."""
        return ()


class LocalTrialStore(TrialStore):
    """The store of a host that is alone."""

    def run(self, search: "Search") -> None:
        """Do one job after the other."""
        job = Job(work=Work.PREPARE)
        search.do(job)
        while job.work is not Work.FINISH:
            job = search.next_job()
            search.do(job)

    def next_number(self, records: Sequence[TrialRecord]) -> int:
        """Return the number after the last."""
        return max((record.number for record in records), default=-1) + 1
