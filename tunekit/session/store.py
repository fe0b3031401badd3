"""Where a walk gets its jobs and trial numbers and keeps its records: alone, or shared with other hosts."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tunekit.records.codec import from_json, to_json
from tunekit.records.config import TrainConfig
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.tune.shared import SharedStudy

_OF_ONE_HOST = (TrialRole.CONFIRM, TrialRole.ABLATION)
"""Trials that are compared within rounds: those of two hosts are never mixed."""
_LOOK_S = 1.0


class Work(StrEnum):
    """What a job is for."""

    PREPARE = "prepare"
    """Measure the baseline, build the space, set the budget."""
    SEARCH = "search"
    """Run one search trial."""
    FINISH = "finish"
    """Confirm the answer on one host."""


@dataclass(frozen=True)
class Job:
    """One job of the queue."""

    work: Work
    config: TrainConfig | None = None
    """Of a search trial."""
    why_stopped: str | None = None
    """Why no further search trial was enqueued before the search is finished."""
    lost_by: str | None = None
    """The host that was lost while it ran the job the first time."""
    number: int = -1
    host: str | None = None
    """The host that runs it; None while it waits."""


@dataclass(frozen=True)
class SharedRecord:
    """A trial that another host has run."""

    record: TrialRecord
    spent_s: float
    """How long the search had run by then."""
    host: str


class TrialStore(ABC):
    """The queue and the records of a walk; without other hosts, most of it is nothing.

    Attributes:
        host_name: this machine, where several share the search; None where it is alone.
        grace_s: seconds after which a lost host's job is in the queue again.
    """

    host_name: str | None = None
    grace_s = 0.0

    @abstractmethod
    def enqueue(self, job: Job) -> None:
        """Add a job to the queue."""

    @abstractmethod
    def take(self, do: Callable[[Job], float | None]) -> None:
        """Take the first job and do it; `do` returns the rate, if it measured one."""

    @abstractmethod
    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs that wait or run, by number."""

    @abstractmethod
    def next_number(self, records: Sequence[TrialRecord]) -> int:
        """Return the number of the next trial that this host runs, after those of the records."""

    def keep(self, record: TrialRecord, spent_s: float) -> None:  # noqa: B027
        """Keep a record for all hosts, `spent_s` seconds into the walk."""

    def pull(self) -> tuple[SharedRecord, ...]:
        """Return the records of other hosts that are new, by number."""
        return ()

    def lost_configs(self) -> tuple[TrainConfig, ...]:
        """Return the configs whose trials have cost two hosts."""
        return ()

    def leave(self, work: Work, result: Run) -> None:  # noqa: B027
        """Leave the result of a job for all hosts."""

    def left(self, work: Work) -> tuple[Run, str] | None:
        """Return the result of a job, and the host that left it; None before."""
        return None

    def wait(self) -> None:  # noqa: B027
        """Wait a moment for other hosts."""


