"""Training loops with worker processes, simulated on a clock of their own: every truth is known."""

import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from _tunekit_agent.steady import DRAINING, FINISHED, LoopClock, ramp_batches

BATCH = 16

Times = Callable[[random.Random], float]
"""Draws how long something takes, in seconds."""


def spread(mean_s: float, variation: float) -> Times:
    """Return gamma-distributed times with this mean and coefficient of variation."""
    shape = 1 / variation**2
    return lambda source: source.gammavariate(shape, mean_s / shape)


def with_spikes(times: Times, share: float, factor: float) -> Times:
    """Return times of which a share takes `factor` times as long, with the mean kept."""
    usual = 1 + share * (factor - 1)
    return lambda source: times(source) / usual * (factor if source.random() < share else 1.0)


def in_phases(mean_s: float, variation: float, correlation: float) -> Times:
    """Return lognormal times each of which resembles the one before."""
    state = [0.0]

    def draw(source: random.Random) -> float:
        fresh = math.sqrt(1 - correlation**2) * source.gauss(0, 1)
        state[0] = correlation * state[0] + fresh
        return mean_s * math.exp(variation * state[0] - variation**2 / 2)

    return draw


@dataclass(frozen=True)
class Loop:
    """A training loop over a data set; seconds unless said otherwise."""

    compute_s: Times
    """Forward, backward and step of one batch."""
    load_s: Times
    """What one worker takes for one batch."""
    workers: int = 0
    prefetch: int = 2
    epoch_batches: int = 100_000
    start_s: float = 0.0
    """Starting the workers at each epoch; 0 with persistent workers."""
    stop_s: float = 0.0
    drift_per_s: float = 0.0
    """By how much of itself the compute time grows each second: heat, a filling cache."""
    compiling_batches: int = 0
    """Batches at the start that torch.compile still works in, each ten times as long."""


@dataclass
class Simulation:
    """One process of a loop.

    Args:
        loop: what runs.
        seed: of its random times.
    """

    loop: Loop
    seed: int
    now: float = 0.0
    batches: int = 0
    _random: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)

    def epoch_time_s(self, epochs: int) -> float:
        """Run whole epochs and return the mean time of one: the truth that a rate is held against."""
        started = self.now
        for _ in range(epochs):
            loader = self._new_epoch()
            for _ in range(self.loop.epoch_batches):
                self._fetch(loader)
                self._train()
            self.now += self.loop.stop_s
        return (self.now - started) / epochs

    def step_time_s(self, batches: int) -> float:
        """Run one endless epoch and return the mean time of a batch once its queue is at rest."""
        loader = self._new_epoch()
        for _ in range(8 * max(1, self.loop.workers * self.loop.prefetch)):
            self._fetch(loader)
            self._train()
        started = self.now
        for _ in range(batches):
            self._fetch(loader)
            self._train()
        return (self.now - started) / batches

    def first_steps_s(self, skipped: int, counted: int) -> float:
        """Return the mean time of the first few batches after some: what is timed by hand."""
        loader = self._new_epoch()
        for _ in range(skipped):
            self._fetch(loader)
            self._train()
        started = self.now
        for _ in range(counted):
            self._fetch(loader)
            self._train()
        return (self.now - started) / counted

    def measure(self, window_s: float, goal: float = 0.02, rate_to_beat: float | None = None) -> LoopClock:
        """Run the loop under a clock of the agent until it has its measurement."""
        loop = self.loop
        clock = LoopClock(
            lambda: self.now,
            lambda: None,
            window_s,
            goal,
            ramp_batches(loop.workers, loop.prefetch, loop.epoch_batches),
            loop.workers,
            can_force_boundary=True,
            rate_to_beat=rate_to_beat,
        )
        while True:
            clock.epoch_started(self.now)
            if self._epoch(clock, self._new_epoch()):
                return clock

    def _epoch(self, clock: LoopClock, loader: "_Loader") -> bool:
        samples, wait_s, done = 0, 0.0, 0
        while True:
            phase = clock.tick(
                samples, (wait_s, 0.0, 0.0, 0.0), False, lambda: self.batches >= self.loop.compiling_batches
            )
            if phase == FINISHED:
                return True
            if done == self.loop.epoch_batches or (phase == DRAINING and samples):
                asked = self.now
                self.now += self.loop.stop_s
                clock.epoch_ended(asked)
                return False
            wait_s = self._fetch(loader)
            self._train()
            samples, done = BATCH, done + 1

    def _new_epoch(self) -> "_Loader":
        self.now += self.loop.start_s
        return _Loader(self)

    def _fetch(self, loader: "_Loader") -> float:
        asked = self.now
        self.now = loader.next_at(self.now)
        return self.now - asked

    def _train(self) -> None:
        compute_s = self.loop.compute_s(self._random) * (1.0 + self.loop.drift_per_s * self.now)
        self.now += compute_s * (10.0 if self.batches < self.loop.compiling_batches else 1.0)
        self.batches += 1

    def load_s(self) -> float:
        """Return how long the next batch takes a worker."""
        return self.loop.load_s(self._random)


