"""Training loops with workers, and a device that works behind them, on a clock of their own."""

import math
import random
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from _tunekit_agent.measure.host_times import CompileSettling
from _tunekit_agent.measure.steady import DRAINING, FINISHED, LoopClock, ramp_batches

BATCH = 16

Times = Callable[[random.Random], float]
"""Draws how long something takes, in seconds."""


def always(seconds: float) -> Times:
    """Return times that are all the same."""
    return lambda source: seconds


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
    """The host's, for forward, backward and step of one batch: all of it where there is no device."""
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
    device_s: Times | None = None
    """The device's, for a batch that the host has launched; None where there is no device."""
    ahead: int = 1000
    """Batches in the launch queue: one more blocks the host."""
    captures: Mapping[int, float] = field(default_factory=dict)
    """Batches, from the process's first, in which torch.compile captures a graph, and for how long."""
    slow: Mapping[int, float] = field(default_factory=dict)
    """Batches that take longer by so much, whatever the reason."""
    last_samples: int = BATCH
    """Of an epoch's last batch."""
    validates_s: float = 0.0
    """The script's own doings after each epoch, no part of any figure; it waits for its device first."""
    validates_every: int = 0
    """The same after so many batches within an epoch."""

    @property
    def epoch_samples(self) -> int:
        """Samples of an epoch."""
        return (self.epoch_batches - 1) * BATCH + self.last_samples


