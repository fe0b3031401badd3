"""Who has lost a lease: by silence that the watcher itself saw, and by nothing else."""

import threading

import pytest
from scripted_search import ScriptedClock

from tunekit.tune.shared.leases import Heart, LeaseWatch

LEASE_S = 60.0


class Watcher:
    """Looks every so often at counters that the test sets."""

    def __init__(self) -> None:
        self.clock = ScriptedClock()
        self.watch = LeaseWatch(LEASE_S, self.clock)

    def look(self, after_s: float, **beats: int) -> tuple[int, ...]:
        self.clock.now += after_s
        return self.watch.look({int(name[1:]): count for name, count in beats.items()})

    def looks(self, times: int, every_s: float, **beats: int) -> tuple[int, ...]:
        lost: tuple[int, ...] = ()
        for _ in range(times):
            lost = self.look(every_s, **beats)
        return lost


@pytest.fixture
def watcher() -> Watcher:
    return Watcher()


def test_a_lease_is_lost_after_a_minute_of_silence_and_no_sooner(watcher: Watcher):
    watcher.look(0, c7=4)
    assert watcher.looks(5, 10, c7=4) == ()
    assert watcher.look(9.9, c7=4) == ()
    assert watcher.look(0.1, c7=4) == (7,)


def test_one_beat_in_a_minute_keeps_it(watcher: Watcher):
    for count in range(5):
        assert watcher.looks(5, 10, c7=count) == ()


def test_only_the_silent_one_loses_it(watcher: Watcher):
    lost = ()
    for count in range(8):
        lost = watcher.look(10, c1=count, c2=3)
    assert lost == (2,)


def test_a_watcher_that_was_stopped_for_an_hour_concludes_nothing_from_it(watcher: Watcher):
    watcher.looks(3, 10, c7=4)
    assert watcher.look(3600, c7=4) == ()
    assert watcher.looks(5, 10, c7=4) == ()
    assert watcher.look(10, c7=4) == (7,)


def test_one_late_look_counts_as_none(watcher: Watcher):
    watcher.looks(4, 10, c7=4)
    assert watcher.look(LEASE_S / 2 + 1, c7=4) == ()


def test_a_claim_is_seen_some_times_before_it_is_lost(watcher: Watcher):
    watcher.look(0, c7=4)
    assert watcher.look(30, c7=4) == ()
    assert watcher.look(30, c7=4) == ()
    assert watcher.look(1, c7=4) == (7,)


def test_what_has_ended_is_forgotten(watcher: Watcher):
    watcher.looks(6, 10, c7=4)
    watcher.look(10)
    assert watcher.looks(6, 10, c7=4) == ()


# --- what beats in the background -----------------------------------------------------------


class Beaten:
    """Ends with an error at its second beat."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.beats = 0
        self.is_over = threading.Event()

    def beat(self) -> None:
        self.beats += 1
        if self.beats == 2:
            self.is_over.set()
            if self.error is not None:
                raise self.error


def test_what_ends_the_heart_is_raised_where_the_host_asks():
    broken = Beaten(KeyError("about"))
    with Heart([broken], beat_s=0) as heart:
        broken.is_over.wait()
    assert broken.beats == 2
    with pytest.raises(KeyError, match="about"):
        heart.check()


def test_a_heart_that_beats_has_nothing_to_say():
    sound = Beaten()
    with Heart([sound], beat_s=0) as heart:
        sound.is_over.wait()
        heart.check()
    heart.check()
    assert sound.beats >= 2
