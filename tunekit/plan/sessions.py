"""Training in sessions of limited length, as notebook services give them."""

import math


def sessions_needed(work_s: float, max_session_s: float, overhead_s: float) -> float:
    """Return the least number of sessions that the work fits in.

    Every session but the last ends with a checkpoint and every one but the first begins with a restart, so
    n sessions hold n x max_session_s - (n - 1) x overhead_s of work.

    Args:
        work_s: time of the training itself.
        max_session_s: longest session.
        overhead_s: one checkpoint and one restart.

    Returns:
        A whole number; infinity when a session is too short to get anywhere.
    """
    if work_s <= max_session_s:
        return 1.0
    if overhead_s >= max_session_s:
        return math.inf
    return float(math.ceil((work_s - overhead_s) / (max_session_s - overhead_s)))


def with_checkpoints_s(work_s: float, interval_s: float, checkpoint_s: float, max_session_s: float) -> float:
    """Return the work with a checkpoint after every interval of it; what fits one session writes none.

    Args:
        work_s: time of the training itself.
        interval_s: work between two checkpoints.
        checkpoint_s: time to write one.
        max_session_s: longest session.
    """
    if work_s <= max_session_s:
        return work_s
    return work_s * (1 + checkpoint_s / interval_s)


def session_time_s(work_s: float, max_session_s: float, overhead_s: float) -> float:
    """Return the time of all sessions together: the work, and what lies between two of them."""
    sessions = sessions_needed(work_s, max_session_s, overhead_s)
    return work_s + (sessions - 1) * overhead_s
