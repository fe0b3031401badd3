"""Leases of what hosts claim: kept by raising a counter, lost by silence, with no clock of another host's."""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

BEAT_S = 10.0
"""Seconds between two beats of a host."""
LEASE_S = 60.0
"""Seconds of silence after which a host has lost what it claimed. A host that is killed while it writes to a
journal holds all others up for 30 s, in which nobody beats."""
_LOOKS = 3
"""That a watcher must have taken at a silent claim, at the least."""
_LOOK_S = 1.5


@dataclass(frozen=True)
class Pace:
    """How often a host is heard of, and how long it may be silent."""

    beat_s: float = BEAT_S
    lease_s: float = LEASE_S
    look_s: float = _LOOK_S
    """Between two looks of a host that waits for another."""
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep


USUAL_PACE = Pace()


@dataclass
class _Seen:
    beats: int
    since: float
    looks: int = 0


class LeaseWatch:
    """Who was silent for too long, by the watcher's own clock.

    A watcher that itself was stopped, or could not look, concludes nothing from what it did not see.

    Args:
        lease_s: seconds of silence after which a lease is lost.
        clock: returns seconds; only differences count.
    """

    def __init__(self, lease_s: float, clock: Callable[[], float]) -> None:
        self._lease_s = lease_s
        self._clock = clock
        self._seen: dict[int, _Seen] = {}
        self._looked_at: float | None = None

    def look(self, beats: Mapping[int, int]) -> tuple[int, ...]:
        """Return whose lease is lost.

        Args:
            beats: the counter of each claim that is open now.
        """
        now = self._clock()
        if self._looked_at is None or now - self._looked_at > self._lease_s / 2:
            self._seen.clear()
        self._looked_at = now
        before, self._seen = self._seen, {}
        for claim, count in beats.items():
            seen = before.get(claim)
            if seen is None or seen.beats != count:
                seen = _Seen(count, now)
            self._seen[claim] = seen
            seen.looks += 1
        return tuple(
            claim
            for claim, seen in self._seen.items()
            if now - seen.since >= self._lease_s and seen.looks > _LOOKS
        )


class Beating(Protocol):
    """What a heart keeps alive."""

    def beat(self) -> object:
        """Raise the counters of what this host claimed, and look at those of others."""
        ...


class Heart:
    """Beats in the background while a host works; use it in a `with` block.

    Args:
        claims: each is told to beat.
        beat_s: seconds between two beats.
    """

    def __init__(self, claims: Sequence[Beating], beat_s: float = BEAT_S) -> None:
        self._claims = claims
        self._beat_s = beat_s
        self._is_over = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="tunekit lease", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def beat(self) -> None:
        """Beat once, and look at other hosts."""
        for claims in self._claims:
            claims.beat()

    def check(self) -> None:
        """Raise the error that it ended with, if it did: no lease is kept since."""
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._is_over.wait(self._beat_s):
                self.beat()
        except BaseException as error:
            self._failure = error
