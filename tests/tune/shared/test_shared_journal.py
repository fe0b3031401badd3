"""The journal in a shared folder: whose its lock is, also when its owner was killed or stopped."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from optuna.storages import JournalStorage
from scripted_search import ScriptedClock

from tunekit.tune.shared.claims import Claim, Claims
from tunekit.tune.shared.journal import GRACE_S, Journal, JournalLock
from tunekit.tune.shared.storage import SHARED_JOURNAL, Patience

ENTRY = {"op_code": 1}


class Hosts:
    """Hosts that want the lock of one folder; time passes only while one of them waits."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.clock = ScriptedClock()

    def lock(self, meanwhile: Callable[[], object] = lambda: None) -> JournalLock:
        """Return a host's lock, and what others do while it waits."""

        def pause(seconds: float) -> None:
            self.clock.now += seconds
            meanwhile()

        return JournalLock(self.folder, clock=self.clock, pause=pause)

    def held(self) -> JournalLock:
        lock = self.lock()
        lock.acquire()
        return lock


@pytest.fixture
def hosts(tmp_path: Path) -> Hosts:
    return Hosts(tmp_path / "lock")


def test_a_lock_that_is_given_back_is_had_by_the_next_without_a_pause(hosts: Hosts):
    first = hosts.held()
    first.insist()
    first.release()
    began_at = hosts.clock.now
    hosts.held().insist()
    assert hosts.clock.now == began_at


def test_who_waits_has_it_when_it_is_given_back(hosts: Hosts):
    began_at, first = hosts.clock.now, hosts.held()
    second = hosts.lock(meanwhile=lambda: hosts.clock.now > began_at + 5 and first.release())
    second.acquire()
    second.insist()
    assert 5 < hosts.clock.now - began_at < GRACE_S


def test_what_a_killed_host_left_is_taken_over_after_the_grace_period_and_no_sooner(hosts: Hosts):
    began_at = hosts.clock.now
    hosts.held()
    hosts.held().insist()
    assert GRACE_S < hosts.clock.now - began_at < GRACE_S + 2


def test_a_lock_that_changes_hands_is_never_taken_over(hosts: Hosts):
    """One host waits for minutes; the others have the lock in turns, each for less than the grace period."""
    began_at, at, turns = hosts.clock.now, [hosts.held()], list[float]()

    def others() -> None:
        if hosts.clock.now >= began_at + 20 * (len(turns) + 1) and len(turns) < 9:
            turns.append(hosts.clock.now)
            at[0].insist()
            at[0].release()
            at[0] = hosts.held()
        elif len(turns) == 9:
            at[0].release()

    last = hosts.lock(meanwhile=others)
    last.acquire()
    last.insist()
    assert len(turns) == 9


def test_who_was_stopped_can_not_end_the_hold_of_who_took_over(hosts: Hosts):
    stopped, other = hosts.held(), hosts.held()
    with pytest.raises(OSError, match="taken over by another host"):
        stopped.insist()
    stopped.release()
    other.insist()


def test_of_two_that_waited_for_a_killed_host_the_slower_does_not_end_the_hold_of_the_faster(hosts: Hosts):
    hosts.held()
    faster, taken_at = hosts.lock(), list[float]()

    def take_over() -> None:
        if not taken_at and hosts.clock.now > 1000.0 + GRACE_S - 2:
            faster.acquire()
            taken_at.append(hosts.clock.now)
        elif taken_at and hosts.clock.now < taken_at[0] + GRACE_S:
            faster.insist()

    slower = hosts.lock(meanwhile=take_over)
    slower.acquire()
    slower.insist()
    assert hosts.clock.now > taken_at[0] + GRACE_S


def test_a_lock_that_can_not_be_taken_over_is_waited_for_without_haste(hosts: Hosts):
    (hosts.folder / "held" / "no file").mkdir(parents=True)
    pauses = list[float]()

    def give_up() -> None:
        pauses.append(hosts.clock.now)
        if hosts.clock.now > 1000.0 + 3 * GRACE_S:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        hosts.lock(meanwhile=give_up).acquire()
    assert len(pauses) < 5 * GRACE_S