class LocalTrialStore(TrialStore):
    """The store of a host that is alone."""

    def __init__(self) -> None:
        self._queue: list[Job] = []

    def enqueue(self, job: Job) -> None:
        """Add a job to the queue."""
        self._queue.append(job)

    def take(self, do: Callable[[Job], float | None]) -> None:
        """Do the first job."""
        do(self._queue.pop(0))

    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs that wait."""
        return tuple(self._queue)

    def next_number(self, records: Sequence[TrialRecord]) -> int:
        """Return the number after the last."""
        return max((record.number for record in records), default=-1) + 1


class SharedTrialStore(TrialStore):
    """The store of a host that shares its search.

    Args:
        study: of hosts like this one.
        host_name: of this machine.
        process_name: of this process, of which a machine may have several.
        folder: this host's run folder, where the report will be if it finishes the search.
    """

    def __init__(self, study: SharedStudy, host_name: str, process_name: str, folder: Path) -> None:
        self._study = study
        self.host_name = host_name
        self.grace_s = float(study.grace_s)
        self._name = process_name
        self.folder = folder
        self._seen: set[int] = set()
        self.trials_run = 0
        """By this host."""

    def enqueue(self, job: Job) -> None:
        """Add a job to the queue."""
        self._study.enqueue(_told(job))

    def take(self, do: Callable[[Job], float | None]) -> None:
        """Take the first job, and do it unless an earlier one makes it needless."""

        def do_unless_needless(number: int, told: dict[str, Any]) -> float | None:
            job = _job(number, told, {})
            earlier = [one for one in self.jobs() if one.number < number]
            is_needless = any(
                Work.FINISH in (job.work, one.work) or (one.work, one.config) == (job.work, job.config)
                for one in earlier
            )
            needs_none_of = Work.PREPARE if job.work is Work.PREPARE else Work.FINISH
            return None if is_needless or self.left(needs_none_of) else do(job)

        self._study.take(do_unless_needless, {"host": self._name, "folder": str(self.folder.absolute())})

    def jobs(self) -> tuple[Job, ...]:
        """Return the jobs that wait or run, by number."""
        return tuple(_job(one.number, one.job, one.taken_by) for one in self._study.jobs())

    def lost_configs(self) -> tuple[TrainConfig, ...]:
        """Return the configs whose trials have cost two hosts."""
        jobs = (_job(-1, told, {}) for told in self._study.lost_jobs())
        return tuple(job.config for job in jobs if job.config is not None)

    def next_number(self, records: Sequence[TrialRecord]) -> int:
        """Return a number that no host's trial has."""
        return self._study.begin_record()

    def keep(self, record: TrialRecord, spent_s: float) -> None:
        """Leave a record for all hosts."""
        told = {"record": to_json(record, indent=None), "spent_s": spent_s, "host": self._name}
        self._seen.add(record.number)
        self._study.land_record(record.number, told, record.rate_samples_per_s)
        self.trials_run += 1

    def pull(self) -> tuple[SharedRecord, ...]:
        """Return the records of other hosts that are new, but for another machine's rounds."""
        new = []
        for number, told in self._study.records():
            if number not in self._seen:
                self._seen.add(number)
                record = from_json(told["record"], TrialRecord, f"trial {number} of {told['host']}")
                new.append(SharedRecord(record, float(told["spent_s"]), told["host"]))
        return tuple(
            one
            for one in new
            if one.record.role not in _OF_ONE_HOST or one.record.host_name == self.host_name
        )

    def leave(self, work: Work, result: Run) -> None:
        """Leave the result of a job for all hosts."""
        run, folder = to_json(result, indent=None), str(self.folder.absolute())
        self._study.leave(work, json.dumps({"run": run, "host": self._name, "folder": folder}))

    def left(self, work: Work) -> tuple[Run, str] | None:
        """Return the result of a job, and the host that left it."""
        text = self._study.left(work)
        if text is None:
            return None
        told = json.loads(text)
        return from_json(told["run"], Run, f"the run of {told['host']}"), told["host"]

    @property
    def report_folder(self) -> str:
        """Run folder of the host that finishes the search, or has, as that host sees it."""
        if (text := self._study.left(Work.FINISH)) is not None:
            return str(json.loads(text)["folder"])
        running = (one for one in self._study.jobs() if one.job["work"] == Work.FINISH)
        return next((str(one.taken_by["folder"]) for one in running if one.taken_by), "")

    def wait(self) -> None:
        """Wait a moment for other hosts."""
        time.sleep(_LOOK_S)


def _told(job: Job) -> dict[str, Any]:
    config = None if job.config is None else to_json(job.config, indent=None)
    return {"work": job.work.value, "config": config, "why_stopped": job.why_stopped}


def _job(number: int, told: dict[str, Any], taken_by: dict[str, Any]) -> Job:
    text = told["config"]
    return Job(
        Work(told["work"]),
        None if text is None else from_json(text, TrainConfig, f"job {number}"),
        told["why_stopped"],
        told.get("lost_by"),
        number,
        taken_by.get("host"),
    )
