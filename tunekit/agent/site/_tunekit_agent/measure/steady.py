"""From ticks of a training loop to a steady window and the cost of an epoch boundary.

Pure: time comes in through `clock`, the device's end of work through `synchronize`, so a scripted
clock can prove it. A tick is the moment the loop asks its training loader for the next batch; the
time between two ticks is one whole loop batch: fetch, forward, backward and step.

    epoch:   iterator made | ramp: queue fills | steady segment ... | drained, workers gone
    charged:  boundary       boundary beyond     the window           boundary
                             steady steps

A batch in which torch.compile captures graphs is in no segment: the one that was open is begun again, since
what the device still owed for it was hidden behind the compiler.
"""

from __future__ import annotations

import copy
import math
from typing import Callable

from .estimates import LOOKS, interval_relative, min_relative, owed_s, trend_relative

_MIN_BATCHES, _MIN_SLOW_BATCHES = 10, 3
"""Batches of a window; the smaller number where steps are too slow for more."""
_MIN_RAMP = 3
_CAP_WINDOWS, _LATE_WINDOWS, _MAX_WINDOWS = 2, 4, 12
"""Limits in windows: for steady time, the ramp or a boundary; of a measurement of _MIN_BATCHES; of one of
_MIN_SLOW_BATCHES, or of the ramp of a loop that was held up."""
_MAX_MARKS = 100_000
_SYNCHRONIZE_S = 0.001
"""A wait for an idle device takes less than this."""
_BOUNDARY_TRIES = 3
"""Other work may run within an epoch's first batches: a validation, the compiler."""
_MIN_TO_LOOK = 12
"""Batches before a loop may be abandoned."""

WARMING, MEASURING, DRAINING, REFILLING, FINISHED = "warming", "measuring", "boundary", "refill", "finished"


