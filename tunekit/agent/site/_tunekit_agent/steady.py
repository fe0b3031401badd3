"""From ticks of a training loop to a steady window and the cost of an epoch boundary.

Pure: time comes in through `clock`, the device's end of work through `synchronize`, so a scripted
clock can prove it. A tick is the moment the loop asks its training loader for the next batch; the
time between two ticks is one whole loop batch: fetch, forward, backward and step.

    epoch:   iterator made | ramp: queue fills | steady segment ... | drained, workers gone
    charged:  boundary       boundary beyond     the window           boundary
                             steady steps
"""

from __future__ import annotations

from typing import Callable

from .estimates import LOOKS, interval_relative, least_relative, owed_s, trend_relative

_MIN_BATCHES = 10
_MAX_DURATIONS = 100_000
_CAP_WINDOWS = 2
_SYNCHRONIZE_S = 0.001
"""Waiting for a device that has no work left takes less."""
_LEAST_TO_LOOK = 12
"""Batches before which no loop is given up."""

WARMING, MEASURING, DRAINING, REFILLING, FINISHED = "warming", "measuring", "boundary", "refill", "finished"


def ramp_batches(num_workers: int, prefetch_factor: int, epoch_batches: int | None) -> int:
    """Return how many batches of an epoch to leave out while the queue is still filling.

    The queue holds workers x prefetch batches; they come for free at first. Capped at 32 batches
    and at half an epoch, so that a slow loop or a short epoch still gives a window.
    """
    ramp = min(max(num_workers * max(prefetch_factor, 1), 3), 32)
    return ramp if epoch_batches is None else min(ramp, max(1, epoch_batches // 2))


class LoopClock:
    """Accounts a loop's time: what is steady, what an epoch boundary costs, when it is enough.

    Args:
        clock: returns seconds.
        synchronize: returns when the device has no work left; called at a window's ends only.
        window_s: steady seconds to aim for.
        interval_goal: relative half width at which the window may close.
        ramp: batches to leave out at the start of each epoch.
        group: the window closes on a multiple of this (the workers: batches come in their order).
        can_force_boundary: whether the caller can end the epoch early.
        rate_to_beat: samples/s; a loop that is surely slower is given up early. None for never.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        synchronize: Callable[[], None],
        window_s: float,
        interval_goal: float,
        ramp: int,
        group: int,
        can_force_boundary: bool,
        rate_to_beat: float | None = None,
    ) -> None:
        self._clock, self._synchronize = clock, synchronize
        self._window_s, self._interval_goal = window_s, interval_goal
        self._ramp, self._group = ramp, max(1, group)
        self._can_force = can_force_boundary
        self.phase = WARMING
        self.durations: list = []
        self.steady_time_s = 0.0
        self._parts = [0.0, 0.0, 0.0, 0.0]
        self.steady_samples = self.steady_batches = self.discarded_batches = 0
        self.stop_reason: str | None = None
        self.interval: float | None = None
        self._boundaries: list = []  # (seconds, batches that a steady loop would have done in them)
        self._epoch_start: float | None = None
        self._epoch_batches = 0
        self._epochs_ended = 0
        self._stop_cost_s = 0.0
        self._last_tick: float | None = None
        self._marks: list = []  # ticks since the device was last without work, that moment first
        self._rate_to_beat = rate_to_beat
        self._looks_left = 0 if rate_to_beat is None else LOOKS
        self._next_check_s = window_s / LOOKS if self._looks_left else window_s
        self._opened_at = self._drain_start = 0.0
        self._drain_batches = 0

    @property
    def counts_batch(self) -> bool:
        """Whether a batch that ends now is one of the steady window."""
        return self.phase == MEASURING and self._last_tick is not None

    @property
    def is_abandoned(self) -> bool:
        """Whether the loop was given up for being too slow."""
        return self.stop_reason == "abandoned"

    @property
    def boundaries_seen(self) -> int:
        """Epoch boundaries that were timed."""
        return len(self._boundaries)

    @property
    def trend(self) -> float | None:
        """Relative change of the batch time over the window, 0.0 if it may be chance; None if unknown."""
        return trend_relative(self.durations)

    @property
    def boundary_s(self) -> float | None:
        """Mean cost of an epoch boundary beyond steady batches, in seconds; None if none was seen."""
        if not self._boundaries or not self.steady_batches:
            return None
        step_s = self.steady_time_s / self.steady_batches
        return sum(elapsed - batches * step_s for elapsed, batches in self._boundaries) / len(
            self._boundaries
        )

    def parts(self) -> dict:
        """Return the plain facts of a StepParts record: what no part claims is compute."""
        wait_s, fetch_cpu_s, optimizer_s, other_s = self._parts
        return {
            "data_wait_s": wait_s,
            "compute_s": max(0.0, self.steady_time_s - wait_s - optimizer_s - other_s),
            "optimizer_s": optimizer_s,
            "other_s": other_s,
            "fetch_cpu_s": fetch_cpu_s,
        }

    def epoch_started(self, now: float) -> None:
        """The loader's iterator is being made (or reset)."""
        self._epoch_start = now
        self._epoch_batches = 0
        self._last_tick = None
        if self.phase != REFILLING:
            self._marks = [now]

    def tick(
        self, samples: int, parts: tuple, interrupted: bool, settled: Callable[[], bool], batches: int = 1
    ) -> str:
        """The loop asks for its next batch.

        Args:
            samples: of the batch that just ended; 0 when this is the epoch's first tick.
            parts: what it spent where, as `parts.StepSplit` returns it.
            interrupted: something else (a validation) ran within it; its time is left out.
            settled: tells whether nothing is being compiled any more; asked while no window is open.
            batches: loop batches since the last tick; more than one where only steps can be seen.

        Returns:
            The phase from here on. On "boundary" the caller ends the epoch as soon as it can.
        """
        now = self._clock()
        ended = samples > 0
        if ended:
            self._epoch_batches += 1
            if len(self._marks) < _MAX_DURATIONS:
                self._marks.append(now)
        if self.phase == MEASURING and self._last_tick is not None and ended:
            self._add(now, samples, parts, interrupted, batches)
        elif ended and self.phase == WARMING:
            self.discarded_batches += 1
        if self.phase in (DRAINING, REFILLING) and ended:
            self._drain_batches += 1
        if self.phase == MEASURING and self._last_tick is not None and self._enough(now):
            self._close(now)
        elif self.phase == WARMING or (self.phase == MEASURING and self._last_tick is None):
            self._open_when_ramped(now, settled)
        elif self.phase == REFILLING and self._refilled(now):
            self._boundaries.append((now - self._drain_start + self._drain(now), self._drain_batches))
            self.phase = FINISHED
        return self.phase

    def epoch_ended(self, asked_at: float) -> str:
        """The loader ran dry; `asked_at` is when the loop asked for the batch that did not come."""
        self._stop_cost_s = self._clock() - asked_at
        if self.phase == MEASURING and self._last_tick is not None:
            owed = self._drain(
                asked_at
            )  # while the device worked off what it owed, ending the epoch cost nothing
            self._stop_cost_s = max(0.0, self._stop_cost_s - owed)
            self.steady_time_s += owed
        self._epochs_ended += 1
        self._last_tick = None
        if self._epoch_batches:
            self._ramp = min(self._ramp, max(1, self._epoch_batches // 2))
        if self.phase == DRAINING:
            self.phase = REFILLING
        return self.phase

    def end(self) -> bool:
        """The script is over: close with what there is. Returns whether that is a measurement."""
        if self.phase in (DRAINING, REFILLING, FINISHED):
            self.phase = FINISHED
            return True
        if self.steady_batches >= _MIN_BATCHES:
            self.interval = interval_relative(self.durations)
            self.stop_reason = "loop_ended"
            self.phase = FINISHED
            return True
        return False

    def _add(self, now: float, samples: int, parts: tuple, interrupted: bool, batches: int) -> None:
        duration = now - (self._last_tick or now)
        self._last_tick = now
        if interrupted:
            return
        self.steady_time_s += duration
        self.steady_samples += samples
        self.steady_batches += batches
        for place, seconds in enumerate(parts):
            self._parts[place] += seconds
        if len(self.durations) < _MAX_DURATIONS:
            self.durations.append(duration)

    def _open_when_ramped(self, asked_at: float, settled: Callable[[], bool]) -> None:
        """Open a steady segment once the queue had its time to fill."""
        if not settled() or self._epoch_batches < self._ramp:
            return
        owed = self._drain(asked_at)
        now = self._marks[0]
        if self.phase == MEASURING or (
            self._epochs_ended and self._epoch_start is not None and not self._late
        ):
            elapsed = asked_at + owed - (self._epoch_start or asked_at) + self._stop_cost_s
            self._boundaries.append((elapsed, self._epoch_batches))
        if self.phase == WARMING:
            self._opened_at = now
        self.phase = MEASURING
        self._last_tick = now

    @property
    def _late(self) -> bool:
        """Whether warming up ran on past this epoch's ramp: then its start says nothing of a boundary."""
        return self._epoch_batches > self._ramp

    def _enough(self, now: float) -> bool:
        count = self.steady_batches
        # Epochs of few batches are mostly boundary: then whole epochs, not steady seconds, use up the time.
        late = now - self._opened_at >= 2 * _CAP_WINDOWS * self._window_s and count >= _MIN_BATCHES
        if not late and (self.steady_time_s < self._next_check_s or count < 3):
            return False
        capped = late or self.steady_time_s >= _CAP_WINDOWS * self._window_s
        if count % self._group and not capped:
            return False
        if self._looks_left and self._is_too_slow():
            self.stop_reason = "abandoned"
            return True
        if self.steady_time_s < self._window_s and not capped:
            return False
        self._next_check_s = self.steady_time_s + self._window_s / 10
        self.interval = interval_relative(self.durations)
        if count >= _MIN_BATCHES and self.interval is not None and self.interval <= self._interval_goal:
            self.stop_reason = "interval"
        elif capped:
            self.stop_reason = "time_cap"
        return self.stop_reason is not None

    def _is_too_slow(self) -> bool:
        """Look whether the loop is surely slower than the rate to beat, and say when to look again.

        A loop that is still getting faster is not judged by its start.
        """
        if len(self.durations) < _LEAST_TO_LOOK or self.steady_batches < 2 * self._group:
            return False  # it looks as soon as there are
        self._looks_left -= 1
        self._next_check_s = min(self.steady_time_s + self._window_s / LOOKS, self._window_s)
        least_s = self.steady_time_s * least_relative(self.durations)
        if self.steady_samples >= least_s * (self._rate_to_beat or 0.0) or (self.trend or 0.0) < 0:
            return False
        self.interval = interval_relative(self.durations)
        return True

    def _close(self, now: float) -> None:
        """Close the window: what the device owes belongs to its last batch."""
        self.steady_time_s += self._drain(now)
        self._last_tick = None
        if self._boundaries or not self._can_force or self.is_abandoned:
            self.phase = FINISHED
            return
        self.phase = DRAINING
        self._drain_start = self._marks[0]
        self._drain_batches = 0

    def _drain(self, asked_at: float) -> float:
        """Wait until the device has no work left; returns by how much it was behind the host at an ask."""
        before = self._clock()
        self._synchronize()
        now = self._clock()
        batches_s = [later - tick for tick, later in zip(self._marks, self._marks[1:])]  # noqa: B905 - Python 3.9
        self._marks = [now]
        was_behind = now - before > _SYNCHRONIZE_S
        return owed_s(now - asked_at if was_behind else 0.0, batches_s)

    def _refilled(self, now: float) -> bool:
        ramped = self._epoch_batches >= self._ramp
        return ramped or (
            self._epoch_batches >= 1 and now - self._drain_start > _CAP_WINDOWS * self._window_s
        )
