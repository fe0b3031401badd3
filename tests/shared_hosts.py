"""Hosts that share one search, with scripted trials: as threads of a test, and as processes that tests kill.

    python shared_hosts.py PLACE NAME FOLDER WAITS_AT

As a process, the host says that its WAITS_AT-th search trial has begun and waits there for a line on standard
input; 0 for none.
"""

import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from build_records import host, options, run
from scripted_search import RecordingListener, ScriptedClock, ScriptedExecutor, start_search

from tunekit.records.run import Run, SearchOptions
from tunekit.records.trial import TrialRecord, TrialRole
from tunekit.session.folder import RunFolder
from tunekit.session.shared import SharedTrialStore
from tunekit.trial.executor import KnownTarget, ProgressCallback, TrialSpec
from tunekit.tune.shared import address_of, group_of, open_place

FEW = options(max_trials=10, confirm_rounds=2)
BEAT_S, GRACE_S = 1, 5


@dataclass
class HostExecutor(ScriptedExecutor):
    """Trials of one host."""

    before: Callable[[TrialSpec], None] = lambda spec: None
    """Receives every trial that begins; may end or stop the host."""

    def run(self, spec: TrialSpec, known: KnownTarget | None, on_progress: ProgressCallback) -> TrialRecord:
        self.before(spec)
        return super().run(spec, known, on_progress)

    def _insist_on_records_before(self, number: int) -> None:
        pass  # other hosts have theirs elsewhere


@dataclass
class SharedHost:
    """One host of a shared search."""

    name: str
    folder: Path
    machine: dict[str, Any] = field(default_factory=dict)
    before: Callable[[TrialSpec], None] = lambda spec: None
    executor_options: dict[str, Any] = field(default_factory=dict)
    listener: RecordingListener = field(default_factory=RecordingListener)
    found: Run | None = None
    finished_by: str | None = None
    error: BaseException | None = None
    specs: list[TrialSpec] = field(default_factory=list)

    def search(self, place: str, asked: SearchOptions = FEW) -> None:
        """Search to the end; keep what was found, or the error."""
        try:
            self._search(place, asked)
        except BaseException as error:
            self.error = error

    def _search(self, place: str, asked: SearchOptions) -> None:
        machine = host(hostname=self.name, **self.machine)
        bare = run(options=asked, trials=(), search_time_s=0.0, host=machine)
        address = address_of(place)

        def before(spec: TrialSpec) -> None:
            self.specs.append(spec)
            self.before(spec)

        with open_place(address, BEAT_S, GRACE_S) as storage, RunFolder(self.folder) as owned:
            group = group_of(bare, None)
            store = SharedTrialStore(address, storage, group, self.name, self.folder, self.name)
            executor = HostExecutor(
                owned.trials_folder,
                clock=ScriptedClock(),
                noise=lambda knobs, spec: 1.0,
                before=before,
                **self.executor_options,
            )
            search = start_search(owned, executor, asked, self.listener, store=store, host=machine)
            search.run()
            self.found = search.found
            self.finished_by = store.finisher.host if store.finisher else None


def search_together(place: str, hosts: list[SharedHost], asked: SearchOptions = FEW) -> None:
    """Run one search on several hosts at once."""
    threads = [threading.Thread(target=one.search, args=(place, asked)) for one in hosts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class _Saying(RecordingListener):
    def said(self, message: str) -> None:
        _say(message)


def main(place: str, name: str, folder: Path, waits_at: int) -> None:
    """Search as one process."""
    searched = 0

    def before(spec: TrialSpec) -> None:
        nonlocal searched
        searched += spec.role is TrialRole.SEARCH
        if spec.role is TrialRole.SEARCH and searched == waits_at:
            _say(f"begun {spec.number} {spec.config}")
            sys.stdin.readline()

    own = SharedHost(name, folder, before=before, listener=_Saying())
    own.search(place)
    if own.error is not None:
        raise own.error
    assert threading.active_count() == 1, "no heartbeat outlives the search"


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
