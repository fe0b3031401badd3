"""Hosts that share one search on a simulated clock: one runs at a time, whoever's turn comes first."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from build_records import host, options, run
from scripted_search import RecordingListener, ScriptedExecutor, start_search

from tunekit.records.run import Run, SearchOptions
from tunekit.records.trial import TrialRecord
from tunekit.session.folder import RunFolder
from tunekit.session.shared import SharedBook
from tunekit.trial.executor import KnownTarget, ProgressCallback, TrialSpec
from tunekit.tune.shared.facts import machine_facts, search_facts
from tunekit.tune.shared.leases import Heart, Pace
from tunekit.tune.shared.share import Share
from tunekit.tune.shared.storage import address_of

BEAT_S = 10.0
HOUR_S = 3600.0
FEW = options(max_trials=10, confirm_rounds=2)


class Killed(BaseException):
    """kill -9: nothing of the host runs any more."""


class SimulatedTime:
    """A clock that goes on when every host waits for it; of two that wait equally long, by their names."""

    def __init__(self) -> None:
        self.now = 1000.0
        self._wakes: dict[str, float] = {}
        self._turns: dict[str, threading.Semaphore] = {}
        self._back = threading.Semaphore(0)

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Wait, as the host whose thread this is."""
        name = threading.current_thread().name
        self._wakes[name] = self.now + seconds
        self._back.release()
        self._turns[name].acquire()

    def run(self, hosts: dict[str, Callable[[], None]], starts: dict[str, float]) -> None:
        """Run hosts to their ends, each from its own time on."""
        for name, work in hosts.items():
            self._turns[name] = threading.Semaphore(0)
            self._wakes[name] = self.now + starts.get(name, 0.0)
            threading.Thread(target=self._one, args=(name, work), name=name, daemon=True).start()
        while self._wakes:
            name = min(self._wakes, key=lambda one: (self._wakes[one], one))
            self.now = max(self.now, self._wakes.pop(name))
            self._turns[name].release()
            self._back.acquire()

    def _one(self, name: str, work: Callable[[], None]) -> None:
        self._turns[name].acquire()
        try:
            work()
        finally:
            self._back.release()


@dataclass
class HostClock:
    """The clock of one host: what its executor adds to it, it waits for, beating as long as it is alive."""

    time: SimulatedTime
    beat: Callable[[], object] = lambda: None
    """Every BEAT_S."""

    def __call__(self) -> float:
        return self.time.now

    @property
    def now(self) -> float:
        return self.time.now

    @now.setter
    def now(self, until: float) -> None:
        self.wait(until - self.time.now)

    def wait(self, seconds: float) -> None:
        while seconds > 0:
            self.time.sleep(min(seconds, BEAT_S))
            seconds -= BEAT_S
            self.beat()


class SilentHeart(Heart):
    """Beats only when it is told to."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ended: object) -> None:
        pass


@dataclass
class HostExecutor(ScriptedExecutor):
    """Trials of one host, which may be killed or stopped in one of them."""

    before: Callable[[TrialSpec], None] = lambda spec: None
    """Is told of every trial that the host begins, and may end or stop it."""

    def run(self, spec: TrialSpec, known: KnownTarget | None, on_progress: ProgressCallback) -> TrialRecord:
        self.before(spec)
        return super().run(spec, known, on_progress)

    def _insist_on_records_before(self, number: int) -> None:
        pass  # other hosts have theirs elsewhere


@dataclass
class SimulatedHost:
    """One host of a shared search."""

    name: str
    folder: Path
    starts_s: float = 0.0
    machine: dict[str, Any] = field(default_factory=dict)
    """Of its Host record."""
    kills_at: Callable[[TrialSpec], bool] = lambda spec: False
    stops_at: Callable[[TrialSpec], bool] = lambda spec: False
    """In its first trial of that kind it is stopped, for an hour."""
    interrupts_at: Callable[[TrialSpec], bool] = lambda spec: False
    executor_options: dict[str, Any] = field(default_factory=dict)
    listener: RecordingListener = field(default_factory=RecordingListener)
    found: Run | None = None
    finished_by: str | None = None
    error: BaseException | None = None
    specs: list[TrialSpec] = field(default_factory=list)
    report_folder: str = ""

    def work(self, place: str, time: SimulatedTime, asked: SearchOptions, overrides: dict[str, Any]) -> None:
        try:
            with ExitStack() as stack:
                self._search(stack, place, time, asked, overrides)
        except BaseException as error:
            self.error = error

    def _search(
        self,
        stack: ExitStack,
        place: str,
        time: SimulatedTime,
        asked: SearchOptions,
        overrides: dict[str, Any],
    ) -> None:
        clock, stopped = HostClock(time), list[TrialSpec]()
        pace = Pace(clock=clock, pause=clock.wait)
        machine = host(hostname=self.name, **self.machine)
        bare = run(**({"options": asked, "trials": (), "search_time_s": 0.0, "host": machine} | overrides))
        share = stack.enter_context(Share(address_of(place), self.name, self.listener.said, pace))
        group = share.join(search_facts(bare), machine_facts(bare))
        clock.beat = group.heart.beat
        owned = stack.enter_context(RunFolder(self.folder))
        without_thread = replace(group, heart=SilentHeart(()))
        book = stack.enter_context(SharedBook(without_thread, self.name, self.folder, pace))

        def before(spec: TrialSpec) -> None:
            self.specs.append(spec)
            if self.kills_at(spec):
                raise Killed
            if self.interrupts_at(spec):
                raise KeyboardInterrupt
            if self.stops_at(spec) and not stopped:
                stopped.append(spec)
                time.sleep(HOUR_S)

        executor = HostExecutor(
            owned.trials_folder,
            clock=clock,  # type: ignore[arg-type]
            noise=lambda knobs, spec: 1.0,
            before=before,
            **self.executor_options,
        )
        search = start_search(
            owned, executor, asked, self.listener, book=book, **(overrides | {"host": machine})
        )
        try:
            search.run()
        finally:
            self.found, self.finished_by = search.found, search.finished_by
        self.report_folder = book.report_folder


def search_together(
    place: str,
    hosts: list[SimulatedHost],
    asked: SearchOptions | None = None,
    time: SimulatedTime | None = None,
    **run_overrides: Any,
) -> SimulatedTime:
    """Run one search on several hosts; each tells what it found, or the error that it ended with."""
    time, asked = time or SimulatedTime(), asked or FEW
    work = {one.name: (lambda one=one: one.work(place, time, asked, run_overrides)) for one in hosts}
    time.run(work, {one.name: one.starts_s for one in hosts})
    return time