def ramp_batches(num_workers: int, prefetch_factor: int, epoch_batches: int | None) -> int:
    """Return how many batches of an epoch to leave out while the queue is still filling.

    The queue holds workers x prefetch batches; they come for free at first. Capped at 32 batches
    and at half an epoch, so that a slow loop or a short epoch still gives a window: an epoch of one batch has
    no ramp, and its workers' start is time of that batch.
    """
    ramp = min(max(num_workers * max(prefetch_factor, 1), 3), 32)
    return ramp if epoch_batches is None else min(ramp, epoch_batches // 2)


class Tally:
    """Batches of the steady window: how many, how long, where their time went.

    Attributes:
        time_s, samples, batches: of all of them.
        parts: seconds of each part, as `host_times.HostTimes` returns them.
        durations: seconds of each, in order.
    """

    def __init__(self) -> None:
        self.time_s = 0.0
        self.samples = self.batches = 0
        self.parts = [0.0] * 5
        self.durations: list = []

    def add(self, duration: float, samples: int, parts: tuple, batches: int) -> None:
        self.time_s += duration
        self.samples += samples
        self.batches += batches
        self.parts = [total + seconds for total, seconds in zip(self.parts, parts)]  # noqa: B905 - Python 3.9
        self.durations.append(duration)

    def copy(self) -> Tally:
        same = copy.copy(self)
        same.durations = [*self.durations]
        return same


class LoopClock:
    """Accounts a loop's time: what is steady, what an epoch boundary costs, when it is enough.

    Args:
        synchronize: returns when the device has no work left; called at a segment's ends only.
        window_s: steady seconds to aim for.
        interval_goal: relative half width at which the window may close.
        ramp: batches to leave out at the start of each epoch.
        group: the window closes on a multiple of this (the workers: batches come in their order).
        can_force_boundary: whether the caller can end the epoch early.
        rate_to_beat: samples/s; a loop that is surely slower is given up early. None for never.
        throw_away: throws away the batches that lie ready, which a loop that was held up got for free; None
            where the script has to see all of them.
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
        throw_away: Callable[[], None] | None = None,
    ) -> None:
        self._clock, self._synchronize = clock, synchronize
        self._window_s, self._interval_goal = window_s, interval_goal
        self._ramp, self._group = ramp, max(1, group)
        self._can_force, self._throw_away = can_force_boundary, throw_away
        self.phase = WARMING
        self.steady, self._kept = Tally(), Tally()
        self.discarded_batches = 0
        self.stop_reason: str | None = None
        self.interval: float | None = None
        self._boundaries: list = []  # (seconds, batches that a steady loop would have done in them)
        self._epoch_start: float | None = None
        self._epoch_batches = self._epoch_samples = 0
        self.whole_epoch: tuple = (None, None)  # samples and batches of the last that was not ended early
        self._stop_cost_s = 0.0
        self._has_ended = False  # any epoch
        # What the script did until now, as its first step, held the loop up: its queue is full.
        self._is_held_up = self._is_disturbed = True
        self._ramped, self._ramped_from = 0, clock()
        self._last_tick: float | None = None
        self._marks: list = []  # ticks since the device was last without work, that moment first
        self._rate_to_beat = rate_to_beat
        self._looks_left = 0 if rate_to_beat is None else LOOKS
        self._next_check_s = window_s / LOOKS if self._looks_left else window_s
        self._opened_at = self._closed_at = 0.0
        self._tries_left = _BOUNDARY_TRIES

    @property
    def counts_batch(self) -> bool:
        """Whether a batch that ends now counts in the steady window."""
        return self.phase == MEASURING and self._last_tick is not None

    @property
    def is_abandoned(self) -> bool:
        """Whether the loop was abandoned as too slow."""
        return self.stop_reason == "abandoned"

    @property
    def boundaries_seen(self) -> int:
        """Number of timed epoch boundaries."""
        return len(self._boundaries)

    @property
    def boundary_s(self) -> float | None:
        """Mean cost of an epoch boundary beyond steady batches, in seconds; None if none was seen."""
        costs_s = self._boundary_costs_s()
        return sum(costs_s) / len(costs_s) if costs_s else None

    @property
    def boundary_deviation_s(self) -> float | None:
        """Standard deviation of that cost between boundaries; None with fewer than two."""
        costs_s = self._boundary_costs_s()
        if len(costs_s) < 2:
            return None
        mean_s = sum(costs_s) / len(costs_s)
        return math.sqrt(sum((cost_s - mean_s) ** 2 for cost_s in costs_s) / (len(costs_s) - 1))

    def _boundary_costs_s(self) -> list:
        if not self.steady.batches:
            return []
        step_s = self.steady.time_s / self.steady.batches
        return [elapsed - batches * step_s for elapsed, batches in self._boundaries]

    @property
    def boundary_limit_s(self) -> float:
        """Seconds to wait for the boundary's end once the next epoch has begun."""
        return _CAP_WINDOWS * self._window_s

    def parts(self) -> dict:
        """Return the plain facts of a StepParts record: what no part claims is compute."""
        wait_s, fetch_cpu_s, optimizer_s, other_s, run_queue_s = self.steady.parts
        return {
            "data_wait_s": wait_s,
            "compute_s": max(0.0, self.steady.time_s - wait_s - optimizer_s - other_s),
            "optimizer_s": optimizer_s,
            "other_s": other_s,
            "fetch_cpu_s": fetch_cpu_s,
            "run_queue_s": None if math.isnan(run_queue_s) else run_queue_s,
        }

    def epoch_started(self, now: float) -> None:
        """The loader's iterator is being made (or reset), and its queue is empty."""
        self._epoch_start = now
        self._epoch_batches = self._epoch_samples = 0
        self._last_tick = None
        self._is_held_up = self._is_disturbed = False
        self._ramped, self._ramped_from = 0, now
        self._marks = [now]

    def tick(self, samples: int, parts: tuple, interrupted: bool, is_settled: bool, batches: int = 1) -> str:
        """The loop asks for its next batch.

        Args:
            samples: of the batch that just ended; 0 when this is the epoch's first tick.
            parts: what it spent where, as `host_times.HostTimes` returns it.
            interrupted: something else (a validation) ran within it; its time is left out.
            is_settled: whether nothing is being compiled any more.
            batches: loop batches since the last tick; more than one where only steps can be seen.

        Returns:
            The phase from here on. On "boundary" the caller ends the epoch as soon as it can.
        """
        now, ended, counts = self._clock(), samples > 0, self.counts_batch
        if ended:
            self._epoch_batches += batches
            self._epoch_samples += samples
            self._ramped += 1
            if len(self._marks) < _MAX_MARKS:
                self._marks.append(now)
        if self.phase == WARMING:
            self.discarded_batches += batches if ended else 0
        elif counts and ended and is_settled:
            self._add(now, samples, parts, interrupted, batches)
        elif counts and ended:
            self._begin_again(now, batches)
            counts = False
        self._is_disturbed |= interrupted and ended  # between epochs it is no part of either
        if not is_settled:
            self._hold_up(now)
        if counts:
            if self._enough(now):
                self._close(now)
        elif self.phase in (WARMING, MEASURING):
            self._open_when_ramped(now, is_settled)
        elif self.phase in (DRAINING, REFILLING):
            self._await_boundary(now, is_settled)
        return self.phase

    def epoch_ended(self, asked_at: float) -> None:
        """The epoch is over; `asked_at` is when the loop asked for the batch that did not come."""
        stop_s = self._clock() - asked_at
        owed = self._drain(asked_at)  # while the device worked that off, ending the epoch cost nothing
        self._stop_cost_s = max(0.0, stop_s - owed)
        if self.counts_batch:
            self.steady.time_s += owed
        self._last_tick = None
        self._has_ended = True
        if self._epoch_batches and self._epoch_start is not None:
            self._ramp = min(self._ramp, self._epoch_batches // 2)
            whole = self._epoch_samples, self._epoch_batches
            self.whole_epoch = self.whole_epoch if self.phase == DRAINING else whole
        if self.phase == DRAINING:
            self.phase = REFILLING

    def end(self) -> bool:
        """Close the window at the script's end; return whether there is a measurement."""
        if self.phase in (WARMING, MEASURING):
            if self.steady.batches < _MIN_BATCHES:
                return False
            self.interval, self.stop_reason = interval_relative(self.steady.durations), "loop_ended"
        self.phase = FINISHED
        return True

    def _add(self, now: float, samples: int, parts: tuple, interrupted: bool, batches: int) -> None:
        assert self._last_tick is not None
        if not interrupted:
            duration, (wait_s, *others) = now - self._last_tick, parts
            # A wait is booked when its batch arrives: what lies before the window is no part of it.
            self.steady.add(duration, samples, (min(wait_s, duration), *others), batches)
        self._last_tick = now

    def _begin_again(self, now: float, batches: int) -> None:
        """Graphs were captured within the segment: discard it back to its start."""
        assert self._last_tick is not None
        self.discarded_batches += self.steady.batches - self._kept.batches + batches
        self._opened_at += now - self._last_tick  # compiling is no part of the window's time
        self.steady, self._last_tick = self._kept, None

    def _hold_up(self, now: float) -> None:
        """The loop was paused and its queue fills up: restart the ramp; no boundary can be timed."""
        self._is_held_up = self._is_disturbed = True
        self._ramped, self._ramped_from = 0, now

    def _open_when_ramped(self, asked_at: float, is_settled: bool) -> None:
        if not is_settled or not self._is_ramped(asked_at):
            return
        self._take_boundary(asked_at + self._drain(asked_at))
        self._last_tick = self._marks[0]
        if self.phase == WARMING:
            self._opened_at = self._last_tick
        self._kept = self.steady.copy()
        self.phase = MEASURING

    def _is_ramped(self, now: float) -> bool:
        """Whether the queue is as full as it stays: after batches enough, or time enough.

        What lies ready after the loop was held up is thrown away: of slow batches it would take minutes until
        they were trained on, and they came for free.
        """
        if self._is_held_up and self._throw_away is not None:
            self._throw_away()
            self._is_held_up = False
            self._ramped, self._ramped_from = 0, self._clock()
            return False
        max_s = (_MAX_WINDOWS if self._is_held_up else _CAP_WINDOWS) * self._window_s
        is_late = self._ramped >= _MIN_RAMP and now - self._ramped_from >= max_s
        return is_late or self._ramped >= self._ramp

    def _take_boundary(self, until: float) -> None:
        if self._epoch_start is not None and self._has_ended and not self._is_disturbed:
            self._boundaries.append((until - self._epoch_start + self._stop_cost_s, self._epoch_batches))

    def _await_boundary(self, now: float, is_settled: bool) -> None:
        """Finish once the next epoch's queue is full; without the boundary where that can't be timed."""
        ramped = self._ramped >= self._ramp
        is_late = self._ramped > 0 and now - self._ramped_from > self.boundary_limit_s
        if self.phase == REFILLING and self._is_disturbed and self._tries_left:
            if is_settled:
                self._force_boundary(now)
            return
        if self.phase == REFILLING and not self._is_disturbed:
            if not (ramped or is_late):
                return
            self._take_boundary(now + self._drain(now))
        elif self.phase == DRAINING and now - self._closed_at <= self.boundary_limit_s:
            return
        self.phase = FINISHED

    def _force_boundary(self, now: float) -> None:
        self.phase, self._closed_at = DRAINING, now
        self._tries_left -= 1

    def _enough(self, now: float) -> bool:
        count, window_s = self.steady.batches, self._window_s
        # Epochs of few batches are mostly boundary: then whole epochs, not steady seconds, use up the time.
        elapsed_s = now - self._opened_at
        late = elapsed_s >= _LATE_WINDOWS * window_s and count >= max(_MIN_BATCHES, self._group)
        late |= elapsed_s >= _MAX_WINDOWS * window_s and count >= _MIN_SLOW_BATCHES
        if not late and (self.steady.time_s < self._next_check_s or count < _MIN_SLOW_BATCHES):
            return False
        capped = late or self.steady.time_s >= _CAP_WINDOWS * window_s
        if count % self._group and not capped:
            return False
        if self._looks_left and self._is_too_slow():
            self.stop_reason = "abandoned"
            return True
        if self.steady.time_s < window_s and not capped:
            return False
        self._next_check_s = self.steady.time_s + window_s / 10
        # Workers may hand over all at once: less than a round of them says nothing.
        self.interval = interval_relative(self.steady.durations) if count >= self._group else None
        if count >= _MIN_BATCHES and self.interval is not None and self.interval <= self._interval_goal:
            self.stop_reason = "interval"
        elif capped:
            self.stop_reason = "time_cap"
        return self.stop_reason is not None

    def _is_too_slow(self) -> bool:
        """Check whether the loop is certainly slower than the rate to beat, and when to check again.

        A loop that is still getting faster is not judged by its start.
        """
        if len(self.steady.durations) < _MIN_TO_LOOK or self.steady.batches < 2 * self._group:
            return False  # it looks as soon as there are
        self._looks_left -= 1
        self._next_check_s = min(self.steady.time_s + self._window_s / LOOKS, self._window_s)
        min_s = self.steady.time_s * min_relative(self.steady.durations)
        if (
            self.steady.samples >= min_s * (self._rate_to_beat or 0.0)
            or (trend_relative(self.steady.durations) or 0.0) < 0
        ):
            return False
        self.interval = interval_relative(self.steady.durations)
        return True

    def _close(self, now: float) -> None:
        """Close the window: pending device work belongs to its last batch."""
        self.steady.time_s += self._drain(now)
        self._last_tick = None
        if self._boundaries or not self._can_force or self.is_abandoned:
            self.phase = FINISHED
            return
        self._force_boundary(self._marks[0])

    def _drain(self, asked_at: float) -> float:
        """Wait until the device is idle; returns how far it was behind the host."""
        before = self._clock()
        self._synchronize()
        now = self._clock()
        batches_s = [later - tick for tick, later in zip(self._marks, self._marks[1:])]  # noqa: B905 - Python 3.9
        self._marks = [now]
        was_behind = now - before > _SYNCHRONIZE_S
        return owed_s(now - asked_at if was_behind else 0.0, batches_s)
