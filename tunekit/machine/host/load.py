"""How busy the CPUs are that this process may use."""

import os

import psutil

_SAMPLE_S = 1.0


def busy_share(sample_s: float = _SAMPLE_S) -> float:
    """Return the share of its CPUs' time that programs used, over a sample that this waits for.

    Between trials tunekit itself does nothing, so all of it is other programs'.

    Args:
        sample_s: how long to look, in seconds.
    """
    shares: list[float] = psutil.cpu_percent(interval=sample_s, percpu=True)
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(len(shares))
    own = [shares[cpu] for cpu in allowed if cpu < len(shares)] or shares
    return sum(own) / len(own) / 100
