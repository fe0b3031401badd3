"""Computes the time of a training with interruptions (spot machines) or sessions of limited length.

Interruptions are assumed to be a Poisson process: the time to the next one does not depend on the last.

Sources:
    Young 1974, A first order approximation to the optimum checkpoint interval, CACM 17(9).
    Daly 2006, A higher order estimate of the optimum checkpoint interval for restart dumps, FGCS 22(3).
"""

import math
from typing import NamedTuple

SOURCE = "checkpoints: Young 1974, CACM 17(9); Daly 2006, FGCS 22(3)"
WEEK_S = 7 * 24 * 3600.0


def daly_interval_s(checkpoint_s: float, interrupted_every_s: float) -> float:
    """Return Daly's work time between two checkpoints: sqrt(2CM) - C, or M once C reaches M/2.

    Args:
        checkpoint_s: time to write one checkpoint, C.
        interrupted_every_s: mean time between interruptions, M.
    """
    if checkpoint_s >= interrupted_every_s / 2:
        return interrupted_every_s
    return math.sqrt(2 * checkpoint_s * interrupted_every_s) - checkpoint_s


def time_without_checkpoints_s(work_s: float, interrupted_every_s: float, restart_s: float) -> float:
    """Return the expected time until the work is done in one piece: M e^(R/M) (e^(T/M) - 1).

    Returns:
        Seconds; infinity if they overflow.
    """
    try:
        restarts = math.exp(restart_s / interrupted_every_s)
        return interrupted_every_s * restarts * math.expm1(work_s / interrupted_every_s)
    except OverflowError:
        return math.inf


def spot_time_s(
    work_s: float, checkpoint_s: float | None, interrupted_every_s: float, restart_s: float
) -> float:
    """Return the expected time of a training on spot, with checkpoints if they pay off.

    A training shorter than Daly's interval tau writes none: it runs in one piece. Otherwise, every interval
    is a piece of work that has to succeed as a whole: (T/tau) M e^(R/M) (e^((tau+C)/M) - 1).

    Args:
        work_s: time of the training itself, T.
        checkpoint_s: time to write one checkpoint, C; None for a script that writes none.
        interrupted_every_s: mean time between interruptions, M.
        restart_s: from an interruption to the first step after it, R.
    """
    interval_s = math.inf if checkpoint_s is None else daly_interval_s(checkpoint_s, interrupted_every_s)
    if checkpoint_s is None or interval_s >= work_s:
        return time_without_checkpoints_s(work_s, interrupted_every_s, restart_s)
    piece_s = time_without_checkpoints_s(interval_s + checkpoint_s, interrupted_every_s, restart_s)
    return work_s / interval_s * piece_s


def sessions_needed(work_s: float, max_session_s: float, overhead_s: float) -> float:
    """Return the least number of sessions that the work fits in.

    Every session but the last ends with a checkpoint and every one but the first begins with a restart, so
    n sessions hold n x max_session_s - (n - 1) x overhead_s of work.

    Args:
        work_s: time of the training itself.
        max_session_s: longest session.
        overhead_s: one checkpoint and one restart.

    Returns:
        A whole number; infinity if a session is too short to make progress.
    """
    if work_s <= max_session_s:
        return 1.0
    if overhead_s >= max_session_s:
        return math.inf
    return float(math.ceil((work_s - overhead_s) / (max_session_s - overhead_s)))


def with_checkpoints_s(work_s: float, interval_s: float, checkpoint_s: float, max_session_s: float) -> float:
    """Return the time including a checkpoint after every interval; work that fits one session has none.

    Args:
        work_s: time of the training itself.
        interval_s: work between two checkpoints.
        checkpoint_s: time to write one.
        max_session_s: longest session.
    """
    if work_s <= max_session_s:
        return work_s
    return work_s * (1 + checkpoint_s / interval_s)


class WeeklyQuota(NamedTuple):
    """How a weekly quota cuts a training into weeks."""

    weeks: float
    """Calendar weeks that the training takes."""
    sessions: float
    elapsed_s: float
    """Time from its first step to its last, including days of waiting for the next week's quota."""


def under_quota(
    work_s: float, max_session_s: float, overhead_s: float, weekly_s: float | None
) -> WeeklyQuota:
    """Return how a weekly quota of session time divides the work; the first week's quota is unused.

    A week of k sessions allows its quota less k x overhead_s of work; the first session needs no restart and
    the last one no checkpoint, which saves one overhead. A remaining quota shorter than the overhead is not
    used.

    Args:
        work_s: time of the training itself.
        max_session_s: longest session.
        overhead_s: one checkpoint and one restart.
        weekly_s: session time allowed per week; None for no quota.

    Returns:
        Whole numbers of weeks and sessions; infinities if a session is too short to make progress.
    """
    if weekly_s is None:
        sessions = sessions_needed(work_s, max_session_s, overhead_s)
        return WeeklyQuota(1.0, sessions, work_s + (sessions - 1) * overhead_s)
    longest_s = min(max_session_s, weekly_s)
    whole, rest_s = divmod(weekly_s, longest_s)
    used_s = weekly_s if rest_s > overhead_s else whole * longest_s
    a_week = whole + (rest_s > overhead_s)
    held_s = used_s - a_week * overhead_s
    if work_s > longest_s and held_s <= 0:
        return WeeklyQuota(math.inf, math.inf, math.inf)
    weeks = float(max(1, math.ceil((work_s - overhead_s) / held_s))) if work_s > longest_s else 1.0
    last_s = work_s - (weeks - 1) * held_s
    in_last = sessions_needed(last_s, longest_s, overhead_s)
    elapsed_s = (weeks - 1) * WEEK_S + last_s + (in_last - 1) * overhead_s
    return WeeklyQuota(weeks, (weeks - 1) * a_week + in_last, elapsed_s)
