"""Processes that share a search without any training: some are killed, and replaced by new ones."""

import contextlib
import json
import multiprocessing
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

import pytest
from build_records import config, host, run, trial_record

from tunekit.records.config import TrainConfig
from tunekit.records.trial import TrialRole
from tunekit.tune.shared.claims import Taken
from tunekit.tune.shared.facts import machine_facts, search_facts
from tunekit.tune.shared.leases import Pace
from tunekit.tune.shared.share import Group, Share
from tunekit.tune.shared.storage import address_of

MODULE = "shared_workers"
_HOST = run(host=host(), trials=(), thread_variables={})
_LOOK_S = 0.5
"""Between two looks at what others are doing."""


class Work(NamedTuple):
    """What all workers are to do together."""

    place: str
    trials: int
    trial_s: float
    """Of a trial on average; they take from half of it to half as much again."""
    pace: Pace
    notes: Path
    """Folder in which each worker notes what it was told, outside of the storage."""

    @property
    def batch_sizes(self) -> range:
        """What is to be tried, in the order in which every worker would try it."""
        return range(1, self.trials + 1)

    @property
    def go_ahead(self) -> Path:
        """Is there once all were killed that are to be: the last trial waits for it, and so every worker."""
        return self.notes / "all-killed"


class Note(NamedTuple):
    """What a worker says of a trial, or of its joining."""

    kind: str
    """join, kept, or refused as its lease was lost."""
    number: int
    """Of the trial; how many had been finished, for a join."""
    wall_s: float
    """In the storage's calls, since the note before."""
    cpu_s: float
    collisions: int
    """Claims that another worker was faster with."""


@dataclass
class _Asked:
    """What a worker asked of the storage since its last note."""

    wall_s: float = 0.0
    cpu_s: float = 0.0
    collisions: int = 0

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        wall_s, cpu_s = time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            self.wall_s += time.perf_counter() - wall_s
            self.cpu_s += time.thread_time() - cpu_s

    def note(self, kind: str, number: int) -> Note:
        """Return what was asked, and begin anew."""
        noted = Note(kind, number, self.wall_s, self.cpu_s, self.collisions)
        self.wall_s, self.cpu_s, self.collisions = 0.0, 0.0, 0
        return noted


# --- a worker ------------------------------------------------------------------------------


def work_on(work: Work, name: str) -> None:
    """Do as a host does until every config was tried."""
    path = work.notes / f"{name}.jsonl"
    with path.open("a", buffering=1) as notes, contextlib.ExitStack() as stack:
        asked = _Asked()
        with asked.timed():
            share = stack.enter_context(Share(address_of(work.place), name, print, work.pace))
            group = share.join(search_facts(_HOST), machine_facts(_HOST))
            stack.enter_context(group.heart)
            done = {_size_of(one.record.config) for one in group.trials.pull()}
        notes.write(json.dumps(asked.note("join", len(done))) + "\n")
        for note in _tries(group, done, work, random.Random(name), asked):
            notes.write(json.dumps(note) + "\n")


def _tries(group: Group, done: set[int], work: Work, chance: random.Random, asked: _Asked) -> Iterator[Note]:
    trials, ahead = group.trials, 0
    while len(done) < work.trials:
        with asked.timed():
            running = {_size_of(one.config) for one in trials.pending()}
            done |= {_size_of(one.record.config) for one in trials.pull()}
        sizes = work.batch_sizes if work.go_ahead.exists() else work.batch_sizes[:-1]
        left = (one for one in sizes if one not in done and one not in running)
        *_, size = (None, *islice(left, max(1, ahead)))
        if size is None:
            time.sleep(_LOOK_S)
            continue
        knobs = config(batch_size=size)
        with asked.timed():
            claim = trials.claim(TrialRole.SEARCH, knobs, None)
        if isinstance(claim, Taken):
            asked.collisions += 1
            ahead += claim.ahead
            continue
        ahead = 0
        time.sleep(chance.uniform(0.5, 1.5) * work.trial_s)
        with asked.timed():
            is_kept = trials.finish(claim, trial_record(claim.number, 100.0, knobs), 0.0)
        yield asked.note("kept" if is_kept else "refused", claim.number)


def _size_of(of: TrainConfig | None) -> int:
    assert of is not None
    return of.batch_size


# --- those who start, kill and count them --------------------------------------------------


class Found(NamedTuple):
    """What came of it."""

    kept: int
    """Records in the storage."""
    lost: int
    """Records that a worker was told were kept and that are not there, and configs that have none."""
    doubled: int
    """Configs that have more than one."""
    killed: int
    refused: int
    collisions: int


def search_with_kills(work: Work, workers: int, kills: int, seed: int = 0) -> Found:
    """Have every config tried by workers some of which are killed, evenly over the trials.

    Args:
        work: for all workers.
        workers: at once.
        kills: how many of them are killed, each at any moment, the last before the last trial has begun.
        seed: of who, and when.

    Raises:
        RuntimeError: a worker ended by an error.
    """
    context = _forks_from_here()
    chance, started, killed = random.Random(seed), 0, 0
    crew: list[BaseProcess] = []
    try:
        while started < workers or crew:
            if killed == kills:
                work.go_ahead.touch()
            while len(crew) < workers and started < workers + killed:
                crew.append(context.Process(target=work_on, args=(work, f"worker-{started}")))
                crew[-1].start()
                started += 1
            ended = sum(path.read_bytes().count(b'"kept"') for path in work.notes.glob("*.jsonl"))
            if killed < kills and ended >= killed * work.trials / kills:
                time.sleep(chance.uniform(0, work.trial_s))
                victim = crew.pop(chance.randrange(len(crew)))
                victim.kill()
                victim.join()
                killed += 1
            else:
                crew[0].join(min(_LOOK_S, work.trial_s))
            if failed := [one for one in crew if one.exitcode]:
                raise RuntimeError(f"a worker ended with status {failed[0].exitcode}")
            crew = [one for one in crew if one.is_alive()]
    finally:
        for one in crew:
            one.kill()
            one.join()
    return _found(work, killed)


def _forks_from_here() -> ForkServerContext:
    """Return what starts a worker quickly, from a process that has imported all that it needs."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([MODULE])
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        forkserver.ensure_running()
    return context


def notes_in(folder: Path) -> Iterator[Note]:
    """Yield what the workers noted; of the last line of a killed one there may be half."""
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text().splitlines():
            with contextlib.suppress(json.JSONDecodeError):
                yield Note(*json.loads(line))


def _found(work: Work, killed: int) -> Found:
    """Look, as one more host, at what the storage has."""
    with Share(address_of(work.place), "reader", print, work.pace) as share:
        pulled = share.join(search_facts(_HOST), machine_facts(_HOST)).trials.pull()
    notes: Sequence[Note] = list(notes_in(work.notes))
    kept = {note.number for note in notes if note.kind == "kept"}
    times = Counter(_size_of(one.record.config) for one in pulled)
    return Found(
        kept=len(pulled),
        lost=len(kept - {one.record.number for one in pulled}) + len(set(work.batch_sizes) - set(times)),
        doubled=sum(count > 1 for count in times.values()),
        killed=killed,
        refused=sum(note.kind == "refused" for note in notes),
        collisions=sum(note.collisions for note in notes),
    )
