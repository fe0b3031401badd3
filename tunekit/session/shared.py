"""The store of a host that shares its search: the queue and the records of a group of hosts."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tunekit.records.base import Record
from tunekit.records.codec import from_json, to_json
from tunekit.records.run import Run, RunStatus
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.session.search import Search
from tunekit.session.store import TrialStore
from tunekit.tune.jobs import Job, Work
from tunekit.tune.shared import GRACE_S, Address, SharedStudy

_OF_ONE_HOST = (TrialRole.CONFIRM, TrialRole.ABLATION)
"""Trials that are compared within rounds: those of two hosts are never mixed."""
_LOOK_S = 1.0


class SharedRecord(Record):
    """A trial that a host has run, and how long the search had run by then."""

    record: TrialRecord
    spent_s: float
    host: str


class _SharedResult(Record):
    """The run as a host has left it at the end of a job, and the run folder of that host."""

    run: Run
    host: str
    folder: str


class SharedTrialStore(SharedStudy, TrialStore):
    """The store of a host that shares its search.

    Attributes:
        trials_run: by this host.
        keeps_folder: whether this host's run folder stays when it leaves.
        finisher: what the other host that finishes the search does, or has left; None where this host does.
    """

    def __init__(
        self, address: Address, storage: Any, group: str, name: str, folder: Path, host_name: str
    ) -> None:
        super().__init__(address, storage, group, name, folder)
        self.host_name = host_name
        self.trials_run = 0
        self.keeps_folder = True
        self.finisher: Job | _SharedResult | None = None
        self._seen: set[int] = set()
        self._waits_for = ""
        """What this host waits for, as it was said."""

    def next_number(self, records: Sequence[TrialRecord]) -> int:
        """Return a number that no host's trial has."""
        return self.begin_record()

    def keep(self, record: TrialRecord, spent_s: float) -> None:
        """Leave a record for all hosts."""
        self._seen.add(record.number)
        shared = SharedRecord(record=record, spent_s=spent_s, host=self.host)
        self.land_record(record.number, to_json(shared, indent=None), record.rate_samples_per_s)
        self.trials_run += 1

    def run(self, search: Search) -> None:
        """Take jobs of the queue until the search has its answer, or a living host confirms it."""
        while not self._is_over(search):
            self.take(lambda job: self._do(search, job))

    def _is_over(self, search: Search) -> bool:
        """Return whether nothing is left for this host; else a job waits in the queue."""
        confirms_since: dict[int, float] = {}
        while True:
            # In this order, what ends in between is counted twice rather than not at all.
            queue = self.jobs()
            if self._has_answer(search):
                return True
            self._pull(search)
            if not search.is_prepared and (left := self._left(Work.PREPARE)) is not None:
                self._pull(search)  # what came between the last look and the end of the job
                search.take_over_space(left.run)
            if any(job.host is None for job in queue):
                return False
            finishing = next((job for job in queue if job.work is Work.FINISH), None)
            if finishing is not None:
                self._say_waiting(search, f"{finishing.host} confirms the answer")
                since = confirms_since.setdefault(finishing.number, time.monotonic())
                if time.monotonic() - since > GRACE_S:  # its host is alive
                    self.finisher = finishing
                    search.change(status=RunStatus.RUNNING)
                    return True
            elif self._enqueue_next(search, queue):
                return False
            time.sleep(_LOOK_S)

    def _enqueue_next(self, search: Search, running: Sequence[Job]) -> bool:
        """Enqueue the next job; return False where it depends on those that other hosts run."""
        hosts = ", ".join(dict.fromkeys(job.host for job in running if job.host))
        job = search.next_job(running) if search.is_prepared else Job(work=Work.PREPARE)
        if running and job.work is not Work.SEARCH:
            self._say_waiting(search, f"waiting for the running jobs of {hosts}")
            return False
        self.enqueue(job)
        return True

    def _say_waiting(self, search: Search, message: str) -> None:
        if message != self._waits_for:
            self._waits_for = message
            search.say(message)

    def _do(self, search: Search, job: Job) -> None:
        """Do a job unless an earlier one makes it redundant."""
        self._waits_for = ""
        earlier = [one for one in self.jobs() if one.number < job.number]
        is_redundant = self.text_left(Work.PREPARE if job.work is Work.PREPARE else Work.FINISH) is not None
        for one in earlier:
            is_redundant |= Work.FINISH in (job.work, one.work)
            is_redundant |= (one.work, one.config) == (job.work, job.config)
        self._pull(search)  # the last trial of another host may have ended since the job was enqueued
        if is_redundant or (job.work is Work.SEARCH and not search.has_room_beside(earlier)):
            return
        search.do(job)
        if job.work is not Work.SEARCH:
            left = _SharedResult(run=search.found, host=self.host, folder=str(self.folder.absolute()))
            self.leave_text(job.work, to_json(left, indent=None))

    def _has_answer(self, search: Search) -> bool:
        """Return whether the run is whole; take it over from the host that has finished it, if one has."""
        if search.found.status is RunStatus.FINISHED:
            return True
        if (left := self._left(Work.FINISH)) is None:
            return False
        self.finisher = left
        search.take_over_answer(left.run)
        return True

    def _pull(self, search: Search) -> None:
        """Give the search the records of other hosts that are new, but for another machine's rounds."""
        new = {number: text for number, text in self.records().items() if number not in self._seen}
        self._seen.update(new)
        for number, text in new.items():
            one = from_json(text, SharedRecord, f"trial {number}")
            if one.record.role not in _OF_ONE_HOST or one.record.host_name == self.host_name:
                search.take_in(one.record, one.host, one.spent_s)

    def _left(self, work: Work) -> _SharedResult | None:
        """Return the result of a job; None before a host has left it."""
        text = self.text_left(work)
        return None if text is None else from_json(text, _SharedResult, f"the result of {work}")
