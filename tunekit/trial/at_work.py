"""Whether a trial's processes work though its loop does not move: they list files, map data, compile."""

import time
from collections.abc import Callable

from tunekit.hardware.telemetry.tree import TreeMeter

_LOOK_EVERY_S = 2.0
_CPU_SHARE = 0.02
"""Of one core: a launcher that waits for its ranks takes a tenth of that, listing a network's files more."""
_READ_BYTES_PER_S = 256 << 10


class AtWork:
    """Remembers when the processes last worked on a CPU or read from files.

    Args:
        tree: the trial's processes.
        clock: returns seconds.
    """

    def __init__(self, tree: TreeMeter, clock: Callable[[], float] = time.monotonic) -> None:
        self._tree = tree
        self._clock = clock
        self._looked_at = self.last_at = clock()
        self._cpu_s = 0.0
        self._read_bytes = 0

    def look(self) -> None:
        """See whether they have worked since the last look, if it is time for one."""
        now = self._clock()
        elapsed_s = now - self._looked_at
        if elapsed_s < _LOOK_EVERY_S:
            return
        self._looked_at = now
        activity = self._tree.activity()
        # A process that ends takes its counters with it until its parent has collected it.
        worked_s = activity.cpu_s - self._cpu_s
        read_bytes = max(activity.read_bytes, activity.rchar_bytes) - self._read_bytes
        self._cpu_s += max(0.0, worked_s)
        self._read_bytes += max(0, read_bytes)
        if worked_s >= _CPU_SHARE * elapsed_s or read_bytes >= _READ_BYTES_PER_S * elapsed_s:
            self.last_at = now
