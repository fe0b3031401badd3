"""The store of a host that shares its search: the queue and the records of a group of hosts."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tunekit.records.codec import from_json, to_json
from tunekit.records.run import Run
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.session.store import SharedRecord, SharedResult, TrialStore
from tunekit.tune.jobs import Job, Work
from tunekit.tune.shared import GRACE_S, Address, SharedStudy

_OF_ONE_HOST = (TrialRole.CONFIRM, TrialRole.ABLATION)
"""Trials that are compared within rounds: those of two hosts are never mixed."""
_LOOK_S = 1.0


class SharedTrialStore(SharedStudy, TrialStore):
    """The store of a host that shares its search.

    Attributes:
        trials_run: by this host.
        keeps_folder: whether this host's run folder stays when it leaves.
    """

    grace_s = GRACE_S

    def __init__(
        self, address: Address, storage: Any, group: str, name: str, folder: Path, host_name: str
    ) -> None:
        super().__init__(address, storage, group, name, folder)
        self.host_name = host_name
        self._seen: set[int] = set()
        self.trials_run = 0
        self.keeps_folder = True

    def take(self, do: Callable[[Job], None]) -> None:
        """Take the first job, and do it unless an earlier one makes it redundant."""

        def do_if_needed(job: Job) -> None:
            ends = Work.PREPARE if job.work is Work.PREPARE else Work.FINISH
            is_redundant = self.text_left(ends) is not None or any(
                Work.FINISH in (job.work, one.work) or (one.work, one.config) == (job.work, job.config)
                for one in self.jobs()
                if one.number < job.number
            )
            if not is_redundant:
                do(job)

        super().take(do_if_needed)

    def next_number(self, records: Sequence[TrialRecord]) -> int:
        """Return a number that no host's trial has."""
        return self.begin_record()

    def keep(self, record: TrialRecord, spent_s: float) -> None:
        """Leave a record for all hosts."""
        self._seen.add(record.number)
        shared = SharedRecord(record=record, spent_s=spent_s, host=self.host)
        self.land_record(record.number, to_json(shared, indent=None), record.rate_samples_per_s)
        self.trials_run += 1

    def pull(self) -> tuple[SharedRecord, ...]:
        """Return the records of other hosts that are new, but for another machine's rounds."""
        new = {number: text for number, text in self.records().items() if number not in self._seen}
        self._seen.update(new)
        shared = [from_json(text, SharedRecord, f"trial {number}") for number, text in new.items()]
        return tuple(
            one
            for one in shared
            if one.record.role not in _OF_ONE_HOST or one.record.host_name == self.host_name
        )

    def leave(self, work: Work, result: Run) -> None:
        """Leave the result of a job for all hosts."""
        left = SharedResult(run=result, host=self.host, folder=str(self.folder.absolute()))
        self.leave_text(work, to_json(left, indent=None))

    def left(self, work: Work) -> SharedResult | None:
        """Return the result of a job; None before a host has left it."""
        text = self.text_left(work)
        return None if text is None else from_json(text, SharedResult, f"the result of {work}")

    def wait(self) -> None:
        """Wait a moment for other hosts."""
        time.sleep(_LOOK_S)