class _Loader:
    """Batches in order from workers that each keep to their own: as torch's DataLoader hands them out."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        workers = simulation.loop.workers
        self._free_at = [simulation.now] * workers
        self._ready_at: deque[float] = deque()
        self._dispatched = 0
        for _ in range(workers * simulation.loop.prefetch):
            self._dispatch(simulation.now)

    def next_at(self, now: float) -> float:
        """Return when the next batch is in the loop's hands."""
        if not self._free_at:
            return now + self._simulation.load_s()
        taken_at = max(now, self._ready_at.popleft())
        self._dispatch(taken_at)
        return taken_at

    def _dispatch(self, now: float) -> None:
        worker = self._dispatched % len(self._free_at)
        self._dispatched += 1
        done_at = max(now, self._free_at[worker]) + self._simulation.load_s()
        self._free_at[worker] = done_at
        self._ready_at.append(done_at)


STEADY_LOOPS = {
    "compute-bound": Loop(spread(0.05, 0.05), spread(0.02, 0.3), workers=2),
    "data-bound": Loop(spread(0.01, 0.05), spread(0.08, 0.3), workers=4),
    "balanced": Loop(spread(0.04, 0.1), spread(0.08, 0.5), workers=2),
    "no workers": Loop(spread(0.03, 0.1), spread(0.03, 0.3)),
    "noisy": Loop(spread(0.05, 0.5), spread(0.02, 0.3), workers=2),
    "slow in phases": Loop(in_phases(0.05, 0.1, 0.9), spread(0.02, 0.3), workers=2),
    "rare spikes": Loop(with_spikes(spread(0.05, 0.1), 0.02, 6), spread(0.02, 0.3), workers=2),
    "slow files": Loop(spread(0.02, 0.1), with_spikes(spread(0.06, 0.3), 0.03, 10), workers=4),
    "compiling first": Loop(spread(0.05, 0.05), spread(0.02, 0.3), workers=2, compiling_batches=20),
}
"""Loops without end, whose truth is the mean time of a batch."""

EPOCH_LOOPS = {
    "long epochs": Loop(
        spread(0.02, 0.1), spread(0.03, 0.3), workers=2, epoch_batches=400, start_s=0.8, stop_s=0.1
    ),
    "short epochs, deep queue": Loop(
        spread(0.02, 0.1), spread(0.03, 0.3), workers=4, prefetch=4, epoch_batches=30, start_s=0.8, stop_s=0.1
    ),
    "data-bound epochs": Loop(
        spread(0.01, 0.1), spread(0.08, 0.3), workers=4, epoch_batches=60, start_s=0.5, stop_s=0.1
    ),
    "workers that stay": Loop(spread(0.02, 0.1), spread(0.03, 0.3), workers=2, epoch_batches=60),
    "epochs without workers": Loop(spread(0.02, 0.1), spread(0.01, 0.3), epoch_batches=50, start_s=0.01),
    "eight batches an epoch": Loop(
        spread(0.05, 0.1), spread(0.05, 0.3), workers=2, epoch_batches=8, start_s=0.5, stop_s=0.1
    ),
}
"""Loops over short data sets, whose truth is the mean time of an epoch."""


def step_s(clock: LoopClock) -> float:
    """Return the estimated time of a batch."""
    return clock.steady_time_s / clock.steady_batches


def epoch_s(clock: LoopClock, loop: Loop) -> float:
    """Return the estimated time of an epoch, its boundary included."""
    return loop.epoch_batches * step_s(clock) + (clock.boundary_s or 0.0)