@dataclass
class Simulation:
    """One process of a loop.

    Args:
        loop: what runs.
        seed: of its random times.
    """

    loop: Loop
    seed: int = 0
    now: float = 0.0
    batches: int = 0
    graphs: int = 0
    synchronised: int = 0
    ended_epochs: int = 0
    """That the script saw end."""
    _random: random.Random = field(init=False)
    _launched: deque[float] = field(init=False)  # when each batch in the launch queue is done
    _loader: "_Loader" = field(init=False)
    recompile_s: float = 0.0
    """As the agent told it."""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        self._launched = deque([self.now], maxlen=self.loop.ahead)

    def synchronize(self) -> None:
        """Wait until the device has no work left."""
        self.synchronised += 1
        self.now = max(self.now, self._launched[-1])

    def epoch_time_s(self, epochs: int) -> float:
        """Run whole epochs and return the mean time of one: the truth that a rate is held against.

        The script's own validation is left out.
        """
        started = self.now
        for _ in range(epochs):
            self._new_epoch()
            for place in range(self.loop.epoch_batches):
                self._fetch()
                self._train(self._samples(place))
            self.now += self.loop.stop_s
            self._validate()
        return (self.now - started) / epochs - self.loop.validates_s

    def step_time_s(self, batches: int) -> float:
        """Run one endless epoch and return the mean time of a batch once its queue is at rest."""
        self._run(8 * max(1, self.loop.workers * self.loop.prefetch))
        return self._mean_s(batches)

    def first_steps_s(self, skipped: int, counted: int) -> float:
        """Return the mean time of the first few batches after some: what is timed by hand."""
        self._run(skipped)
        return self._mean_s(counted)

    def measure(
        self,
        window_s: float,
        goal: float = 0.02,
        rate_to_beat: float | None = None,
        *,
        learning: int = 0,
        can_force: bool = True,
        sees_all: bool = False,
        max_epochs: int = 100_000,
        trial_s: float = math.inf,
    ) -> LoopClock:
        """Run the loop under a clock of the agent until it has its measurement.

        Args:
            window_s: as the agent is asked, as are goal and rate_to_beat.
            goal: the interval that may do.
            rate_to_beat: that the loop is given up below.
            learning: batches before the agent knows the loop.
            can_force: whether the epoch can be ended.
            sees_all: whether no batch may be thrown away, as where several ranks train.
            max_epochs: after which the script ends.
            trial_s: after which the trial is ended.
        """
        loop, settling = self.loop, CompileSettling()
        self._new_epoch()
        done = 0
        for _ in range(learning):
            self._fetch()
            self._train(self._samples(done))
            settling.asked(self.now, self.graphs, self.batches, has_stepped=True)
            done += 1
        clock = LoopClock(
            lambda: self.now,
            self.synchronize,
            window_s,
            goal,
            ramp_batches(loop.workers, loop.prefetch, loop.epoch_batches),
            loop.workers,
            can_force,
            rate_to_beat,
            None if sees_all else self._throw_away,
        )
        until = self.now + trial_s
        while not self._epoch(clock, settling, done, until):
            self.ended_epochs += 1
            self._validate()
            if self.ended_epochs == max_epochs:
                clock.end()
                break
            done = 0
            clock.epoch_started(self.now)
            self._new_epoch()
        self.recompile_s = settling.recompile_s(step_s(clock)) if clock.steady.batches else 0.0
        return clock

    def _epoch(self, clock: LoopClock, settling: CompileSettling, done: int, until: float) -> bool:
        """Run an epoch as the script does; return whether there is nothing more to run."""
        samples, wait_s, is_interrupted = 0, 0.0, False
        while True:
            settling.asked(self.now, self.graphs, self.batches, has_stepped=self.batches > 0)
            before = clock.phase
            parts = (wait_s, 0.0, 0.0, 0.0, 0.0)
            phase = clock.tick(samples, parts, is_interrupted, settling.is_settled(self.batches))
            if phase == FINISHED or self.now > until:
                return True
            is_forced = phase == DRAINING != before
            if is_forced:
                self._loader.end_epoch()
            if is_forced or done == self.loop.epoch_batches:
                asked = self.now
                self.now += self.loop.stop_s
                clock.epoch_ended(asked)
                if not is_forced:
                    return False
                clock.epoch_started(self.now)
                self._new_epoch()
                done = 0
            wait_s = self._fetch()
            samples = self._samples(done)
            self._train(samples)
            done += 1
            every = self.loop.validates_every
            is_interrupted = bool(every) and self.batches % every == 0
            if is_interrupted:
                self._validate()

    def _throw_away(self) -> None:
        self._loader.throw_away()

    def _validate(self) -> None:
        self.now = max(self.now, self._launched[-1]) + self.loop.validates_s

    def _run(self, batches: int) -> None:
        self._new_epoch()
        for _ in range(batches):
            self._fetch()
            self._train(BATCH)

    def _mean_s(self, batches: int) -> float:
        self.synchronize()
        started = self.now
        for _ in range(batches):
            self._fetch()
            self._train(BATCH)
        self.synchronize()
        return (self.now - started) / batches

    def _samples(self, place: int) -> int:
        return self.loop.last_samples if place + 1 == self.loop.epoch_batches else BATCH

    def _new_epoch(self) -> None:
        self.now += self.loop.start_s
        self._loader = _Loader(self)

    def _fetch(self) -> float:
        asked = self.now
        self.now = self._loader.next_at(self.now)
        return self.now - asked

    def _train(self, samples: int) -> None:
        loop, share = self.loop, samples / BATCH
        self.now += loop.compute_s(self._random) * (1.0 + loop.drift_per_s * self.now) * share
        self.now += loop.captures.get(self.batches, 0.0) + loop.slow.get(self.batches, 0.0)
        self.graphs += self.batches in loop.captures
        self.batches += 1
        if loop.device_s is not None:
            if len(self._launched) == loop.ahead:
                self.now = max(self.now, self._launched[0])
            begins = max(self.now, self._launched[-1])
            self._launched.append(begins + loop.device_s(self._random) * share)

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

    def throw_away(self) -> None:
        """Take the batches that are ready; the workers make others."""
        for _ in range(sum(ready_at <= self._simulation.now for ready_at in self._ready_at)):
            self._simulation.now = self.next_at(self._simulation.now)

    def end_epoch(self) -> None:
        """Take all that the workers make, and have them make nothing more."""
        self._simulation.now = max(self._simulation.now, *self._ready_at, 0.0)

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
    "compiling first": Loop(
        spread(0.05, 0.05), spread(0.02, 0.3), workers=2, captures=dict.fromkeys(range(20), 0.5)
    ),
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
    return clock.steady.time_s / clock.steady.batches


def epoch_s(clock: LoopClock, loop: Loop) -> float:
    """Return the estimated time of an epoch, its boundary included."""
    return clock.steady.time_s / clock.steady.samples * loop.epoch_samples + (clock.boundary_s or 0.0)