def test_a_wait_that_is_broken_off_leaves_nothing_behind(hosts: Hosts):
    first = hosts.held()

    def interrupt() -> None:
        raise KeyboardInterrupt

    before = sorted(hosts.folder.rglob("*"))
    with pytest.raises(KeyboardInterrupt):
        hosts.lock(meanwhile=interrupt).acquire()
    assert sorted(hosts.folder.rglob("*")) == before
    first.insist()


def test_one_at_a_time_has_it(tmp_path: Path):
    inside, most = list[int](), list[int]()

    def work(number: int) -> None:
        lock = JournalLock(tmp_path / "lock")
        for _ in range(25):
            lock.acquire()
            inside.append(number)
            most.append(len(inside))
            lock.insist()
            inside.remove(number)
            lock.release()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert most == [1] * 100


# --- a journal -----------------------------------------------------------------------------


class StoppedOnce(JournalLock):
    """Of a host that is stopped when it first has the lock, while another takes it over."""

    def __init__(self, hosts: Hosts, meanwhile: Callable[[JournalLock], object]) -> None:
        super().__init__(hosts.folder)
        self._other, self._meanwhile = hosts.lock(), meanwhile
        self.stops = 0

    def acquire(self) -> None:
        super().acquire()
        if not self.stops:
            self.stops += 1
            self._other.acquire()
            self._meanwhile(self._other)


def test_who_was_stopped_writes_nothing_and_cuts_nothing(hosts: Hosts, tmp_path: Path):
    path, half = tmp_path / SHARED_JOURNAL, b'{"op_code":8,"tri'
    others = list[JournalLock]()

    def write_half(other: JournalLock) -> None:
        path.write_bytes(half)
        others.append(other)

    with pytest.raises(OSError, match="taken over by another host"):
        Journal(path, StoppedOnce(hosts, write_half)).append_logs([ENTRY])
    assert path.read_bytes() == half, "the other is in the middle of a line"
    others[0].insist()


def test_a_host_that_was_stopped_while_it_had_the_lock_claims_all_the_same(hosts: Hosts, tmp_path: Path):
    lock = StoppedOnce(hosts, JournalLock.release)
    storage = JournalStorage(Journal(tmp_path / SHARED_JOURNAL, lock))
    patience = Patience("the place", lambda said: None, hosts.clock, pause=lambda seconds: None)
    claim = Claims(storage, "study", "one", patience).claim("fit", {})
    assert lock.stops == 1
    assert isinstance(claim, Claim) and claim.number == 0


def test_a_relative_folder_has_a_lock_that_is_taken_over_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    hosts = Hosts(Path("shared") / "lock")
    hosts.held()
    journal = Journal(Path(SHARED_JOURNAL), hosts.lock())
    journal.append_logs([ENTRY])
    assert list(journal.read_logs(0)) == [ENTRY]
    assert hosts.clock.now > 1000.0 + GRACE_S


def test_a_journal_that_has_vanished_is_not_begun_anew(hosts: Hosts, tmp_path: Path):
    journal = Journal(tmp_path / SHARED_JOURNAL, hosts.lock())
    (tmp_path / SHARED_JOURNAL).unlink()
    with pytest.raises(FileNotFoundError):
        journal.append_logs([ENTRY])
    assert not (tmp_path / SHARED_JOURNAL).exists()


@pytest.mark.parametrize("seen_before", [0, 2])
def test_a_line_that_can_not_be_read_is_named_with_the_remedy(hosts: Hosts, tmp_path: Path, seen_before: int):
    journal = Journal(tmp_path / SHARED_JOURNAL, hosts.lock())
    journal.append_logs([ENTRY] * 3)
    assert len(list(journal.read_logs(seen_before))) == 3 - seen_before
    with (tmp_path / SHARED_JOURNAL).open("ab") as file:
        file.write(b"no line of a journal\n" + json.dumps(ENTRY).encode() + b"\n")
    with pytest.raises(OSError, match=r"line 4 of .*share.journal can't be read; .* remove this line"):
        list(journal.read_logs(seen_before))
